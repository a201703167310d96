"""Selective attention: one head's queries lower the logits of keys from then on."""

import numpy as np
from jaxtyping import Bool, Float

from posedu._arguments import require_bool
from posedu.numpy._arrays import require_floats, require_mask
from posedu.numpy.attention import Hooks, Tokens

Array = np.ndarray


def selections(
    logits: Float[Array, "tokens tokens"],
    mask: Bool[Array, "tokens tokens"],
    *,
    spare_first: bool,
) -> Float[Array, "tokens tokens"]:
    """The selections S_lj: by how much token l deselects the earlier token j.

    S_lj is the positive part of the selector's logit, and 0 for a token's own key, for
    keys that ``mask`` hides, and, if ``spare_first``, for the first token of the text.
    Equation ``def-selections``.

    Parameters
    ----------
    logits
        The selector's scaled products.
    mask
        True where a query may attend to a key. A token that may not attend to itself is
        padding, and one that may attend to itself alone is the first of its text.
    """
    logits = require_floats("logits", logits)
    mask = require_mask(mask, logits.shape)
    is_token = np.diagonal(mask)
    is_first = is_token & (np.sum(mask, axis=1) == 1)
    counts = mask & is_token[:, None] & ~np.eye(len(mask), dtype=bool)
    if require_bool("spare_first", spare_first):
        counts = counts & ~is_first
    return np.where(counts, np.maximum(logits, 0.0), 0.0)


def accumulated_selections(
    selections: Float[Array, "tokens tokens"], *, include_current: bool
) -> Float[Array, "tokens tokens"]:
    """The sums F_ij of the selections S_lj of key j by the tokens l before query i.

    With ``include_current`` the query's own selections count, too. Equation
    ``def-selective-attention``.
    """
    selections = require_floats("selections", selections)
    sums = np.cumsum(selections, axis=0)
    if require_bool("include_current", include_current):
        return sums
    return np.concatenate((np.zeros_like(sums[:1]), sums[:-1]), axis=0)


def selective_attention(*, include_current: bool, spare_first: bool) -> Hooks:
    """Return the attention hooks of selective attention (arXiv 2410.02703).

    The first head's scaled products are the selector's logits. What they deselect is
    subtracted from the logits of every head, the first one, too. No parameters;
    positions are not used, except that ``spare_first`` spares the first token. Equation
    ``def-selective-attention``.

    Parameters
    ----------
    include_current
        Whether the selections of query i itself count for query i. The paper and
        x-transformers: no, they count from the next query on.
    spare_first
        Whether the first token of a text cannot be deselected (the paper, and the
        default of x-transformers).

    Returns
    -------
    Hooks (functions that attention calls) with ``bias``, for causal attention.

    Raises
    ------
    TypeError
        Options that are not true or false.
    """
    require_bool("include_current", include_current)
    require_bool("spare_first", spare_first)

    def bias(tokens: Tokens) -> Float[Array, "queries keys"]:
        logits = tokens.q[0] @ tokens.k[0].T / np.sqrt(tokens.d)
        of_tokens = selections(logits, tokens.mask, spare_first=spare_first)
        return -accumulated_selections(of_tokens, include_current=include_current)

    return Hooks(bias=bias, needs_causal=True)
