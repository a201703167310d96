"""Mutants of biases and of the scale of logits."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posedu.catalog import CATALOG
from posedu.numpy.attention import Hooks
from posedu.tools.kernels.mutants.reference import Array, Change, Mutant, Reference
from posedu.tools.kernels.oracle import Case


def _on_bias(change: Change) -> Callable[[Reference], Reference]:
    def changed(hooks: Hooks) -> Hooks:
        return replace(hooks, bias=lambda tokens: change(hooks.bias(tokens), tokens.d))

    return lambda reference: reference.with_hooks(changed)


def _times(sign: int, bias: Array, d: int) -> Array:
    """Multiply an attention bias by ``sign``, except where it is −∞, which hides keys.

    ``d``, the head dimension, is not used.
    """
    hidden = np.isinf(bias)
    return np.where(hidden, bias, sign * np.where(hidden, 0, bias))


def _bias_times(power: float) -> Callable[[Reference], Reference]:
    return _on_bias(lambda b, d: b * d**power)


def with_scale(power: float) -> Callable[[Reference], Reference]:
    """Return a change of the reference whose scale of inner products is d^power."""

    def changed(hooks: Hooks) -> Hooks:
        return replace(hooks, scale=lambda d: d**power)

    return lambda r: r.with_hooks(changed)


def shifted_distance(step: int) -> Callable[[Reference], Reference]:
    """Return a change of the reference that adds ``step`` to every distance.

    The distance is that between a query and a key, of which the bias is a function.
    """

    def changed(hooks: Hooks) -> Hooks:
        def bias(tokens):
            at = tokens.query_positions + step
            return hooks.bias(replace(tokens, query_positions=at))

        return replace(hooks, bias=bias)

    return lambda r: r.with_hooks(changed)


def masked_by_positions(hooks: Hooks) -> Hooks:
    """Return hooks with a causal mask by positions, which is wrong if texts are packed.

    Hooks are the functions by which an encoding acts on attention. Positions begin
    again at 0 in each packed text; the right mask goes by the order of tokens.
    """

    def weights(scores, tokens):
        mask = tokens.mask
        if not mask.all():
            mask = tokens.key_positions <= tokens.query_positions[:, None]
        return hooks.weigh(scores, replace(tokens, mask=mask))

    return replace(hooks, weigh=weights)


def hooks_of(case: Case) -> Hooks:
    """Return the reference's hooks, by which an encoding acts on attention."""
    implementation = CATALOG[case.name].implementation("numpy")
    return implementation(**case.options, **case.parameters)


RANK_HEADS = (1, 2, 3, 4, 6)


MIXING_HEADS = ("dape",)
"""Encodings in which a head depends on all others, so that no rank has a part."""


def _of_ranks(options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield mutants (known faults) in which ranks do not know how many heads there are.

    A rank has the given number of heads of a model that is split by heads. There are
    none unless the number of heads is among the encoding's ``options``.
    """
    for heads in RANK_HEADS if "heads" in options else ():

        def of_rank(implementation: Change, heads: int = heads) -> Change:
            def made(**own: Any) -> Hooks:
                few = min(heads, own["heads"])
                hooks = implementation(**own | {"heads": few})
                every = np.arange(own["heads"]) % few
                return replace(hooks, bias=lambda tokens: hooks.bias(tokens)[every])

            return made

        yield Mutant(
            "head offset",
            f"each {heads} heads have the biases of a model of {heads} heads, as on "
            "ranks that do not know the number of all heads",
            lambda r, change=of_rank: r.with_implementation(change),
            alone=True,
        )


def of_slopes(options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield mutants (known faults) of ALiBi's slopes; ``options`` are ALiBi's."""
    largest = options.get("bias_max", 8.0)
    formulas = {
        "8h/n": lambda h, n: largest * h / n,
        "2^(−8(h − 1)/n)": lambda h, n: 2.0 ** (-largest * (h - 1) / n),
        "2^(−8h/(n + 1))": lambda h, n: 2.0 ** (-largest * h / (n + 1)),
        "2^(−h)": lambda h, n: 2.0**-h,
        "2^(−8/h)": lambda h, n: 2.0 ** (-largest / h),
        "2^(8h/n)": lambda h, n: 2.0 ** (largest * h / n),
        "1/h": lambda h, n: 1.0 / h,
    }
    sides = 2 if options.get("sides") == "one-sided" else 1
    for text, formula in formulas.items():

        def change(reference: Reference, formula=formula) -> Reference:
            n = reference.options["heads"] // sides
            slopes = np.tile(formula(np.arange(1.0, n + 1), n), sides)
            return reference.with_options(slopes=slopes, bias_max=8.0)

        text = f"slopes are {text}, for h = 1 … n"
        yield Mutant("slope formula", text, change)


def of_biases(options: Mapping[str, Any]) -> Iterator[Mutant]:
    """Yield mutants (known faults) of biases; ``options`` are the encoding's."""
    for name, text, sign in (
        ("sign", "the bias has the opposite sign", -1),
        ("bias", "no bias is added", 0),
    ):
        yield Mutant(name, text, _on_bias(partial(_times, sign)))
    for how, power in (("divided", -0.5), ("multiplied", 0.5)):
        yield Mutant("factor", f"the bias is {how} by √d", _bias_times(power))
    yield Mutant(
        "factor",
        "the bias is multiplied by {:.6g}",
        lambda r, c: _on_bias(lambda b, d: c * b)(r),
        tuple(np.geomspace(1 / 64, 64, 25)),
    )
    yield from _of_ranks(options)
