"""Mutants that differ only where one query meets cached keys."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from posedu.numpy.attention import Hooks, Tokens
from posedu.tools.kernels.mutants.mutated_case import changed_tokens
from posedu.tools.kernels.mutants.reference import Array, Mutant, Reference
from posedu.tools.kernels.oracle import Case


def _with_input_of(row: slice, hooks: Hooks) -> Hooks:
    """Return hooks that take one token's layer input, that of ``row``, for all tokens.

    Hooks are the functions by which an encoding acts on attention.
    """
    given = hooks.logits

    def tokens_of(tokens: Tokens) -> Tokens:
        return replace(tokens, x=np.repeat(tokens.x[row], len(tokens.x), axis=0))

    return replace(
        hooks,
        bias=lambda tokens: hooks.bias(tokens_of(tokens)),
        logits=given and (lambda tokens: given(tokens_of(tokens))),
    )


def of_decoding(case: Case, uses_positions: bool) -> Iterator[Mutant]:
    """Yield mutants (known faults) that show if the last token alone is a query.

    ``case`` is a test case of the encoding; ``uses_positions`` is the result of
    :func:`depends_on_positions`.
    """

    def at_zero(hooks: Hooks) -> Hooks:
        given = hooks.logits

        def tokens_of(tokens: Tokens) -> Tokens:
            return replace(tokens, query_positions=0 * tokens.query_positions)

        def rotate(q: Array, k: Array, at: Array) -> tuple[Array, Array]:
            return hooks.rotate(q, k, 0 * at)[0], hooks.rotate(q, k, at)[1]

        return replace(
            hooks,
            rotate=rotate,
            bias=lambda tokens: hooks.bias(tokens_of(tokens)),
            logits=given and (lambda tokens: given(tokens_of(tokens))),
            mix=lambda weights, v, tokens: hooks.mix(weights, v, tokens_of(tokens)),
        )

    def first_key(hooks: Hooks) -> Hooks:
        def weigh(scores: Array, tokens: Tokens) -> Array:
            mask = np.zeros_like(tokens.mask)
            mask[:, 0] = True
            return hooks.weigh(scores, replace(tokens, mask=mask))

        return replace(hooks, weigh=weigh)

    changes = [
        ("one query sees the first key alone: the causal mask begins there", first_key)
    ]
    if uses_positions:
        text = "one query is taken to be at position 0, its index among queries"
        changes.append((text, at_zero))
    for text, row in (
        ("one query: the layer's input of the first token is used", slice(1)),
        ("one query: the layer's input of this token is used for all", slice(-1, None)),
    ):
        change = partial(_with_input_of, row)
        on_hooks = partial(Reference.with_hooks, change=change)
        if "x" in case.inputs and changed_tokens(case, on_hooks)[-1]:
            changes.append((text, change))
    for text, change in changes:

        def changed(reference: Reference, change=change) -> Reference:
            return reference.with_hooks(change) if reference.is_decoding else reference

        yield Mutant("decoding", text, changed, alone=True)
