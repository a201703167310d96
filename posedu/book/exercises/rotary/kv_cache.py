"""The exercises on caches that move, far offsets and latent attention."""

import numpy as np
import torch

from posedu.book.exercises.records import Exercise, Misconception, Property, Sheet, draw

# kv-cache-1: what is turned by what


def shift(j, n, sinks, window):
    """The shift of token j, an int."""
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
Of `n` cached tokens at positions 0 to n − 1 the first `sinks` and the last `window` are kept, all of them if there are no more than that, and the gap is closed.
Token `j` is one of those kept. By which shift is its key turned? Return an `int`.
Then say at which position the next query stands, and at which offset it sees the first sink.
""",
    hint=r"""
How many tokens are forgotten, and who has to come nearer?
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
            "What comes nearer gets smaller positions: new minus old.",
            lambda j, n, sinks, window: -shift(j, n, sinks, window),
        ),
        Misconception(
            "The sinks move, too",
            "They stay where they are; the others come to them.",
            lambda j, n, sinks, window: min(0, sinks + window - n),
        ),
        Misconception(
            "New position",
            "By how much it is turned is asked for, new position minus old.",
            lambda j, n, sinks, window: j + shift(j, n, sinks, window),
        ),
        Misconception(
            "Minus the old position",
            "That turns it to position 0.",
            lambda j, n, sinks, window: -j if j >= sinks else 0,
        ),
        Misconception(
            "Sinks forgotten",
            "They are kept, and take room: fewer tokens than n − window are gone.",
            lambda j, n, sinks, window: window - n if j >= sinks else 0,
        ),
        Misconception(
            "Window forgotten",
            "It is kept: fewer tokens than n − sinks are gone.",
            lambda j, n, sinks, window: sinks - n if j >= sinks else 0,
        ),
        Misconception(
            "Off by one",
            "Tokens count from 0, and n of them end at n − 1.",
            lambda j, n, sinks, window: (
                sinks + window - n + 1 if j >= sinks and n > sinks + window else 0
            ),
        ),
        Misconception(
            "One too many forgotten",
            "n less those that are kept.",
            lambda j, n, sinks, window: (
                sinks + window - n - 1 if j >= sinks and n > sinks + window else 0
            ),
        ),
        Misconception(
            "Short text moved forward",
            "Where nothing is forgotten nothing moves.",
            lambda j, n, sinks, window: sinks + window - n if j >= sinks else 0,
        ),
        Misconception(
            "The number of sinks",
            "It is as many as are forgotten.",
            lambda j, n, sinks, window: -sinks if j >= sinks else 0,
        ),
        Misconception(
            "No rotation",
            "Then the window would stand where it stood, and the gap be open.",
            lambda j, n, sinks, window: 0,
        ),
    ),
    tolerance=0.0,
)


# kv-cache-2: how long a text may be


def longest(trained, window, group):
    """The largest number of tokens, an int."""
    return group * (trained - window + window // group)


LONGEST = Exercise(
    name="kv-cache-2",
    title="How far Self-Extend reads",
    kind="by hand",
    minutes=10,
    lines=1,
    statement=r"""
A model was trained with texts of `trained` tokens, whose offsets are $0, \dots, L - 1$.
Self-Extend has a window `window` $= w < L$ and groups of `group` $= G$: offsets below $w$ are as they are, others $\lfloor i/G \rfloor - \lfloor j/G \rfloor + w - \lfloor w/G \rfloor$.
How many tokens may a text have at most, so that no offset is new? Return an `int`.
Check yours with $w$ = 5, $G$ = 2, $L$ = 8, by a list of all offsets.
""",
    hint=r"""
Which query sees which key at the largest offset? That is at most $L - 1$.
""",
    cases=(
        (8, 4, 2),
        (8, 5, 2),
        (8, 7, 1),
        (9, 2, 5),
        (4096, 1024, 8),
        (4096, 1000, 7),
    ),
    solution=longest,
    misconceptions=(
        Misconception(
            "(L − w) G + w",
            "So the authors' code describes it; it is right where G divides w.",
            lambda trained, window, group: (trained - window) * group + window,
        ),
        Misconception(
            "L G",
            "That would be groups without a window, of which near keys need none.",
            lambda trained, window, group: trained * group,
        ),
        Misconception(
            "The far part alone",
            "Of the positions that far keys use, the shift is only w − ⌊w/G⌋.",
            lambda trained, window, group: (trained - window) * group,
        ),
        Misconception(
            "The last query for the number of tokens",
            "Positions count from 0.",
            lambda trained, window, group: longest(trained, window, group) - 1,
        ),
        Misconception(
            "A token too many",
            "With it the first offset is L, which was not met.",
            lambda trained, window, group: longest(trained, window, group) + 1,
        ),
        Misconception(
            "One offset too few",
            "L − 1 is an offset of training, and the last group may be full.",
            lambda trained, window, group: longest(trained - 1, window, group) + 1,
        ),
        Misconception(
            "Offsets up to L",
            "A text of L tokens has offsets up to L − 1.",
            lambda trained, window, group: longest(trained + 1, window, group),
        ),
        Misconception(
            "An exact w/G",
            "The shift has a floor, and the text is shorter by what that leaves.",
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
            "The shift with the wrong sign",
            "Far keys are put w − ⌊w/G⌋ farther, which takes room.",
            lambda trained, window, group: group * (trained + window - window // group),
        ),
        Misconception(
            "The trained length",
            "That is how far RoPE alone reads.",
            lambda trained, window, group: trained,
        ),
        Misconception(
            "Whole window added",
            "The shift is w − ⌊w/G⌋, as far keys are counted from 0.",
            lambda trained, window, group: group * (trained - window) + group,
        ),
    ),
    tolerance=0.0,
)


# kv-cache-3: keys moved


def moved(keys, old, new, frequencies):
    """The keys at their new positions, of the shape of keys, float64."""
    angle = (new - old)[:, None] * frequencies
    a, b = keys[:, 0::2], keys[:, 1::2]
    out = np.empty_like(keys)
    out[:, 0::2] = a * np.cos(angle) - b * np.sin(angle)
    out[:, 1::2] = a * np.sin(angle) + b * np.cos(angle)
    return out


def _moved(angle=lambda old, new, w: (new - old)[:, None] * w, layout="interleaved"):
    """With another angle, or other pairs."""

    def answer(keys, old, new, frequencies):
        turns = angle(old, new, frequencies)
        first, second = _members(keys, layout)
        a, b = keys[:, first], keys[:, second]
        out = np.array(keys, dtype=float)
        out[:, first] = a * np.cos(turns) - b * np.sin(turns)
        out[:, second] = a * np.sin(turns) + b * np.cos(turns)
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


MOVED = Exercise(
    name="kv-cache-3",
    title="Move the keys",
    kind="NumPy",
    minutes=12,
    lines=6,
    statement=r"""
`keys` are cached, `[tokens, d]`: RoPE has turned them at the positions `old`, with interleaved pairs (features 0 and 1, 2 and 3, …) and the frequencies `frequencies`, `[d/2]`.
Return the keys at the positions `new`, float64. Leave `keys` as it is: somebody else may hold it.
Then move twice, there and back, and look at what is left of the error.
""",
    hint=r"""
They are turned already: how much further?
""",
    cases=(
        _keys(1, 1, [3], [5]),
        _keys(2, 1, [0, 7], [4, 7]),
        _keys(3, 2, [4, 5, 9], [1, 5, 2.5]),
        _keys(4, 3, [10, 11, 12, 13], [0, 1, 2, 3]),
    ),
    solution=moved,
    misconceptions=(
        Misconception(
            "As if they were unturned",
            "They are turned by their old positions already.",
            _moved(lambda old, new, w: new[:, None] * w),
        ),
        Misconception(
            "Turned back",
            "New minus old, not old minus new.",
            _moved(lambda old, new, w: (old - new)[:, None] * w),
        ),
        Misconception(
            "Unturned alone",
            "This takes the old turn away; the new one is missing.",
            _moved(lambda old, new, w: -old[:, None] * w),
        ),
        Misconception(
            "Both positions added",
            "The old turn is there, and the new one in its place.",
            _moved(lambda old, new, w: (old + new)[:, None] * w),
        ),
        Misconception(
            "Half layout",
            "Pairs are neighbors here, features 2p and 2p + 1.",
            _moved(layout="half"),
        ),
        Misconception(
            "One shift for all",
            "Each key has its own, by its old and its new position.",
            _moved(lambda old, new, w: (new - old)[:1, None] * w),
        ),
        Misconception(
            "One frequency for all pairs",
            "Pair p turns by ω_p.",
            _moved(lambda old, new, w: (new - old)[:, None] * np.ones_like(w)),
        ),
        Misconception(
            "Frequencies backwards",
            "The first pair has the first of them.",
            _moved(lambda old, new, w: (new - old)[:, None] * w[::-1]),
        ),
        Misconception(
            "Divided by the frequency",
            "The angle is position times frequency.",
            _moved(lambda old, new, w: (new - old)[:, None] / w),
        ),
        Misconception(
            "Whole shifts alone",
            "Positions may be reals.",
            _moved(lambda old, new, w: np.trunc(new - old)[:, None] * w),
        ),
        Misconception(
            "Shifts counted from the first key",
            "new − old of each key, whatever its neighbors do.",
            _moved(lambda old, new, w: (new - old - (new - old)[0])[:, None] * w),
        ),
        Misconception(
            "The second member from the new first",
            "Both members need the old first one: keep it.",
            lambda keys, old, new, w: _overwritten(keys, old, new, w),
        ),
        Misconception(
            "A reflection",
            "The sine has one sign in the first member and the other in the second.",
            lambda keys, old, new, w: _reflected(keys, old, new, w),
        ),
    ),
    properties=(
        Property(
            "The keys given are left as they are",
            lambda answer, keys, old, new, w: _untouched(answer, keys, old, new, w),
        ),
        Property(
            "There and back is where they were",
            lambda answer, keys, old, new, w: bool(
                np.allclose(answer(answer(keys, old, new, w), new, old, w), keys)
            ),
        ),
    ),
)


def _overwritten(keys, old, new, w):
    turns = (new - old)[:, None] * w
    out = np.array(keys, dtype=float)
    out[:, 0::2] = out[:, 0::2] * np.cos(turns) - out[:, 1::2] * np.sin(turns)
    out[:, 1::2] = out[:, 0::2] * np.sin(turns) + out[:, 1::2] * np.cos(turns)
    return out


def _reflected(keys, old, new, w):
    turns = (new - old)[:, None] * w
    a, b = keys[:, 0::2], keys[:, 1::2]
    out = np.empty_like(keys)
    out[:, 0::2] = a * np.cos(turns) + b * np.sin(turns)
    out[:, 1::2] = a * np.sin(turns) + b * np.cos(turns)
    return out


def _untouched(answer, keys, old, new, w):
    given = keys.copy()
    answer(given, old, new, w)
    return bool(np.array_equal(given, keys))


# kv-cache-4: grouped offsets


def grouped(i, j, window, group):
    """The offsets, [queries, keys], integers."""
    near = i[:, None] - j
    far = i[:, None] // group - j // group + window - window // group
    return np.where(near < window, near, far)


def _grouped(
    near=lambda i, j, w, g: i[:, None] - j,
    far=lambda i, j, w, g: i[:, None] // g - j // g + w - w // g,
    is_near=lambda t, w: t < w,
):
    """With another near or far offset, or another border."""
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
`i` are positions of queries and `j` of keys, arrays of integers from 0 on; the last query is a cache's newest, so `i` need not begin at 0.
Return the offsets of Self-Extend, `[queries, keys]`, integers: $i - j$ below the window $w$ = `window`, and $\lfloor i/G \rfloor - \lfloor j/G \rfloor + w - \lfloor w/G \rfloor$ from it on, with $G$ = `group`.
Keys ahead of a query count as near.
Then print the row of a query at 20 and look for a step of 2.
""",
    hint=r"""
Both formulas for all pairs, and a choice between them.
""",
    cases=(
        (np.array([3]), np.array([0, 1, 2, 3]), 2, 2),
        (np.array([5, 6]), np.arange(7), 3, 2),
        (np.arange(6), np.arange(6), 1, 3),
        (np.array([19]), np.arange(20), 4, 3),
        (np.arange(8, 12), np.arange(12), 5, 4),
        (np.array([7]), np.arange(8), 3, 1),
    ),
    solution=grouped,
    misconceptions=(
        Misconception(
            "The offset divided",
            "Both positions are divided, and then subtracted.",
            _grouped(far=lambda i, j, w, g: (i[:, None] - j) // g + w - w // g),
        ),
        Misconception(
            "No shift",
            "Without w − ⌊w/G⌋ far keys seem nearer than near ones.",
            _grouped(far=lambda i, j, w, g: i[:, None] // g - j // g),
        ),
        Misconception(
            "The whole window added",
            "The far keys are w/G groups away already.",
            _grouped(far=lambda i, j, w, g: i[:, None] // g - j // g + w),
        ),
        Misconception(
            "The window counts as near",
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
            "Near keys are as they are.",
            _grouped(is_near=lambda t, w: t >= w),
        ),
        Misconception(
            "Grouped everywhere",
            "Below the window offsets are as they are.",
            _grouped(is_near=lambda t, w: np.zeros_like(t, dtype=bool)),
        ),
        Misconception(
            "RoPE alone",
            "From the window on keys are grouped.",
            _grouped(is_near=lambda t, w: np.ones_like(t, dtype=bool)),
        ),
        Misconception(
            "ReRoPE",
            "Far offsets grow here, by 1 a group.",
            _grouped(far=lambda i, j, w, g: np.full((len(i), len(j)), w)),
        ),
        Misconception(
            "Rounded up",
            "A floor rounds down.",
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
            "Multiplied by the group again",
            "Groups count as single positions.",
            _grouped(far=lambda i, j, w, g: (i[:, None] // g - j // g) * g),
        ),
        Misconception(
            "Query positions from 0",
            "Their positions are given: a cache holds what came before.",
            lambda i, j, w, g: grouped(np.arange(len(i)), j, w, g),
        ),
        Misconception(
            "Groups within the window, too",
            "The shift is w − ⌊w/G⌋, not w − ⌊w/G⌋ groups.",
            _grouped(
                far=lambda i, j, w, g: i[:, None] // g - j // g + (w - w // g) // g
            ),
        ),
        Misconception(
            "Keys ahead by their distance",
            "They count as near, whatever it is.",
            _grouped(is_near=lambda t, w: abs(t) < w),
        ),
        Misconception(
            "Keys ahead at offset 0",
            "i − j is negative there, and stays so.",
            _grouped(near=lambda i, j, w, g: np.maximum(i[:, None] - j, 0)),
        ),
    ),
    properties=(
        Property(
            "Groups of 1 are RoPE",
            lambda answer, i, j, window, group: bool(
                np.array_equal(answer(i, j, window, 1), i[:, None] - j)
            ),
        ),
        Property(
            "All moved by a whole group is the same",
            lambda answer, i, j, window, group: bool(
                np.array_equal(
                    answer(i + group, j + group, window, group),
                    answer(i, j, window, group),
                )
            ),
        ),
    ),
    tolerance=0.0,
)


# kv-cache-5: absorbed


def absorbed(q, up, latents, q_turned, k_turned):
    """The logits, [heads, tokens], of the dtype of q."""
    through = torch.einsum("hd,hdc->hc", q, up)
    products = through @ latents.T + q_turned @ k_turned.T
    return products / (q.shape[1] + q_turned.shape[1]) ** 0.5


def _logits(
    through=lambda q, up: torch.einsum("hd,hdc->hc", q, up),
    size=lambda q, u, c, r, k: q.shape[1] + r.shape[1],
    beside=lambda r, k: r @ k.T,
):
    """With another scale, or another part that turns."""

    def answer(q, up, latents, q_turned, k_turned):
        products = through(q, up) @ latents.T + beside(q_turned, k_turned)
        return products / size(q, up, latents, q_turned, k_turned) ** 0.5

    return answer


def _in_full(q, up, latents, q_turned, k_turned):
    keys = torch.einsum("hdc,jc->hjd", up, latents)
    products = torch.einsum("hd,hjd->hj", q, keys) + q_turned @ k_turned.T
    return products / (q.shape[1] + q_turned.shape[1]) ** 0.5


def _beyond_float64(q, up, latents, *turned):
    """The same scores, with keys that overflow."""
    return 1e-307 * q, 1e154 * up, 1e155 * latents, *turned


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
    title="A query that absorbs",
    kind="PyTorch",
    minutes=15,
    lines=3,
    statement=r"""
One query of latent attention: `q` are its features without RoPE, `[heads, d]`, and `q_turned` those with it, `[heads, r]`, turned already.
The cache has `latents`, `[tokens, latent]`, and one shared key for each token, `k_turned`, `[tokens, r]`, turned. Head $h$ would make its keys by $k_j = U_h c_j$ with $U_h$ = `up[h]`, `[d, latent]`.
Return the logits, `[heads, tokens]`, before the softmax and over the root of the number of features of a query.
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
    ),
    solution=absorbed,
    misconceptions=(
        Misconception(
            "Over √d",
            "A query has d features without RoPE and r with it.",
            _logits(size=lambda q, u, c, r, k: q.shape[1]),
        ),
        Misconception(
            "Over √r",
            "A query has d features without RoPE and r with it.",
            _logits(size=lambda q, u, c, r, k: r.shape[1]),
        ),
        Misconception(
            "Over the root of the latent width",
            "The absorbed query is as wide as that, but it stands for d features.",
            _logits(size=lambda q, u, c, r, k: c.shape[1] + r.shape[1]),
        ),
        Misconception(
            "Not divided",
            "Logits are over √(d + r).",
            _logits(size=lambda q, u, c, r, k: 1),
        ),
        Misconception(
            "Without the part that turns",
            "Then the logits know no position.",
            _logits(beside=lambda r, k: 0.0),
        ),
        Misconception(
            "The part that turns alone",
            "The latent vectors have a say, too.",
            _logits(through=lambda q, up: torch.zeros_like(up[:, 0])),
        ),
        Misconception(
            "One head's matrix for all",
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
            "Each part divided by its own root",
            "One root, of all features, for both.",
            lambda q, up, latents, q_turned, k_turned: (
                torch.einsum("hd,hdc->hc", q, up) @ latents.T / q.shape[1] ** 0.5
                + q_turned @ k_turned.T / q_turned.shape[1] ** 0.5
            ),
        ),
        Misconception(
            "Subtracted",
            "The two parts add up to one inner product.",
            _logits(beside=lambda r, k: -(r @ k.T)),
        ),
        Misconception(
            "Turned again",
            "Shared keys are cached turned, the queries come turned.",
            _logits(beside=lambda r, k: r.flip(-1) @ k.T),
        ),
        Misconception(
            "The shared key for each head",
            "All heads share it, but each has its own query.",
            _logits(beside=lambda r, k: r.sum(0, keepdim=True) @ k.T),
        ),
        Misconception(
            "The square root of the whole",
            "The product of queries and keys is divided once.",
            _logits(size=lambda q, u, c, r, k: (q.shape[1] + r.shape[1]) ** 2),
        ),
        Misconception(
            "Weights, not logits",
            "The softmax comes after.",
            lambda *case: absorbed(*case).softmax(-1),
        ),
        Misconception(
            "The root of the latent width alone",
            "The absorbed query is as wide as that, but it stands for d features.",
            _logits(size=lambda q, u, c, r, k: c.shape[1]),
        ),
        Misconception(
            "Keys made",
            "In one of the cases they are beyond float64, and what the query absorbs is not.",
            _in_full,
        ),
    ),
    properties=(
        Property(
            "It is what keys in full would give",
            lambda answer, q, up, c, r, k: bool(
                torch.allclose(
                    answer(q, up, c, r, k),
                    (torch.einsum("hd,hdc,jc->hj", q, up, c) + r @ k.T)
                    / (q.shape[1] + r.shape[1]) ** 0.5,
                )
            ),
        ),
    ),
)


# kv-cache-6: what a head loses


def lost(q, keys, old, new, frequencies):
    """Two numbers, float64: weights off with keys as they are, and moved."""
    place = new.max() + 1

    def turned(x, at):
        angle = np.asarray(at)[:, None] * frequencies
        a, b = np.split(x, 2, axis=1)
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate((a * cos - b * sin, a * sin + b * cos), axis=1)

    def weights(k):
        logits = turned(q[None], [place]) @ k.T / np.sqrt(q.size)
        odds = np.exp(logits[0] - logits.max())
        return odds / odds.sum()

    cached, fresh = turned(keys, old), weights(turned(keys, new))
    return np.array(
        [
            abs(weights(cached) - fresh).max(),
            abs(weights(turned(cached, new - old)) - fresh).max(),
        ]
    )


def _lost(
    place=lambda old, new: new.max() + 1,
    scale=np.sqrt,
    share=lambda a: np.exp(a - a.max()) / np.exp(a - a.max()).sum(),
    shift=lambda old, new: new - old,
    size=lambda x: abs(x).max(),
    layout="half",
    query=True,
    of_cached=None,
):
    """With something else in one of its places."""

    def answer(q, keys, old, new, frequencies):
        def turned(x, at):
            first, second = _members(x, layout)
            angle = np.asarray(at)[:, None] * frequencies
            a, b, out = x[:, first], x[:, second], np.empty_like(x)
            out[:, first] = a * np.cos(angle) - b * np.sin(angle)
            out[:, second] = a * np.sin(angle) + b * np.cos(angle)
            return out

        def weights(k, place=of_cached or place):
            asked = turned(q[None], [place(old, new)]) if query else q[None]
            return share((asked @ k.T / scale(q.size))[0])

        cached, fresh = turned(keys, old), weights(turned(keys, new), place)
        moved_keys = turned(cached, shift(old, new))
        found = (weights(cached) - fresh, weights(moved_keys) - fresh)
        return np.array([size(x) for x in found])

    return answer


def _text(tokens, pairs, old, new):
    return (
        3 * draw(2 * pairs, seed=5),
        draw(tokens, 2 * pairs),
        np.array(old, dtype=float),
        np.array(new, dtype=float),
        np.array([1.0, 0.2, 0.03, 0.001])[:pairs],
    )


LOST = Exercise(
    name="kv-cache-6",
    title="What a head loses",
    kind="experiment",
    minutes=20,
    lines=12,
    statement=r"""
`keys`, `[tokens, d]`, are not turned yet; they stood at `old` and are to stand at `new`, float arrays `[tokens]`. RoPE has the half layout (features p and p + d/2) and `frequencies`, `[d/2]`. The query `q`, `[d]`, not turned yet, stands one behind the largest new position; logits are over √d.
Fresh weights are those with keys turned at `new`. Return an array of two numbers: by how much the weight of some key is off at most, if keys are cached at `old` and left as they are, and if they are cached at `old` and then moved.
Then take 400 keys, four sinks and a window of 100, and print both. And if all 400 move by $-100$: which of the two is off only because the query moved with them, and right with the query at 400?
""",
    hint=r"""
Write one function that turns, and use it four times.
""",
    cases=(
        _text(2, 1, [0, 5], [0, 1]),
        _text(3, 1, [0, 7, 8], [0, 1, 2]),
        _text(4, 2, [0, 1, 8, 9], [0, 1, 2, 3]),
        _text(5, 3, [0, 6, 7, 8, 9], [7, 1, 2, 3, 0.5]),
    ),
    solution=lost,
    misconceptions=(
        Misconception(
            "Moved in the wrong direction",
            "The second number must be rounding: new minus old.",
            _lost(shift=lambda old, new: old - new),
        ),
        Misconception(
            "Turned to the new position again",
            "They are cached turned at old already.",
            _lost(shift=lambda old, new: new),
        ),
        Misconception(
            "The query at the old end",
            "It stands one behind the largest new position.",
            _lost(place=lambda old, new: old.max() + 1),
        ),
        Misconception(
            "The query at the largest position",
            "One behind it.",
            _lost(place=lambda old, new: new.max()),
        ),
        Misconception(
            "The query one behind the last key",
            "Behind the largest position, which need not be the last.",
            _lost(place=lambda old, new: new[-1] + 1),
        ),
        Misconception(
            "The query at the number of keys",
            "One behind the largest new position.",
            _lost(place=lambda old, new: len(new)),
        ),
        Misconception(
            "Query not rotated",
            "RoPE turns queries, too.",
            _lost(query=False),
        ),
        Misconception(
            "Not divided",
            "Logits are over √d.",
            _lost(scale=lambda d: 1),
        ),
        Misconception(
            "Divided by d",
            "Logits are over √d.",
            _lost(scale=lambda d: d),
        ),
        Misconception(
            "Logits for weights",
            "Of the weights, after the softmax.",
            _lost(share=lambda a: a),
        ),
        Misconception(
            "Interleaved pairs",
            "The half layout: features p and p + d/2.",
            _lost(layout="interleaved"),
        ),
        Misconception(
            "The mean difference",
            "The largest.",
            _lost(size=lambda x: abs(x).mean()),
        ),
        Misconception(
            "The sum of differences",
            "The largest one.",
            _lost(size=lambda x: abs(x).sum()),
        ),
        Misconception(
            "The largest with its sign",
            "A weight may be too small, too: take absolute values.",
            _lost(size=lambda x: x.max()),
        ),
        Misconception(
            "Exponentials that not divided by their sum",
            "Weights sum to 1.",
            _lost(share=np.exp),
        ),
        Misconception(
            "Stale weights with the query at the old end",
            "It stands behind the new ones, whatever the keys are.",
            _lost(of_cached=lambda old, new: old.max() + 1),
        ),
    ),
    properties=(
        Property(
            "Where nothing moves nothing is off",
            lambda answer, q, keys, old, new, w: bool(
                np.allclose(answer(q, keys, new, new, w), 0)
            ),
        ),
    ),
)


SHEET = Sheet(
    title="Moving the cache",
    conventions=r"""
Positions count from 0; an offset is query position minus key position. A shift is a new position minus an old one. A turned key is $R_m k$ with RoPE's rotation at its position $m$.
""",
    exercises=(SHIFT, LONGEST, MOVED, GROUPED, ABSORBED, LOST),
)
