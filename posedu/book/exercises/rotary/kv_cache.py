"""Exercises on rotated KV caches, Self-Extend and latent attention."""

import numpy as np
import torch

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Sheet,
    draw,
)

# kv-cache-1: the shift of a kept token


def shift(j, n, sinks, window):
    """Return by how many positions the cached key of token j is shifted: an int.

    Of n tokens the first ``sinks`` and the last ``window`` are kept. The kept tokens
    are moved together, without a gap.
    """
    if j < sinks or n <= sinks + window:
        return 0
    return sinks + window - n


SHIFT = Exercise(
    name="kv-cache-1",
    title="Sinks and a window",
    kind="by hand",
    minutes=6,
    lines=3,
    statement=r"""
Of `n` cached tokens at positions 0 to n − 1 the first `sinks` and the last `window` are kept, all of them if there are no more than that.
The kept tokens are then moved together, so that no gap is left between them.
Token `j` is one of the kept tokens.
By which shift must its key be rotated?
At which position does the next query stand, and at which offset does it see the first sink?
""",
    hint=r"""
How many tokens are dropped?
Which of the kept tokens move, and in which direction?
""",
    cases=(
        (6, 7, 2, 2),
        (1, 7, 2, 2),
        (5, 7, 2, 2),
        (0, 3, 2, 2),
        (2, 3, 2, 2),
        (4, 5, 0, 1),
        (4, 5, 3, 2),
        (399, 400, 4, 100),
    ),
    solution=shift,
    misconceptions=(
        Misconception(
            "In the wrong direction",
            "The tokens of the window get smaller positions. The shift is new minus "
            "old.",
            lambda j, n, sinks, window: -shift(j, n, sinks, window),
        ),
        Misconception(
            "Sinks moved, too",
            "The sinks stay where they are. The tokens of the window move towards "
            "them.",
            lambda j, n, sinks, window: min(0, sinks + window - n),
        ),
        Misconception(
            "New position in place of the shift",
            "The shift is asked for, new position minus old.",
            lambda j, n, sinks, window: j + shift(j, n, sinks, window),
        ),
        Misconception(
            "Shift to position 0",
            "With the shift −j the key moves to position 0.",
            lambda j, n, sinks, window: -j if j >= sinks else 0,
        ),
        Misconception(
            "Sinks forgotten",
            "The sinks are kept as well: fewer than n − window tokens are dropped.",
            lambda j, n, sinks, window: window - n if j >= sinks else 0,
        ),
        Misconception(
            "Window forgotten",
            "The window is kept as well: fewer than n − sinks tokens are dropped.",
            lambda j, n, sinks, window: sinks - n if j >= sinks else 0,
        ),
        Misconception(
            "Shift off by one",
            "Tokens count from 0, and n of them end at n − 1.",
            lambda j, n, sinks, window: (
                sinks + window - n + 1 if j >= sinks and n > sinks + window else 0
            ),
        ),
        Misconception(
            "One token too many dropped",
            "The number of dropped tokens is n minus the number of kept ones.",
            lambda j, n, sinks, window: (
                sinks + window - n - 1 if j >= sinks and n > sinks + window else 0
            ),
        ),
        Misconception(
            "Short text moved as well",
            "Where no token is dropped, none moves.",
            lambda j, n, sinks, window: sinks + window - n if j >= sinks else 0,
        ),
        Misconception(
            "Number of sinks as the shift",
            "The shift is the number of dropped tokens.",
            lambda j, n, sinks, window: -sinks if j >= sinks else 0,
        ),
        Misconception(
            "No shift",
            "Without a shift the window stays where it is, and the gap stays open.",
            lambda j, n, sinks, window: 0,
        ),
    ),
    tolerance=0.0,
    explanation=r"""
$n - s - w$ tokens are dropped, with $s$ sinks and a window of $w$, and each token of the window moves back by as many: the shift is $s + w - n$.
Sinks stay, and so does everything in a text of at most $s + w$ tokens.
The next query stands at position $s + w$, behind the kept tokens, and sees the first sink at the offset $s + w$, however long the text was; in a text that is not cut both numbers are $n$.
So a cut cache has only offsets up to $s + w$, as {prf:ref}`the definition of re-rotation <def-cache-box>` intends.
""",
)


# kv-cache-2: the longest text of Self-Extend


def longest_text(trained, window, group):
    """Return how many tokens Self-Extend can read at most: an int.

    No offset is then larger than the largest offset in texts of ``trained`` tokens.
    ``window`` and ``group`` are Self-Extend's window and the size of its groups.
    """
    return group * (trained - window + window // group)


LONGEST = Exercise(
    name="kv-cache-2",
    title="The longest text of Self-Extend",
    kind="by hand",
    minutes=20,
    lines=1,
    statement=r"""
A model was trained with texts of `trained` $= L$ tokens, whose offsets are $0, \dots, L - 1$.
Self-Extend has a window `window` $= w < L$ and groups of `group` $= G$.
Offsets below $w$ stay as they are; the others become $\lfloor i/G \rfloor - \lfloor j/G \rfloor + w - \lfloor w/G \rfloor$.
How many tokens may a text have at most, so that no offset is new?
Check your answer with $w$ = 5, $G$ = 2, $L$ = 8, by a list of all offsets.
""",
    hint=r"""
Which query sees which key at the largest offset?
That offset is at most $L - 1$.
""",
    cases=(
        (8, 4, 2),
        (8, 5, 2),
        (8, 7, 1),
        (9, 2, 5),
        (4096, 1024, 8),
        (4096, 1000, 7),
    ),
    solution=longest_text,
    misconceptions=(
        Misconception(
            "(L − w) G + w",
            "The authors' code describes the length so. It is right where G divides w.",
            lambda trained, window, group: (trained - window) * group + window,
        ),
        Misconception(
            "L G",
            "L G is right for groups without a window. Near keys need no groups.",
            lambda trained, window, group: trained * group,
        ),
        Misconception(
            "Without the part of the window",
            "The shift w − ⌊w/G⌋ takes only a part of the trained offsets. What "
            "remains for the groups?",
            lambda trained, window, group: (trained - window) * group,
        ),
        Misconception(
            "Last query's position in place of the number of tokens",
            "Positions count from 0.",
            lambda trained, window, group: longest_text(trained, window, group) - 1,
        ),
        Misconception(
            "One token too many",
            "With one token more the first new offset appears, L.",
            lambda trained, window, group: longest_text(trained, window, group) + 1,
        ),
        Misconception(
            "One offset too few",
            "L − 1 is an offset of training, and the last group may be full.",
            lambda trained, window, group: longest_text(trained - 1, window, group) + 1,
        ),
        Misconception(
            "Largest offset L",
            "A text of L tokens has offsets up to L − 1.",
            lambda trained, window, group: longest_text(trained + 1, window, group),
        ),
        Misconception(
            "An exact w/G",
            "The shift has a floor, and the text is shorter by the rest.",
            lambda trained, window, group: (
                int(group * (trained - window + window / group))
                + (group > 1 and window % group == 0)
            ),
        ),
        Misconception(
            "Rounded up",
            "⌊w/G⌋ rounds down.",
            lambda trained, window, group: (
                group * (trained - window + -(-window // group))
            ),
        ),
        Misconception(
            "Wrong sign of the shift",
            "Far keys are moved w − ⌊w/G⌋ farther away, which leaves less room.",
            lambda trained, window, group: group * (trained + window - window // group),
        ),
        Misconception(
            "Trained length",
            "RoPE alone reads L tokens. Groups make it longer.",
            lambda trained, window, group: trained,
        ),
        Misconception(
            "Whole window added",
            "The shift is w − ⌊w/G⌋, since groups of far keys are counted from 0.",
            lambda trained, window, group: group * (trained - window) + group,
        ),
    ),
    tolerance=0.0,
    level="hard",
    explanation=r"""
In a text of $N > w$ tokens the largest offset is that of the last query, $N - 1$, on key 0: $\lfloor (N-1)/G \rfloor + w - \lfloor w/G \rfloor$.
It is at most $L - 1$ exactly if $\lfloor (N-1)/G \rfloor \le L - 1 - w + \lfloor w/G \rfloor$, that is $N \le G\,(L - w + \lfloor w/G \rfloor)$.
This is the last part of {prf:ref}`the theorem on Self-Extend's grouped offsets <thm-cache-grouped>`; for $w = 5$, $G = 2$, $L = 8$ it gives 10 tokens.
Only if $G$ divides $w$ is it the often quoted $(L - w)\,G + w$.
""",
    prediction=Prediction(
        "A model was trained with 4096 tokens. Self-Extend has a window of 1024 and groups of 8. How many tokens may a text have?",
        lambda: longest_text(4096, 1024, 8),
        near=0.05,
    ),
)


# kv-cache-3: rotate cached keys


def rerotate(keys, old, new, frequencies):
    """Return RoPE's cached keys at their new positions: float64, shaped like keys.

    ``keys``, [tokens, d], were rotated at the positions ``old`` by ``frequencies``,
    [d/2]; ``new`` are the new positions, [tokens].
    """
    angle = (new - old)[:, None] * frequencies
    a, b = keys[:, 0::2], keys[:, 1::2]
    out = np.empty_like(keys)
    out[:, 0::2] = a * np.cos(angle) - b * np.sin(angle)
    out[:, 1::2] = a * np.sin(angle) + b * np.cos(angle)
    return out


def _rerotate_by(
    angle=lambda old, new, w: (new - old)[:, None] * w, layout="interleaved"
):
    """Make a wrong answer (a function) to the exercise ``rerotate``.

    The exercise asks for cached keys at new positions. In the wrong answer,
    ``angle(old, new, frequencies)`` replaces the angles (new − old) · frequencies by
    which keys are rotated, or ``layout`` is "half" in place of "interleaved".
    """

    def answer(keys, old, new, frequencies):
        angles = angle(old, new, frequencies)
        first, second = _members(keys, layout)
        a, b = keys[:, first], keys[:, second]
        out = np.array(keys, dtype=float)
        out[:, first] = a * np.cos(angles) - b * np.sin(angles)
        out[:, second] = a * np.sin(angles) + b * np.cos(angles)
        return out

    return answer


def _members(keys, layout):
    d = keys.shape[1]
    if layout == "half":
        return slice(0, d // 2), slice(d // 2, d)
    return slice(0, d, 2), slice(1, d, 2)


_W2 = np.array([1.0, 0.25])


def _keys(tokens, pairs, old, new):
    return (
        draw(tokens, 2 * pairs),
        np.array(old, dtype=float),
        np.array(new, dtype=float),
        np.array([1.0, 0.3, 0.05])[:pairs],
    )


REROTATE = Exercise(
    name="kv-cache-3",
    title="Rotate cached keys",
    kind="NumPy",
    minutes=12,
    lines=6,
    statement=r"""
`keys` are cached, `[tokens, d]`.
RoPE has rotated them at the positions `old`, with interleaved pairs (features 0 and 1, 2 and 3, …) and the frequencies `frequencies`, `[d/2]`.
Return the keys at the positions `new`, float64.
Leave `keys` as it is: other code may use the same array.
Then move the keys twice, there and back, and look at the error that is left.
""",
    hint=r"""
The keys are already rotated.
Which angle is missing?
""",
    cases=(
        _keys(1, 1, [3], [5]),
        _keys(2, 1, [0, 7], [4, 7]),
        _keys(3, 2, [4, 5, 9], [1, 5, 2.5]),
        _keys(4, 3, [10, 11, 12, 13], [0, 1, 2, 3]),
    ),
    solution=rerotate,
    misconceptions=(
        Misconception(
            "Keys taken for unrotated",
            "The keys are already rotated by their old positions.",
            _rerotate_by(lambda old, new, w: new[:, None] * w),
        ),
        Misconception(
            "Rotation in the wrong direction",
            "The shift is new minus old, not old minus new.",
            _rerotate_by(lambda old, new, w: (old - new)[:, None] * w),
        ),
        Misconception(
            "Old rotation undone, and no new one",
            "Your answer undoes the old rotation, but the new one is missing.",
            _rerotate_by(lambda old, new, w: -old[:, None] * w),
        ),
        Misconception(
            "Old and new position added",
            "The keys have the old rotation and must have the new one in its place.",
            _rerotate_by(lambda old, new, w: (old + new)[:, None] * w),
        ),
        Misconception(
            "Half layout",
            "In the interleaved layout pairs are neighbors, features 2p and 2p + 1.",
            _rerotate_by(layout="half"),
        ),
        Misconception(
            "One shift for all keys",
            "Each key has its own shift, from its old to its new position.",
            _rerotate_by(lambda old, new, w: (new - old)[:1, None] * w),
        ),
        Misconception(
            "One frequency for all pairs",
            "Pair p has the frequency ω_p.",
            _rerotate_by(lambda old, new, w: (new - old)[:, None] * np.ones_like(w)),
        ),
        Misconception(
            "Frequencies in reverse order",
            "The first pair has the first frequency.",
            _rerotate_by(lambda old, new, w: (new - old)[:, None] * w[::-1]),
        ),
        Misconception(
            "Shift divided by the frequency",
            "The angle is the shift times the frequency.",
            _rerotate_by(lambda old, new, w: (new - old)[:, None] / w),
        ),
        Misconception(
            "Shifts rounded to integers",
            "Positions may be real numbers.",
            _rerotate_by(lambda old, new, w: np.trunc(new - old)[:, None] * w),
        ),
        Misconception(
            "Shifts counted from the first key",
            "Each key has the shift new − old, whatever the other keys have.",
            _rerotate_by(lambda old, new, w: (new - old - (new - old)[0])[:, None] * w),
        ),
        Misconception(
            "Second member computed from the new first member",
            "Both members need the old first one. Keep it before you overwrite it.",
            lambda keys, old, new, w: _overwritten(keys, old, new, w),
        ),
        Misconception(
            "A reflection in place of a rotation",
            "The sine has opposite signs in the two members.",
            lambda keys, old, new, w: _reflected(keys, old, new, w),
        ),
        Misconception(
            "Own frequencies",
            "Use the argument `frequencies`: not every model has the base 10000.",
            _rerotate_by(
                lambda old, new, w: (
                    (new - old)[:, None] * 1e4 ** (-np.arange(len(w)) / len(w))
                )
            ),
        ),
        Misconception(
            "Keys numbered",
            "`new` says where the keys go; they need not be 0, 1, 2, ….",
            _rerotate_by(lambda old, new, w: (np.arange(len(old)) - old)[:, None] * w),
        ),
        Misconception(
            "Frequencies tiled",
            "`np.tile` repeats the whole list, which fits the half layout. Here both "
            "neighbors of a pair need its frequency: `np.repeat`.",
            lambda keys, old, new, w: _tiled(keys, old, new, w),
        ),
    ),
    properties=(
        Property(
            "The given keys are left as they are",
            lambda answer, keys, old, new, w: _untouched(answer, keys, old, new, w),
        ),
        Property(
            "Moved there and back the keys are as before",
            lambda answer, keys, old, new, w: bool(
                np.allclose(answer(answer(keys, old, new, w), new, old, w), keys)
            ),
        ),
    ),
    explanation=r"""
A cached key is $R_m k$, and $R_{\Delta} R_m k = R_{m + \Delta} k$: only the angle of the shift, new minus old position times the frequency, is missing.
No key has to be made again, and the old rotation is not undone first.
Moved there and back, the keys differ by rounding only, about $10^{-16}$ of their length in float64.
{prf:ref}`The theorem on the errors of many moves <thm-cache-error>` bounds what many moves add up to; one move from the original has the smallest bound.
""",
)


def _overwritten(keys, old, new, w):
    angles = (new - old)[:, None] * w
    out = np.array(keys, dtype=float)
    out[:, 0::2] = out[:, 0::2] * np.cos(angles) - out[:, 1::2] * np.sin(angles)
    out[:, 1::2] = out[:, 0::2] * np.sin(angles) + out[:, 1::2] * np.cos(angles)
    return out


def _tiled(keys, old, new, w):
    angles = np.tile((new - old)[:, None] * w, 2)
    turned = np.stack((-keys[:, 1::2], keys[:, 0::2]), -1).reshape(keys.shape)
    return keys * np.cos(angles) + turned * np.sin(angles)


def _reflected(keys, old, new, w):
    angles = (new - old)[:, None] * w
    a, b = keys[:, 0::2], keys[:, 1::2]
    out = np.empty_like(keys)
    out[:, 0::2] = a * np.cos(angles) + b * np.sin(angles)
    out[:, 1::2] = a * np.sin(angles) + b * np.cos(angles)
    return out


def _untouched(answer, keys, old, new, w):
    given = keys.copy()
    answer(given, old, new, w)
    return bool(np.array_equal(given, keys))


# kv-cache-4: grouped offsets


def grouped_offsets(i, j, window, group):
    """Return Self-Extend's offsets of queries and keys, [queries, keys], integers.

    ``i`` and ``j`` are the positions of the queries and of the keys. Offsets below
    ``window`` stay; larger ones are counted in groups of ``group`` tokens.
    """
    near = i[:, None] - j
    far = i[:, None] // group - j // group + window - window // group
    return np.where(near < window, near, far)


def _grouped(
    near=lambda i, j, w, g: i[:, None] - j,
    far=lambda i, j, w, g: i[:, None] // g - j // g + w - w // g,
    is_near=lambda t, w: t < w,
):
    """Make a wrong answer (a function) to the exercise ``grouped_offsets``.

    The exercise asks for Self-Extend's offsets. Some steps of the answer can be wrong;
    with the defaults all are right. ``is_near(t, window)`` decides for the offset t
    between the offsets ``near`` and ``far``, which are functions of i, j, window and
    group.
    """
    return lambda i, j, w, g: np.where(
        is_near(i[:, None] - j, w), near(i, j, w, g), far(i, j, w, g)
    )


GROUPED = Exercise(
    name="kv-cache-4",
    title="Grouped offsets",
    kind="NumPy",
    minutes=10,
    lines=3,
    statement=r"""
`i` are positions of queries and `j` of keys, arrays of integers from 0 on.
The last query is the newest token of a cache, so `i` need not begin at 0.
Return the offsets of Self-Extend, `[queries, keys]`, integers: $i - j$ below the window $w$ = `window`, and $\lfloor i/G \rfloor - \lfloor j/G \rfloor + w - \lfloor w/G \rfloor$ from it on, with $G$ = `group`.
Keys ahead of a query count as near.
Then print the row of a query at 20 and look for a step of 2.
""",
    hint=r"""
Compute both formulas for all pairs, and choose between them.
""",
    cases=(
        (np.array([3]), np.array([0, 1, 2, 3]), 2, 2),
        (np.array([5, 6]), np.arange(7), 3, 2),
        (np.arange(6), np.arange(6), 1, 3),
        (np.array([19]), np.arange(20), 4, 3),
        (np.arange(8, 12), np.arange(12), 5, 4),
        (np.array([7]), np.arange(8), 3, 1),
    ),
    solution=grouped_offsets,
    misconceptions=(
        Misconception(
            "Offset divided, not the positions",
            "Divide both positions, round down, and then subtract.",
            _grouped(far=lambda i, j, w, g: (i[:, None] - j) // g + w - w // g),
        ),
        Misconception(
            "Missing shift",
            "Without w − ⌊w/G⌋ far keys have smaller offsets than near ones.",
            _grouped(far=lambda i, j, w, g: i[:, None] // g - j // g),
        ),
        Misconception(
            "Whole window added",
            "The far keys are already w/G groups away.",
            _grouped(far=lambda i, j, w, g: i[:, None] // g - j // g + w),
        ),
        Misconception(
            "Offset w counted as near",
            "From the offset w on keys are far.",
            _grouped(is_near=lambda t, w: t <= w),
        ),
        Misconception(
            "Window one too small",
            "Offsets below w are near.",
            _grouped(is_near=lambda t, w: t < w - 1),
        ),
        Misconception(
            "Near and far exchanged",
            "Near keys keep their offsets.",
            _grouped(is_near=lambda t, w: t >= w),
        ),
        Misconception(
            "Groups for all keys",
            "Below the window offsets stay as they are.",
            _grouped(is_near=lambda t, w: np.zeros_like(t, dtype=bool)),
        ),
        Misconception(
            "RoPE's offsets",
            "From the window on keys are grouped.",
            _grouped(is_near=lambda t, w: np.ones_like(t, dtype=bool)),
        ),
        Misconception(
            "ReRoPE's constant far offset",
            "In Self-Extend far offsets grow, by 1 per group.",
            _grouped(far=lambda i, j, w, g: np.full((len(i), len(j)), w)),
        ),
        Misconception(
            "Rounded up",
            "⌊i/G⌋ rounds down.",
            _grouped(far=lambda i, j, w, g: -(-i[:, None] // g) + -j // g + w - w // g),
        ),
        Misconception(
            "Rounded to the nearest",
            "⌊w/G⌋ rounds down.",
            _grouped(
                far=lambda i, j, w, g: (
                    i[:, None] // g - j // g + w - (2 * w + g) // (2 * g)
                )
            ),
        ),
        Misconception(
            "Far offsets multiplied by the group",
            "Each group counts as a single position.",
            _grouped(far=lambda i, j, w, g: (i[:, None] // g - j // g) * g),
        ),
        Misconception(
            "Query positions counted from 0",
            "Use `i`: the cache holds the tokens before the queries.",
            lambda i, j, w, g: grouped_offsets(np.arange(len(i)), j, w, g),
        ),
        Misconception(
            "Shift in whole groups",
            "The shift is w − ⌊w/G⌋, not w − ⌊w/G⌋ groups.",
            _grouped(
                far=lambda i, j, w, g: i[:, None] // g - j // g + (w - w // g) // g
            ),
        ),
        Misconception(
            "Keys far ahead grouped",
            "Keys ahead count as near, whatever their distance.",
            _grouped(is_near=lambda t, w: abs(t) < w),
        ),
        Misconception(
            "Keys ahead with offset 0",
            "i − j is negative for keys ahead, and stays so.",
            _grouped(near=lambda i, j, w, g: np.maximum(i[:, None] - j, 0)),
        ),
        Misconception(
            "Key minus query",
            "An offset is query position minus key position.",
            lambda i, j, w, g: grouped_offsets(j, i, w, g).T,
        ),
    ),
    properties=(
        Property(
            "Groups of 1 give RoPE's offsets",
            lambda answer, i, j, window, group: bool(
                np.array_equal(answer(i, j, window, 1), i[:, None] - j)
            ),
        ),
        Property(
            "A shift of all positions by a whole group changes nothing",
            lambda answer, i, j, window, group: bool(
                np.array_equal(
                    answer(i + group, j + group, window, group),
                    answer(i, j, window, group),
                )
            ),
        ),
    ),
    tolerance=0.0,
    explanation=r"""
Within the window the offset is true; beyond it both positions are divided by the group, each rounded down for itself, and the shift $w - \lfloor w/G \rfloor$ puts the far offsets behind the window.
For the query at 20 with $w = 5$ and $G = 2$ the offsets from the nearest key on are 0, 1, 2, 3, 4, 6, 6, 7: there is a step of 2 at the border, and the offset 5 is missing.
By {prf:ref}`the theorem on Self-Extend's grouped offsets <thm-cache-grouped>` the step is 1 or 2, and 1 for every query if $G$ divides $w$.
""",
)


# kv-cache-5: absorbed logits


def absorbed_logits(q, up, latents, q_rope, k_rope):
    """Return one query's latent attention logits, [heads, tokens], in q's dtype.

    ``q`` are the query's features without RoPE, [heads, d]. ``up``, [heads, d, latent],
    maps the cached ``latents``, [tokens, latent], to keys. ``q_rope`` and ``k_rope``
    are the features with RoPE, already rotated.
    """
    through = torch.einsum("hd,hdc->hc", q, up)
    products = through @ latents.T + q_rope @ k_rope.T
    return products / (q.shape[1] + q_rope.shape[1]) ** 0.5


def _logits(
    through=lambda q, up: torch.einsum("hd,hdc->hc", q, up),
    size=lambda q, u, c, r, k: q.shape[1] + r.shape[1],
    rope_part=lambda r, k: r @ k.T,
):
    """Make a wrong answer (a function) to the exercise ``absorbed_logits``.

    The exercise asks for latent attention logits. Some steps of the answer can be
    wrong; with the defaults all are right. ``through(q, up)`` maps the query to the
    latents, ``rope_part(q_rope, k_rope)`` gives the products of the features with RoPE,
    and logits are divided by the root of ``size``, a function of all arguments.
    """

    def answer(q, up, latents, q_rope, k_rope):
        products = through(q, up) @ latents.T + rope_part(q_rope, k_rope)
        return products / size(q, up, latents, q_rope, k_rope) ** 0.5

    return answer


def _in_full(q, up, latents, q_rope, k_rope):
    keys = torch.einsum("hdc,jc->hjd", up, latents)
    products = torch.einsum("hd,hjd->hj", q, keys) + q_rope @ k_rope.T
    return products / (q.shape[1] + q_rope.shape[1]) ** 0.5


def _beyond_float64(q, up, latents, *rotated):
    """Scale arguments of ``absorbed_logits`` so that making keys overflows float64.

    The products of query, ``up`` and ``latents`` do not overflow if no key is made.
    ``rotated``, the features with RoPE, are unchanged. The scaled arguments are a
    tuple.
    """
    return 1e-307 * q, 1e154 * up, 1e155 * latents, *rotated


def _latent(heads, d, latent, rotary, tokens):
    return (
        torch.tensor(draw(heads, d)),
        torch.tensor(draw(heads, d, latent, seed=1)),
        torch.tensor(draw(tokens, latent, seed=2)),
        torch.tensor(draw(heads, rotary, seed=3)),
        torch.tensor(draw(tokens, rotary, seed=4)),
    )


ABSORBED = Exercise(
    name="kv-cache-5",
    title="A query that absorbs the key projection",
    kind="PyTorch",
    minutes=15,
    lines=3,
    statement=r"""
One query of latent attention has the features without RoPE `q`, `[heads, d]`, and the features with RoPE `q_rope`, `[heads, r]`, already rotated.
The cache has `latents`, `[tokens, latent]`, and one shared key for each token, `k_rope`, `[tokens, r]`, already rotated.
Head $h$ would make its keys by $k_j = U_h c_j$ with $U_h$ = `up[h]`, `[d, latent]`.
Return the logits, `[heads, tokens]`, before the softmax, divided by the root of the number of features of a query, in the dtype of `q`.
Do it without making any key: nothing of the size heads × tokens × d.
""",
    hint=r"""
$q^\top (U c) = (U^\top q)^\top c$.
""",
    cases=(
        _latent(1, 1, 1, 2, 1),
        _latent(1, 2, 3, 2, 2),
        _latent(2, 4, 4, 2, 3),
        _latent(3, 2, 3, 4, 4),
        _beyond_float64(*_latent(2, 2, 3, 2, 4)),
        tuple((3 * t).round().float() for t in _latent(2, 2, 3, 2, 4)),
    ),
    solution=absorbed_logits,
    misconceptions=(
        Misconception(
            "√d in place of √(d + r)",
            "A query has d features without RoPE and r with RoPE.",
            _logits(size=lambda q, u, c, r, k: q.shape[1]),
        ),
        Misconception(
            "√r in place of √(d + r)",
            "A query has d features without RoPE and r with RoPE.",
            _logits(size=lambda q, u, c, r, k: r.shape[1]),
        ),
        Misconception(
            "Root with the latent width",
            "The absorbed query is as wide as the latent vectors, but it stands for d "
            "features.",
            _logits(size=lambda q, u, c, r, k: c.shape[1] + r.shape[1]),
        ),
        Misconception(
            "No division",
            "Logits are divided by √(d + r).",
            _logits(size=lambda q, u, c, r, k: 1),
        ),
        Misconception(
            "Rotated part left out",
            "Without the rotated part the logits do not depend on positions.",
            _logits(rope_part=lambda r, k: 0.0),
        ),
        Misconception(
            "Only the rotated part",
            "The latent vectors contribute to the logits, too.",
            _logits(through=lambda q, up: torch.zeros_like(up[:, 0])),
        ),
        Misconception(
            "One head's matrix for all heads",
            "Each head has its own U.",
            _logits(through=lambda q, up: q @ up[0]),
        ),
        Misconception(
            "Heads summed",
            "Each head has logits of its own.",
            _logits(
                through=lambda q, up: torch.einsum("hd,gdc->hc", q, up),
            ),
        ),
        Misconception(
            "A root of its own for each part",
            "Both parts are divided by the same root, that of all features.",
            lambda q, up, latents, q_rope, k_rope: (
                torch.einsum("hd,hdc->hc", q, up) @ latents.T / q.shape[1] ** 0.5
                + q_rope @ k_rope.T / q_rope.shape[1] ** 0.5
            ),
        ),
        Misconception(
            "Parts subtracted",
            "The two parts add up to one inner product.",
            _logits(rope_part=lambda r, k: -(r @ k.T)),
        ),
        Misconception(
            "Rotated once more",
            "The shared keys are cached after their rotation, and `q_rope` is already "
            "rotated.",
            _logits(rope_part=lambda r, k: r.flip(-1) @ k.T),
        ),
        Misconception(
            "The shared key in place of the head's query",
            "All heads share the key, but each head has its own query.",
            _logits(rope_part=lambda r, k: r.sum(0, keepdim=True) @ k.T),
        ),
        Misconception(
            "Scale applied twice",
            "Divide the product of queries and keys once.",
            _logits(size=lambda q, u, c, r, k: (q.shape[1] + r.shape[1]) ** 2),
        ),
        Misconception(
            "Weights in place of logits",
            "The logits before the softmax are asked for.",
            lambda *case: absorbed_logits(*case).softmax(-1),
        ),
        Misconception(
            "Root of the latent width alone",
            "The absorbed query is as wide as the latent vectors, but it stands for d "
            "features.",
            _logits(size=lambda q, u, c, r, k: c.shape[1]),
        ),
        Misconception(
            "Keys computed",
            "In one of the cases some keys overflow float64, but the absorbed query "
            "does not.",
            _in_full,
        ),
        Misconception(
            "Only the latent part divided",
            "Add both parts first, then divide the sum.",
            lambda q, up, latents, q_rope, k_rope: (
                absorbed_logits(q, up, latents, 0 * q_rope, k_rope) + q_rope @ k_rope.T
            ),
        ),
    ),
    properties=(
        Property(
            "The logits are those of keys in full",
            lambda answer, q, up, c, r, k: bool(
                torch.allclose(
                    answer(q, up, c, r, k),
                    (torch.einsum("hd,hdc,jc->hj", q, up, c) + r @ k.T)
                    / (q.shape[1] + r.shape[1]) ** 0.5,
                )
            ),
        ),
    ),
    explanation=r"""
$q^\top (U_h c_j) = (U_h^\top q)^\top c_j$: multiply the query by $U_h^\top$ once, and read the latents as they are cached.
The rotated features have one key for all heads and are added; both parts are divided by $\sqrt{d + r}$, the root of all features of a query.
The rotated part cannot be absorbed in this way, because the rotation between query and key is another one at every offset: {prf:ref}`the theorem that rotated features cannot be absorbed <thm-cache-absorb>`.
One input of the check has numbers with which some keys would overflow.
""",
)


# kv-cache-6: errors of the attention weights


def weight_errors(q, keys, old, new, frequencies):
    """Return the largest error of the attention weights with stale and with moved keys.

    Stale keys are ``keys`` rotated at ``old`` positions by ``frequencies`` and rounded
    to float16. Moved keys are stale keys that are then rotated to ``new`` positions.
    The right weights come from keys rotated at ``new`` positions. The query ``q``
    stands one position after the largest new one. The two errors are an array, [2].
    """
    query_position = new.max() + 1

    def rotated(x, at):
        angle = np.asarray(at)[:, None] * frequencies
        a, b = np.split(x, 2, axis=1)
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate((a * cos - b * sin, a * sin + b * cos), axis=1)

    def weights(k):
        logits = rotated(q[None], [query_position]) @ k.T / np.sqrt(q.size)
        odds = np.exp(logits[0] - logits.max())
        return odds / odds.sum()

    cached = rotated(keys, old).astype(np.float16).astype(float)
    fresh = weights(rotated(keys, new))
    return np.array(
        [
            abs(weights(cached) - fresh).max(),
            abs(weights(rotated(cached, new - old)) - fresh).max(),
        ]
    )


def _errors_with(
    query_position=lambda old, new: new.max() + 1,
    scale=np.sqrt,
    share=lambda a: np.exp(a - a.max()) / np.exp(a - a.max()).sum(),
    shift=lambda old, new: new - old,
    size=lambda x: abs(x).max(),
    layout="half",
    query=True,
    cached_position=None,
    store=np.float16,
    rounded="",
):
    """Make a wrong answer (a function) to the exercise ``weight_errors``.

    The exercise asks for errors of attention weights with stale and with moved keys.
    Some steps of the answer can be wrong; with the defaults all are right. ``scale(d)``
    divides the logits, ``share(logits)`` is the softmax, ``shift(old, new)`` is by how
    many positions keys are moved, ``size`` makes one number of the errors, and
    ``layout`` says which features are a pair. Without ``query`` the query is not
    rotated. ``query_position(old, new)`` is the query's position, and
    ``cached_position(old, new)``, if given, is the query's position for stale and for
    moved keys. ``store`` is the cache's dtype. ``rounded`` names what else is rounded
    to float16: "keys" before their rotation in place of the cached ones, or "moved",
    "right" (the keys of the right weights) or "query".
    """

    def in_half(x, name):
        return x.astype(np.float16).astype(float) if rounded == name else x

    def answer(q, keys, old, new, frequencies):
        def rotated(x, at):
            first, second = _members(x, layout)
            angle = np.asarray(at)[:, None] * frequencies
            a, b, out = x[:, first], x[:, second], np.empty_like(x)
            out[:, first] = a * np.cos(angle) - b * np.sin(angle)
            out[:, second] = a * np.sin(angle) + b * np.cos(angle)
            return out

        def weights(k, query_position=cached_position or query_position):
            at = [query_position(old, new)]
            rotated_query = in_half(rotated(q[None], at) if query else q[None], "query")
            return share((rotated_query @ k.T / scale(q.size))[0])

        cached = rotated(in_half(keys, "keys"), old)
        if rounded != "keys":
            cached = cached.astype(store).astype(float)
        fresh = weights(in_half(rotated(keys, new), "right"), query_position)
        rerotated = in_half(rotated(cached, shift(old, new)), "moved")
        errors = (weights(cached) - fresh, weights(rerotated) - fresh)
        return np.array([size(x) for x in errors])

    return answer


def _text(tokens, pairs, old, new):
    return (
        3 * draw(2 * pairs, seed=5),
        draw(tokens, 2 * pairs),
        np.array(old, dtype=float),
        np.array(new, dtype=float),
        np.array([1.0, 0.2, 0.03, 0.001])[:pairs],
    )


ERRORS = Exercise(
    name="kv-cache-6",
    title="Errors of the attention weights",
    kind="experiment",
    minutes=25,
    lines=12,
    statement=r"""
`keys`, `[tokens, d]`, are not rotated yet.
They stood at `old` and must now stand at `new`, float arrays `[tokens]`.
RoPE has the half layout (features p and p + d/2) and `frequencies`, `[d/2]`.
The query `q`, `[d]`, not rotated yet, stands one position after the largest new position.
Logits are divided by √d.
The right weights are those with keys rotated at `new`.
The cache stores keys in float16; everything else is float64, the right weights included.
Return an array of two numbers, the largest error of any key's weight in two cases: if the keys are rotated at `old`, cached and left as they are, and if they are rotated at `old`, cached and then rotated to `new`.
Then take 400 keys, four sinks and a window of 100, and print both.
Finally move all 400 keys by $-100$.
Which of the two errors is then due to the query's position alone, and is only rounding with the query at 400?
""",
    hint=r"""
Write one function that rotates, and use it four times.
""",
    cases=(
        _text(2, 1, [0, 5], [0, 1]),
        _text(3, 1, [0, 7, 8], [0, 1, 2]),
        _text(4, 2, [0, 1, 8, 9], [0, 1, 2, 3]),
        _text(5, 3, [0, 6, 7, 8, 9], [7, 1, 2, 3, 0.5]),
    ),
    solution=weight_errors,
    misconceptions=(
        Misconception(
            "Moved in the wrong direction",
            "The second number must be no larger than float16's rounding. The shift is "
            "new minus old.",
            _errors_with(shift=lambda old, new: old - new),
        ),
        Misconception(
            "Nothing rounded",
            "The cache stores the keys in float16. What is left of the second number?",
            _errors_with(store=np.float64),
        ),
        Misconception(
            "No error of the moved keys",
            "The moved keys have been rounded to float16: their weights are nearly "
            "right.",
            lambda q, keys, old, new, frequencies: (
                weight_errors(q, keys, old, new, frequencies) * [1, 0]
            ),
        ),
        Misconception(
            "Rotated by the whole new position",
            "The cached keys are already rotated at `old`.",
            _errors_with(shift=lambda old, new: new),
        ),
        Misconception(
            "Query after the old positions",
            "The query stands one position after the largest new position.",
            _errors_with(query_position=lambda old, new: old.max() + 1),
        ),
        Misconception(
            "Query at the largest position",
            "The query stands one position after it.",
            _errors_with(query_position=lambda old, new: new.max()),
        ),
        Misconception(
            "Query after the last key",
            "The query stands after the largest position, which need not be the last.",
            _errors_with(query_position=lambda old, new: new[-1] + 1),
        ),
        Misconception(
            "Number of keys as the query's position",
            "The query stands one position after the largest new position.",
            _errors_with(query_position=lambda old, new: len(new)),
        ),
        Misconception(
            "Query not rotated",
            "RoPE rotates queries, too.",
            _errors_with(query=False),
        ),
        Misconception(
            "No division",
            "Logits are divided by √d.",
            _errors_with(scale=lambda d: 1),
        ),
        Misconception(
            "Logits divided by d",
            "Logits are divided by √d.",
            _errors_with(scale=lambda d: d),
        ),
        Misconception(
            "Errors of the logits",
            "The errors of the weights are asked for, after the softmax.",
            _errors_with(share=lambda a: a),
        ),
        Misconception(
            "Interleaved pairs",
            "In the half layout pair p is the features p and p + d/2.",
            _errors_with(layout="interleaved"),
        ),
        Misconception(
            "Mean error",
            "The largest error is asked for.",
            _errors_with(size=lambda x: abs(x).mean()),
        ),
        Misconception(
            "Sum of the errors",
            "The largest error is asked for.",
            _errors_with(size=lambda x: abs(x).sum()),
        ),
        Misconception(
            "Largest difference with its sign",
            "A weight may also be too small. Take absolute values.",
            _errors_with(size=lambda x: x.max()),
        ),
        Misconception(
            "Exponentials not divided by their sum",
            "Weights sum to 1.",
            _errors_with(share=np.exp),
        ),
        Misconception(
            "Stale and moved weights with the query after the old positions",
            "The query stands after the new positions, whatever positions the keys "
            "have.",
            _errors_with(cached_position=lambda old, new: old.max() + 1),
        ),
        Misconception(
            "Stale weights with the query after the old positions",
            "The query stands after the new positions, and the stale keys are read "
            "from there.",
            lambda *case: np.array(
                [
                    _errors_with(cached_position=lambda old, new: old.max() + 1)(*case)[
                        0
                    ],
                    weight_errors(*case)[1],
                ]
            ),
        ),
        Misconception(
            "Moved keys rounded again",
            "The cache stores the stale keys. Moving them is done in float64.",
            _errors_with(rounded="moved"),
        ),
        Misconception(
            "Rounded before the rotation",
            "Rotate the keys at `old` first: what the cache stores is rounded.",
            _errors_with(rounded="keys"),
        ),
        Misconception(
            "Right weights rounded",
            "The right weights are float64 throughout: their keys were never cached.",
            _errors_with(rounded="right"),
        ),
        Misconception(
            "Query rounded",
            "Only the cached keys are float16.",
            _errors_with(rounded="query"),
        ),
    ),
    properties=(
        Property(
            "If no key moves, both errors are the same",
            lambda answer, q, keys, old, new, w: bool(
                np.ptp(answer(q, keys, new, new, w)) < 1e-9
            ),
        ),
    ),
    level="optional",
    explanation=r"""
Stale keys give wrong weights: with 400 random keys some weight is off by several hundredths, about as much as the largest weight.
Moved keys give weights that are right up to the rounding of float16: rotating a cached key further is as good as rotating it anew.
If all 400 keys move by $-100$, the stale keys all have the offsets among each other that they should have; only the query, at 300, stands 100 positions too early for them.
So it is the first error, that of the stale keys, which is due to the query's position: with the query at 400 they need no rotation, because scores depend on offsets alone.
Keys must be rotated again only if some move and others do not, such as sinks that stay while a window moves: {prf:ref}`the definition of re-rotation <def-cache-box>`.
""",
)


# kv-cache-7: the group of a difference


def colleagues_offsets(i, j, window, group):
    """Return Self-Extend's offsets, [queries, keys]."""
    offset = np.subtract.outer(i, j)
    grouped = offset // group + window - window // group
    return np.where(offset < window, offset, grouped)


def query_that_differs():
    """Return `(i, j, window, group)`, an early query with wrong `colleagues_offsets`."""
    return np.array([2]), np.arange(3), 1, 2


ROUNDED = Exercise(
    name="kv-cache-7",
    title="Find the input: groups",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_offsets` should do what exercise kv-cache-4 asks for.
Her tests are the query 15 with groups of 4 and a window of 4, the query 7 with groups of 2 and a window of 3, and the query 9 with groups of 1; each sees all keys up to its own, and they pass.
Return `(i, j, window, group)` for which it is wrong, with the last query as early as possible; `i` and `j` are NumPy arrays of integers.
At which positions does a query never show the mistake?
""",
    hint=r"""
When is $\lfloor i/G \rfloor - \lfloor j/G \rfloor$ larger than $\lfloor (i - j)/G \rfloor$?
""",
    cases=((),),
    solution=query_that_differs,
    misconceptions=(),
    tolerance=0.0,
    hunt=Hunt(
        wrong=colleagues_offsets,
        right=grouped_offsets,
        tested=(
            (np.array([15]), np.arange(16), 4, 4),
            (np.array([7]), np.arange(8), 3, 2),
            (np.array([9]), np.arange(10), 3, 1),
        ),
        refusal=lambda i, j, window, group: (
            ""
            if i.ndim == j.ndim == 1
            and i.dtype.kind == j.dtype.kind == "i"
            and min(len(i), len(j)) > 0
            and min(i.min(), j.min()) >= 0
            and max(i.max(), j.max()) < 1000
            and j.max() <= i.max()
            and window > 0
            and group > 0
            else "i and j are arrays of integers from 0 to 999, no key is later than "
            "all queries, and window and group are positive"
        ),
        size=lambda i, j, window, group: int(i.max()),
        size_of="position of the last query",
    ),
    explanation=r"""
She groups the offset, not the two positions.
The two differ where the remainder of $i$ is smaller than that of $j$: then a border of groups lies between them that her division does not count.
Query 0 has only itself and query 1 only key 0 as a far key, whose remainder is 0; query 2 with groups of 2 and the window 1 sees key 1 across a border, at the offset 2 and not 1.
A query at the end of its group, $i + 1$ divisible by $G$, has the largest remainder and never shows the mistake; her tests had only such queries.
""",
)


# kv-cache-8: the printed length


def colleagues_length(trained, window, group):
    """Return how many tokens Self-Extend can read."""
    return (trained - window) * group + window


def lengths_that_differ():
    """Return `(trained, window, group)` with a wrong `colleagues_length`."""
    return 2, 1, 2


PRINTED = Exercise(
    name="kv-cache-8",
    title="Find the input: the longest text",
    kind="find the input",
    minutes=6,
    lines=1,
    statement=r"""
`colleagues_length` should do what exercise kv-cache-2 asks for.
Her tests are the trained lengths 4096, 8192 and 2048 with windows of 1024, 512 and 100 and groups of 8, 16 and 4; they pass.
Return `(trained, window, group)` for which it is wrong, with the shortest training.
What do all usual settings have in common that hides it?
""",
    hint=r"""
Multiply out what kv-cache-2 found. When is $G \lfloor w/G \rfloor$ not $w$?
""",
    cases=((),),
    solution=lengths_that_differ,
    misconceptions=(),
    tolerance=0.0,
    hunt=Hunt(
        wrong=colleagues_length,
        right=longest_text,
        tested=((4096, 1024, 8), (8192, 512, 16), (2048, 100, 4)),
        refusal=lambda trained, window, group: (
            ""
            if all(type(n) is int and n > 0 for n in (trained, window, group))
            and window < trained
            else "all three are positive integers, and the window is shorter than the "
            "training"
        ),
        size=lambda trained, window, group: trained,
        size_of="trained length",
    ),
    explanation=r"""
The formula is $(L - w)\,G + w$, and right is $(L - w)\,G + G \lfloor w/G \rfloor$: they differ by the remainder of $w$ divided by $G$.
It is 0 if $G$ divides $w$, as with powers of two, the group not above the window; her 100 and 4 have no remainder either.
The window is at least 1 and shorter than the training, so the training has at least 2 tokens, and $w = 1$, $G = 2$ shows the mistake there.
With a remainder her text is too long, and its last query meets an offset that training did not have: {prf:ref}`the theorem on Self-Extend's grouped offsets <thm-cache-grouped>`.
""",
    level="optional",
)


SHEET = Sheet(
    title="KV cache: re-rotation, Self-Extend, latent attention",
    conventions=r"""
Positions count from 0.
An offset is query position minus key position, and a shift is new position minus old position.
A rotated key is $R_m k$ with RoPE's rotation at its position $m$.
""",
    example=r"""
from posedu.numpy.rotary import extended_offsets

rule = dict(far="constant", window=3)
offsets = extended_offsets([4, 5], range(6), **rule)
print(offsets.astype(int))
""",
    figure="self_extend_explorable",
    exercises=(SHIFT, LONGEST, REROTATE, GROUPED, ABSORBED, ERRORS, ROUNDED, PRINTED),
)
