"""Exercises on the recipes: twelve broken layers to repair."""

import math

import torch

from posedu.book.exercises.records import (
    Exercise,
    Misconception,
    Repair,
    Sheet,
)


def _randn(*shape, seed=0):
    """Draw normal float32 numbers, fixed by the shape and the seed."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator)


def rotate(x, angles):
    """Rotate pairs of features of ``x``, half layout.

    ``x`` is [..., tokens, d]. Feature p and feature d/2 + p
    are a pair; ``angles`` is [..., tokens, d/2].
    """
    a, b = x.chunk(2, dim=-1)
    cos = angles.cos().to(x.dtype)
    sin = angles.sin().to(x.dtype)
    rotated = a * cos - b * sin, b * cos + a * sin
    return torch.cat(rotated, -1)


def frequencies(d, base=10_000.0):
    """RoPE's frequencies of a head of d features.

    They are float64, [d/2].
    """
    two_p = torch.arange(0, d, 2, dtype=torch.float64)
    return base ** (-two_p / d)


# repair-1: left padding


def padded_tokens(x, mask, table):
    """Add learned rows to left-padded tokens ``x``.

    ``x`` is [batch, tokens, d], ``mask`` is True at real
    tokens, ``table`` [positions, d] has a row for each
    position. A text's first real token is at position 0.
    """
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    return x + table[positions]


def _broken_padded_tokens(x, mask, table):
    """Add learned rows to left-padded tokens ``x``.

    ``x`` is [batch, tokens, d], ``mask`` is True at real
    tokens, ``table`` [positions, d] has a row for each
    position. A text's first real token is at position 0.
    """
    positions = torch.arange(x.shape[1])
    return x + table[positions]


def symptom_of_padding(function):
    """Return how much padding changes the last token."""
    x = torch.ones(1, 5, 2)
    table = torch.arange(16.0).reshape(8, 2)
    mask = torch.tensor([[False, False, True, True, True]])
    alone = function(x[:, 2:], mask[:, 2:], table)
    padded = function(x, mask, table)
    return (padded[0, -1] - alone[0, -1]).abs().max().item()


def _minus_padding(x, mask, table):
    positions = torch.arange(x.shape[1]) - (~mask).sum(-1).max()
    return x + table[positions.clamp(min=0)]


def _add_table(position):
    """Make an answer that adds the rows at ``position(mask, columns)``."""

    def answer(x, mask, table):
        return x + table[position(mask, torch.arange(x.shape[1]))]

    return answer


def _padding_overwritten(x, mask, table):
    return padded_tokens(x, mask, table).where(mask[..., None], 0.0)


def _prompts(x, mask, table):
    """Return a case with NaN at padded tokens, which no row of the table changes."""
    return x.masked_fill(~mask[..., None], math.nan), mask, table


_MASK = torch.tensor([[True, True, True, True], [False, False, True, True]])

PADDING = Exercise(
    name="repair-1",
    title="A padded prompt",
    kind="repair",
    minutes=5,
    lines=2,
    statement=r"""
A batch of prompts is padded on the left.
A prompt gets another answer in the batch than alone, and with this table the more so the shorter it is.
Repair `padded_tokens`; `symptom_of_padding` must give 0.
Padded tokens may get any row: in the check they are NaN, and stay so whatever is added.
With RoPE in place of the table, would the prompt have changed, too?
""",
    hint=r"""
`mask.cumsum(-1)` counts the real tokens up to each token, itself included.
""",
    cases=(
        _prompts(torch.zeros(1, 2, 1), _MASK[1:, 1:3], torch.arange(4.0)[:, None]),
        _prompts(_randn(2, 4, 3), _MASK, _randn(8, 3)),
        _prompts(_randn(2, 4, 3), _MASK.flip(0), _randn(8, 3, seed=1)),
    ),
    solution=padded_tokens,
    misconceptions=(
        Misconception(
            "Padding counted as tokens",
            "The code is as it was for real tokens. A text's first real token is at "
            "position 0, wherever it stands in the row.",
            _broken_padded_tokens,
        ),
        Misconception(
            "The longest padding subtracted from every row",
            "Each row has its own padding.",
            _minus_padding,
        ),
        Misconception(
            "Positions from 1",
            "The first real token is at position 0: subtract 1 from the count.",
            lambda x, mask, table: x + table[mask.cumsum(-1)],
        ),
        Misconception(
            "Padding of the first prompt subtracted from every row",
            "Each row has its own padding, not that of `mask[0]`.",
            _add_table(lambda mask, at: (at - (~mask[0]).sum()).clamp(min=0)),
        ),
        Misconception(
            "The shortest padding subtracted from every row",
            "Each row has its own padding: sum over the tokens alone.",
            _add_table(lambda mask, at: (at - (~mask).sum(-1).min()).clamp(min=0)),
        ),
        Misconception(
            "Real tokens subtracted",
            "Subtract the number of padded tokens before it from a token's column.",
            _add_table(lambda mask, at: (at - mask.sum(-1, True)).clamp(min=0)),
        ),
        Misconception(
            "Counted along the batch",
            "The tokens are the last axis of the mask: cumsum(-1).",
            _add_table(lambda mask, at: (mask.cumsum(0) - 1).clamp(min=0)),
        ),
        Misconception(
            "Counted from the end",
            "A text's first real token is at position 0, not its last.",
            _add_table(lambda mask, at: mask.flip(-1).cumsum(-1).flip(-1) - 1),
        ),
        Misconception(
            "Padded tokens overwritten",
            "Real tokens are right. Add a row of the table to padded tokens, too; "
            "which one does not matter.",
            _padding_overwritten,
        ),
    ),
    explanation=r"""
The positions must count the real tokens of each row, not the columns of the batch.
With RoPE nothing would have changed but rounding: every offset between real tokens is the same in both countings, and padded keys are masked.
It would have changed, too, if prompt and answer were counted differently, since then offsets between them are wrong by the length of the padding.
""",
    repair=Repair(_broken_padded_tokens, symptom_of_padding),
)


# repair-2: packing


def packed_mask(segments):
    """Mask [tokens, tokens] of texts packed in one row.

    It is True where i may attend to j. ``segments``
    [tokens] numbers each token's text; texts stand one
    after another. A token attends to itself and to earlier
    tokens of its own text.
    """
    i = torch.arange(len(segments))
    same_text = segments[:, None] == segments
    return (i[:, None] >= i) & same_text


def _broken_packed_mask(segments):
    """Mask [tokens, tokens] of texts packed in one row.

    It is True where i may attend to j. ``segments``
    [tokens] numbers each token's text; texts stand one
    after another. A token attends to itself and to earlier
    tokens of its own text.
    """
    i = torch.arange(len(segments))
    same_text = segments[:, None] >= segments
    return (i[:, None] >= i) & same_text


def symptom_of_packing(function):
    """Return how many keys of other texts are seen."""
    segments = torch.tensor([0, 0, 0, 1, 1])
    return function(segments)[3:, :3].sum().item()


PACKING = Exercise(
    name="repair-2",
    title="Two texts in one row",
    kind="repair",
    minutes=5,
    lines=1,
    statement=r"""
Short texts are packed into one row to save padding.
The loss of the second text is lower than that of the same text alone: it has seen the first.
Repair the mask, so that `symptom_of_packing` gives 0.
A colleague says that restarting RoPE's positions at each text would do as well. Would it?
""",
    hint=r"""
Which relation must hold between the two tokens' numbers?
""",
    cases=(
        (torch.tensor([0, 1]),),
        (torch.tensor([0, 0, 1, 1, 1, 2]),),
        (torch.tensor([4, 4, 1, 1]),),
    ),
    solution=packed_mask,
    misconceptions=(
        Misconception(
            "Earlier texts visible",
            "The code is as it was: a text with a larger number sees those before it.",
            _broken_packed_mask,
        ),
        Misconception(
            "Later tokens visible",
            "Within a text, too, a token must not attend to later ones.",
            lambda segments: segments[:, None] == segments,
        ),
        Misconception(
            "A token without itself",
            "Each token attends to itself; a row without any key has no softmax.",
            lambda segments: packed_mask(segments) & ~torch.eye(len(segments)).bool(),
        ),
        Misconception(
            "Texts with larger numbers visible",
            "A token sees its own text only, and the numbers need not rise.",
            lambda segments: (segments[:, None] <= segments).tril(),
        ),
        Misconception(
            "Only other texts visible",
            "A token sees its own text and no other.",
            lambda segments: (segments[:, None] != segments).tril(),
        ),
        Misconception(
            "Only texts with smaller numbers visible",
            "The two tokens must be of one text.",
            lambda segments: (segments[:, None] > segments).tril(),
        ),
        Misconception(
            "Two kinds of text only",
            "A row may have more than two texts, and each has its own number.",
            lambda segments: ((segments[:, None] > 0) == (segments > 0)).tril(),
        ),
    ),
    explanation=r"""
Both tokens must have the same number: the texts' order in the row says nothing about who may see whom.
Restarted positions do not hide a key: the first text's keys would stand at the same positions as the second's and take weight from them.
They change nothing else either, once the mask is right: within a text all offsets stay as they were, {prf:ref}`as RoPE depends on offsets alone <thm-rope-relative>`.
""",
    repair=Repair(_broken_packed_mask, symptom_of_packing),
)


# repair-3: stale keys


def cached_scores(q, keys, base, d):
    """Scores of the newest query after a change of base.

    ``q`` [d] is the query of the last token, ``keys``
    [tokens, d] are all keys, not rotated, at positions
    0, 1, …; ``base`` is RoPE's base from now on.
    """
    positions = torch.arange(len(keys), dtype=torch.float64)
    angles = positions[:, None] * frequencies(d, base)
    query = rotate(q[None], angles[-1:])[0]
    return rotate(keys, angles) @ query


def _broken_cached_scores(q, keys, base, d):
    """Scores of the newest query after a change of base.

    ``q`` [d] is the query of the last token, ``keys``
    [tokens, d] are all keys, not rotated, at positions
    0, 1, …; ``base`` is RoPE's base from now on.
    """
    positions = torch.arange(len(keys), dtype=torch.float64)
    old = positions[:-1, None] * frequencies(d)
    new = positions[-1:, None] * frequencies(d, base)
    cached = rotate(keys[:-1], old)
    newest = rotate(keys[-1:], new)
    query = rotate(q[None], new)[0]
    return torch.cat((cached, newest)) @ query


def symptom_of_stale_keys(function):
    """Return how much scores depend on a text's place.

    The base is 500.
    """
    tokens, first = torch.ones(2, 4), torch.zeros(3, 4)
    later = torch.cat((first, tokens))
    near = function(tokens[0], tokens, 500.0, 4)
    far = function(tokens[0], later, 500.0, 4)
    return (near[-2] - far[-2]).abs().item()


def _base_of_the_query_alone(q, keys, base, d):
    positions = torch.arange(len(keys), dtype=torch.float64)
    rotated = rotate(keys, positions[:, None] * frequencies(d))
    return rotated @ rotate(q[None], positions[-1:, None] * frequencies(d, base))[0]


def _base_nowhere(q, keys, base, d):
    return cached_scores(q, keys, 10_000.0, d)


def _of_new_base(at, old, new):
    return at * new


def _of_old_base(at, old, new):
    return at * old


def _no_rotation(at, old, new):
    return 0 * at * new


def _scores_with(cached=_of_new_base, newest=_of_new_base, query=_of_new_base):
    """Make a wrong answer to the exercise ``cached_scores``.

    Each argument maps positions and the old and new frequencies to the angles of the
    cached keys, of the newest key, or of the query.
    """

    def answer(q, keys, base, d):
        at = torch.arange(len(keys), dtype=torch.float64)[:, None]
        old, new = frequencies(d), frequencies(d, base)
        first = rotate(keys[:-1], cached(at[:-1], old, new))
        last = rotate(keys[-1:], newest(at[-1:], old, new))
        return torch.cat((first, last)) @ rotate(q[None], query(at[-1:], old, new))[0]

    return answer


STALE = Exercise(
    name="repair-3",
    title="Keys from before the base changed",
    kind="repair",
    minutes=8,
    lines=3,
    statement=r"""
A text has outgrown its training length, and the model has raised RoPE's base, as dynamic NTK does.
From this step on it writes nonsense, though a model that reads the whole text at once with the new base does not.
Repair `cached_scores`; `symptom_of_stale_keys` must give 0.
What must a cache hold for this to be possible?
""",
    hint=r"""
Which base do the two rotations of one score have?
""",
    cases=(
        (torch.ones(2), torch.ones(3, 2), 100.0, 2),
        (_randn(8), _randn(6, 8), 500.0, 8),
        (_randn(8, seed=1), _randn(40, 8), 1e6, 8),
    ),
    solution=cached_scores,
    misconceptions=(
        Misconception(
            "Cached keys keep the old base",
            "The code is as it was. Query and key must be rotated with one base, or "
            "their score depends on where they stand and not on their offset alone.",
            _broken_cached_scores,
        ),
        Misconception(
            "The query alone has the new base",
            "All keys must be rotated with it, too, the newest one included.",
            _base_of_the_query_alone,
        ),
        Misconception(
            "The old base everywhere",
            "The scores are relative now, but the base has changed.",
            _base_nowhere,
        ),
        Misconception(
            "The newest key alone has the new base",
            "The query and all cached keys must be rotated with it, too.",
            _scores_with(cached=_of_old_base, query=_of_old_base),
        ),
        Misconception(
            "The newest key with the old base",
            "All keys have the new base from now on, the newest one included.",
            _scores_with(newest=_of_old_base),
        ),
        Misconception(
            "Rotated twice",
            "The cached keys have both rotations now. Replace the old one.",
            _scores_with(cached=lambda at, old, new: at * (old + new)),
        ),
        Misconception(
            "Moved in the wrong direction",
            "From the old angle to the new one it is new minus old.",
            _scores_with(cached=lambda at, old, new: at * (2 * old - new)),
        ),
        Misconception(
            "Query one position too far",
            "The query is the last token's, at the position of the newest key.",
            _scores_with(query=lambda at, old, new: (at + 1) * new),
        ),
        Misconception(
            "All keys at one position",
            "Key j is rotated at position j. With one angle for all, or none, scores "
            "do not depend on positions.",
            lambda q, keys, base, d: keys @ q,
        ),
        Misconception(
            "Keys not rotated",
            "The keys that are given are not rotated: rotate each at its position.",
            _scores_with(cached=_no_rotation, newest=_no_rotation),
        ),
        Misconception(
            "Repaired for the symptom only",
            "`symptom_of_stale_keys` has the base 500. Use the argument `base`.",
            lambda q, keys, base, d: cached_scores(q, keys, 500.0, d),
        ),
        Misconception(
            "Divided by √d",
            "The broken code does not divide, and this is not its fault: the scores "
            "are the inner products themselves.",
            lambda q, keys, base, d: cached_scores(q, keys, base, d) / d**0.5,
        ),
    ),
    tolerance=1e-4,
    explanation=r"""
A score is relative only if query and key are rotated with the same frequencies; between two bases there is a rotation left over that depends on the key's position.
So the cache holds keys that are not rotated, and rotates all of them at each change, or holds rotated keys and turns each by its position times the difference of the new and old frequencies.
Both give the same keys up to rounding.
""",
    repair=Repair(_broken_cached_scores, symptom_of_stale_keys),
)


# repair-4: angles in half precision


def rotated_in(x, positions, dtype):
    """Rotate ``x``, [tokens, d], in the half layout.

    ``positions`` is [tokens], the base 10,000; the result
    has the dtype ``dtype``.
    """
    omega = frequencies(x.shape[1])
    places = positions.double()[:, None]
    return rotate(x.to(dtype), places * omega)


def _broken_rotated_in(x, positions, dtype):
    """Rotate ``x``, [tokens, d], in the half layout.

    ``positions`` is [tokens], the base 10,000; the result
    has the dtype ``dtype``.
    """
    omega = frequencies(x.shape[1]).to(dtype)
    places = positions.to(dtype)[:, None]
    return rotate(x.to(dtype), places * omega)


def symptom_of_half_precision(function):
    """Return how many rotated vectors are not new.

    They equal the one before, at 1,000 positions.
    """
    at = torch.arange(4000, 5000)
    x = torch.ones(1000, 2)
    rotated = function(x, at, torch.bfloat16)
    return (rotated[1:] == rotated[:-1]).all(1).sum().item()


def _angles_rounded(x, positions, dtype):
    angles = positions.double()[:, None] * frequencies(x.shape[1])
    return rotate(x.to(dtype), angles.to(dtype))


def _frequencies_rounded(x, positions, dtype):
    own = frequencies(x.shape[1]).to(dtype).double()
    return rotate(x.to(dtype), positions.double()[:, None] * own)


def _at_other_positions(change):
    """Make an answer that is right for the positions ``change(positions, dtype)``."""
    return lambda x, positions, dtype: rotated_in(x, change(positions, dtype), dtype)


def _neighbors_rotated(x, positions, dtype):
    halves = torch.cat((x[:, 0::2], x[:, 1::2]), -1)
    rotated = rotated_in(halves, positions, dtype)
    return rotated.unflatten(-1, (2, -1)).mT.flatten(-2)


PRECISION = Exercise(
    name="repair-4",
    title="Angles in bfloat16",
    kind="repair",
    minutes=6,
    lines=2,
    statement=r"""
A model was converted to bfloat16 with `.to(torch.bfloat16)`, its RoPE included.
It reads short texts nearly as before and loses its place in long ones.
Repair `rotated_in`; the result still has `dtype`, and `symptom_of_half_precision` must give 0.
From which position on are two neighbors the same number in bfloat16?
""",
    hint=r"""
Positions and angles need more digits than features: round the cosine and the sine, not the angle.
""",
    cases=(
        (torch.ones(1, 2), torch.tensor([300]), torch.bfloat16),
        (_randn(3, 8), torch.tensor([0, 1001, 70_001]), torch.bfloat16),
        (_randn(3, 8), torch.tensor([5, 2049, 4097]), torch.float16),
        (_randn(2, 4), torch.tensor([3, 4]), torch.float32),
    ),
    solution=rotated_in,
    misconceptions=(
        Misconception(
            "Everything in the dtype of the features",
            "The code is as it was: bfloat16 has 8 binary digits, so position 257 "
            "is already 256.",
            _broken_rotated_in,
        ),
        Misconception(
            "The angle rounded",
            "Its product is exact now, but an angle of 1,000 has steps of 4 in "
            "bfloat16. Round the cosine and the sine.",
            _angles_rounded,
        ),
        Misconception(
            "The frequencies rounded",
            "A frequency that is off by a part in 256 is off by whole turns at far "
            "positions.",
            _frequencies_rounded,
        ),
        Misconception(
            "The positions rounded",
            "The frequencies are exact now. But bfloat16 has 8 binary digits, so "
            "position 257 is already 256.",
            _at_other_positions(lambda at, dtype: at.to(dtype)),
        ),
        Misconception(
            "Positions wrapped",
            "A position beyond 256 is not that position minus 256: keep it whole.",
            _at_other_positions(lambda at, dtype: at % 256),
        ),
        Misconception(
            "Positions counted from the first",
            "The first of `positions` need not be 0, and its vector is rotated, too.",
            _at_other_positions(lambda at, dtype: at - at[0]),
        ),
        Misconception(
            "Interleaved pairs",
            "In the half layout feature p pairs with feature d/2 + p.",
            _neighbors_rotated,
        ),
    ),
    tolerance=0.01,
    explanation=r"""
bfloat16 has 8 significant binary digits, so the whole numbers up to 256 are exact, and 257 is the first that is not: it is rounded to 256, and from there on neighbors fall together.
Features may be rounded, since their error stays relative; an error of the angle is a rotation, and a rounded frequency multiplies its error by the position.
So positions, frequencies and their product are computed in float32 or float64, and only cosines and sines are rounded, {prf:ref}`as the bound on RoPE's precision says <thm-rope-precision>`.
""",
    repair=Repair(_broken_rotated_in, symptom_of_half_precision),
)


# repair-5: a base that nobody reads


def base_of(config):
    """RoPE's base in a config.json of transformers.

    Newer files have it as ``rope_theta`` in the dict
    ``rope_parameters``, older ones at the top; a file with
    neither means 10,000.
    """
    older = config.get("rope_theta", 10_000.0)
    parameters = config.get("rope_parameters") or {}
    return float(parameters.get("rope_theta", older))


def _broken_base_of(config):
    """RoPE's base in a config.json of transformers.

    Newer files have it as ``rope_theta`` in the dict
    ``rope_parameters``, older ones at the top; a file with
    neither means 10,000.
    """
    return float(config.get("rope_theta", 10_000.0))


def symptom_of_lost_base(function):
    """Return the error of the base of a newer file.

    The file says 500,000.
    """
    newer = {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 500_000.0,
        },
    }
    return abs(function(newer) - 500_000.0)


def _newer_alone(config):
    return float(config.get("rope_parameters", {}).get("rope_theta", 10_000.0))


def _both(choose):
    """Make an answer that chooses between the bases of the dict and of the top.

    ``choose`` takes the dict, never None, and the base at the top or None.
    """
    return lambda config: float(
        choose(config.get("rope_parameters") or {}, config.get("rope_theta")) or 1e4
    )


def _larger(parameters, top):
    return max(parameters.get("rope_theta", 0), top or 0)


def _of_default_type(parameters, top):
    is_default = parameters.get("rope_type") == "default"
    return parameters["rope_theta"] if is_default else top


def _of_dict_if_any(parameters, top):
    return parameters.get("rope_theta") if parameters else top


def _older_first(config):
    parameters = config.get("rope_parameters") or {}
    return float(config.get("rope_theta", parameters.get("rope_theta", 10_000.0)))


BASE = Exercise(
    name="repair-5",
    title="A base that is not read",
    kind="repair",
    minutes=5,
    lines=2,
    statement=r"""
A loader reads a model's base from its configuration.
With a file written by transformers 5 the model is loaded without a warning, and its perplexity is far too high.
Repair `base_of`; `symptom_of_lost_base` must give 0.
If a file has both names, the dict counts.
Why do near offsets hardly show the fault?
""",
    hint=r"""
`rope_parameters` may be missing, or `None`.
""",
    cases=(
        ({},),
        ({"rope_theta": 1_000_000},),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0}},),
        ({"rope_parameters": None, "rope_theta": 5e6},),
        ({"rope_parameters": {"rope_type": "yarn"}, "rope_theta": 7e4},),
        ({"rope_parameters": {"rope_theta": 1e7}, "rope_theta": 1e4},),
        (
            {
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
                "rope_theta": 5e5,
            },
        ),
    ),
    solution=base_of,
    misconceptions=(
        Misconception(
            "The newer place is not read",
            "The code is as it was: without `rope_theta` at the top it takes 10,000 "
            "for granted.",
            _broken_base_of,
        ),
        Misconception(
            "The older place is not read",
            "Files from before transformers 5 have the base at the top, and "
            "`rope_parameters` may be None.",
            lambda config: _newer_alone({k: v for k, v in config.items() if v}),
        ),
        Misconception(
            "The older place first",
            "If a file has both names, the dict counts.",
            _older_first,
        ),
        Misconception(
            "The larger of both",
            "If a file has both names, the dict counts, even if its base is smaller.",
            _both(_larger),
        ),
        Misconception(
            "The dict is read for one type only",
            "Files of every `rope_type`, or without one, may have a base in the dict.",
            _both(_of_default_type),
        ),
        Misconception(
            "The older place is not read, if there is a dict",
            "The dict may lack `rope_theta`. Then the base at the top counts.",
            _both(_of_dict_if_any),
        ),
        Misconception(
            "Repaired for the symptom only",
            "500,000 is the base of one file. A file without a base means 10,000.",
            lambda config: base_of({"rope_theta": 5e5, **config}),
        ),
    ),
    explanation=r"""
The fault is silent, because 10,000 is a sensible base of another model.
Near offsets hardly show it: pairs $p$ with a small exponent $2p/d$ have nearly the same frequency with both bases, and slow pairs turn little in a short text with either.
So compare frequencies with the file, not outputs with your expectation: every frequency but the first depends on the base.
""",
    repair=Repair(_broken_base_of, symptom_of_lost_base),
)


# repair-6: sections of M-RoPE


def sectioned_angles(positions, sections, d):
    """Angles [tokens, d/2] of M-RoPE with sections.

    ``positions`` [3, tokens] are time, height and width.
    The first ``sections[0]`` pairs turn by time, the next
    ``sections[1]`` by height, the others by width; the
    frequencies are those of RoPE in a head of ``d``
    features.
    """
    counts = torch.tensor(sections)
    axis = torch.repeat_interleave(torch.arange(3), counts)
    return positions.double().T[:, axis] * frequencies(d)


def _broken_sectioned_angles(positions, sections, d):
    """Angles [tokens, d/2] of M-RoPE with sections.

    ``positions`` [3, tokens] are time, height and width.
    The first ``sections[0]`` pairs turn by time, the next
    ``sections[1]`` by height, the others by width; the
    frequencies are those of RoPE in a head of ``d``
    features.
    """
    parts = []
    for axis, pairs in enumerate(sections):
        position = positions[axis].double()[:, None]
        parts.append(position * frequencies(2 * pairs))
    return torch.cat(parts, -1)


def symptom_of_sections(function):
    """Return how far a text's angles are from RoPE's.

    A text's three positions are equal.
    """
    at = torch.arange(5)
    angles = function(at.expand(3, 5), [2, 3, 3], 16)
    right = at.double()[:, None] * frequencies(16)
    return (angles - right).abs().max().item()


def _interleaved_sections(positions, sections, d):
    axis = torch.arange(d // 2) % 3
    return positions.double().T[:, axis] * frequencies(d)


def _reversed_sections(positions, sections, d):
    return sectioned_angles(positions.flip(0), sections, d)


def _by_section(frequencies_of):
    """Make an answer that gives each section the frequencies ``frequencies_of``.

    ``frequencies_of(omega, sections, axis)`` chooses from the head's frequencies.
    """

    def answer(positions, sections, d):
        parts = [
            positions[axis].double()[:, None]
            * frequencies_of(frequencies(d), sections, axis)[:pairs]
            for axis, pairs in enumerate(sections)
        ]
        return torch.cat(parts, -1)

    return answer


def _ends_with_section(positions, sections, d):
    parts = [
        positions[axis].double()[:, None]
        * frequencies(2 * sum(sections[: axis + 1]))[-pairs:]
        for axis, pairs in enumerate(sections)
    ]
    return torch.cat(parts, -1)


def _of_axes(change):
    """Make an answer with ``change(axes)`` in place of the pairs' axes."""

    def answer(positions, sections, d):
        axes = torch.repeat_interleave(torch.arange(3), torch.tensor(sections))
        return positions.double().T[:, change(axes)] * frequencies(d)

    return answer


def _of_frequencies(change):
    """Make an answer with ``change(d)`` in place of the head's frequencies."""

    def answer(positions, sections, d):
        counts = torch.tensor(sections)
        axis = torch.repeat_interleave(torch.arange(3), counts)
        return positions.double().T[:, axis] * change(d)

    return answer


def _mean_position(positions, sections, d):
    return positions.double().mean(0)[:, None] * frequencies(d)


SECTIONS = Exercise(
    name="repair-6",
    title="Sections that restart",
    kind="repair",
    minutes=8,
    lines=2,
    statement=r"""
A port of Qwen2-VL answers questions about pictures badly, and plain text as badly.
In a plain text time, height and width of a token are equal, so M-RoPE must be RoPE; `symptom_of_sections` measures how far it is from it.
Repair `sectioned_angles`.
Which axis gets the slowest pairs?
""",
    hint=r"""
There is one list of frequencies for the whole head. Which axis does each pair read?
""",
    cases=(
        (torch.tensor([[1], [2], [3]]), [1, 1, 2], 8),
        (torch.arange(15).reshape(3, 5), [2, 3, 3], 16),
        (torch.tensor([[4, 4], [0, 1], [7, 2]]), [4, 2, 2], 16),
    ),
    solution=sectioned_angles,
    misconceptions=(
        Misconception(
            "Frequencies that restart in each section",
            "The code is as it was: each section has a list of its own, from 1 on. "
            "The head has one list, which the sections share out.",
            _broken_sectioned_angles,
        ),
        Misconception(
            "Axes in turn, pair by pair",
            "Interleaved sections are those of a later model. Here the pairs of an "
            "axis stand in a row.",
            _interleaved_sections,
        ),
        Misconception(
            "Width first",
            "The first section turns by time.",
            _reversed_sections,
        ),
        Misconception(
            "Frequencies of the head's width that still restart",
            "Each section begins with the frequency 1 again. A section continues the "
            "head's list where the one before it ends.",
            _by_section(lambda omega, sections, axis: omega),
        ),
        Misconception(
            "Head taken to end with the section",
            "The frequencies are those of a head of `d` features, whatever section a "
            "pair is in.",
            _ends_with_section,
        ),
        Misconception(
            "Third section begins too early",
            "A section begins after all sections before it, not only after the last.",
            _by_section(
                lambda omega, sections, axis: omega[sections[axis - 1] if axis else 0 :]
            ),
        ),
        Misconception(
            "Time for all pairs",
            "The second section turns by height, the third by width.",
            _of_axes(lambda axes: 0 * axes),
        ),
        Misconception(
            "Sections in reverse order",
            "The first `sections[0]` pairs turn by time: the list begins with them.",
            _of_axes(lambda axes: axes.flip(0)),
        ),
        Misconception(
            "Height and width exchanged",
            "The rows of `positions` are time, height and width, in this order.",
            _of_axes(lambda axes: torch.tensor([0, 2, 1])[axes]),
        ),
        Misconception(
            "Width of the head doubled",
            "`d` counts features, not pairs: `frequencies(d)` has d/2 numbers.",
            _of_frequencies(lambda d: frequencies(2 * d)[: d // 2]),
        ),
        Misconception(
            "Slowest first",
            "The first pair is the fastest, as in RoPE.",
            _of_frequencies(lambda d: frequencies(d).flip(0)),
        ),
        Misconception(
            "Positions averaged",
            "Each pair turns by one of the three positions.",
            _mean_position,
        ),
    ),
    explanation=r"""
The sections share out one list of frequencies, so a plain text, whose three positions are equal, gets exactly RoPE's angles.
With a list for each section it does not, and the weights were trained with the one list.
The last section, the width's, has the slowest pairs; time has the fastest, which is why later models deal the pairs out in turn.
""",
    repair=Repair(_broken_sectioned_angles, symptom_of_sections),
)


# repair-7: a head that is rotated in part


def partly_rotated(x, positions, rotated):
    """Rotate the first ``rotated`` features of ``x``.

    ``x`` is [tokens, d], and its other features stay. The
    rotated part is in the half layout, with the
    frequencies of a head of ``rotated`` features and base
    10,000.
    """
    omega = frequencies(rotated)
    angles = positions.double()[:, None] * omega
    first = rotate(x[:, :rotated], angles)
    return torch.cat((first, x[:, rotated:]), -1)


def _broken_partly_rotated(x, positions, rotated):
    """Rotate the first ``rotated`` features of ``x``.

    ``x`` is [tokens, d], and its other features stay. The
    rotated part is in the half layout, with the
    frequencies of a head of ``rotated`` features and base
    10,000.
    """
    omega = frequencies(x.shape[1])[: rotated // 2]
    angles = positions.double()[:, None] * omega
    first = rotate(x[:, :rotated], angles)
    return torch.cat((first, x[:, rotated:]), -1)


def symptom_of_partial_width(function):
    """Return the slowest pair's error after 100 tokens."""
    x = torch.eye(8)[1:2]  # a feature of the slower pair
    found = function(x, torch.tensor([100]), 4)
    return (found[0, 1] - math.cos(1.0)).abs().item()


def _last_features(x, positions, rotated):
    angles = positions.double()[:, None] * frequencies(rotated)
    kept = x.shape[1] - rotated
    return torch.cat((x[:, :kept], rotate(x[:, kept:], angles)), -1)


def _pairs_of_the_head(x, positions, rotated):
    full = torch.zeros(x.shape[1] // 2, dtype=torch.float64)
    full[: rotated // 2] = frequencies(rotated)
    return rotate(x, positions.double()[:, None] * full)


def _partly_with(omega):
    """Make an answer with the frequencies ``omega(d, rotated)``."""

    def answer(x, positions, rotated):
        angles = positions.double()[:, None] * omega(x.shape[1], rotated)
        first = rotate(x[:, :rotated], angles)
        return torch.cat((first, x[:, rotated:]), -1)

    return answer


def _symptom_width(d, rotated):
    return frequencies(4) if rotated == 4 else frequencies(d)[: rotated // 2]


def _neighbors_partly(x, positions, rotated):
    order = torch.arange(rotated).unflatten(0, (-1, 2)).T.flatten()
    out = x.clone()
    out[:, order] = partly_rotated(x[:, order], positions, rotated)
    return out


def _rest_lost(x, positions, rotated):
    kept = torch.arange(x.shape[1]) < rotated
    return partly_rotated(x, positions, rotated) * kept


PARTIAL = Exercise(
    name="repair-7",
    title="A quarter of a head",
    kind="repair",
    minutes=6,
    lines=2,
    statement=r"""
A model rotates the first quarter of each head, as GPT-NeoX does.
A port gives the right logits for the first token, and wrong ones for those after it.
Repair `partly_rotated`; `symptom_of_partial_width` must give 0 up to rounding.
Are the broken code's slow pairs too slow or too fast?
""",
    hint=r"""
Which width stands in the exponent of the frequencies?
""",
    cases=(
        (torch.eye(4)[1:2], torch.tensor([10]), 4),
        (_randn(3, 8), torch.tensor([0, 5, 900_000]), 4),
        (_randn(2, 6), torch.tensor([3, 50]), 4),
        (_randn(2, 16), torch.tensor([7, 40]), 8),
    ),
    solution=partly_rotated,
    misconceptions=(
        Misconception(
            "The exponent of the whole head",
            "The code is as it was: the frequencies are those of a head as wide as "
            "the rotated part.",
            _broken_partly_rotated,
        ),
        Misconception(
            "The last features rotated",
            "It is the first features that are rotated.",
            _last_features,
        ),
        Misconception(
            "Pairs across the whole head",
            "In the half layout feature p pairs with feature rotated/2 + p, within "
            "the rotated part.",
            _pairs_of_the_head,
        ),
        Misconception(
            "Whole head rotated",
            "Only the first `rotated` features are rotated; the others stay.",
            lambda x, positions, rotated: partly_rotated(x, positions, x.shape[1]),
        ),
        Misconception(
            "Width doubled",
            "`rotated` counts features, not pairs: `frequencies(rotated)` has "
            "rotated/2 numbers.",
            _partly_with(lambda d, rotated: frequencies(2 * rotated)[: rotated // 2]),
        ),
        Misconception(
            "Repaired for the symptom only",
            "`symptom_of_partial_width` rotates 4 features. Use the argument "
            "`rotated`.",
            _partly_with(_symptom_width),
        ),
        Misconception(
            "Interleaved pairs",
            "In the half layout feature p pairs with feature rotated/2 + p, not with "
            "its neighbor.",
            _neighbors_partly,
        ),
        Misconception(
            "Other features lost",
            "The features after the first `rotated` stay as they are.",
            _rest_lost,
        ),
    ),
    tolerance=1e-5,
    explanation=r"""
With a part of $r$ features the frequencies are $b^{-2p/r}$ and not $b^{-2p/d}$: they reach down to nearly $1/b$.
The broken code takes the first $r/2$ frequencies of the whole head, so its slow pairs are too fast, and the error of the angle grows with the offset; the first pair, with frequency 1, is right.
Both conventions exist in published models, so a configuration's partial factor does not tell which: compare the frequencies.
""",
    repair=Repair(_broken_partly_rotated, symptom_of_partial_width),
)


# repair-8: layouts


def to_half_layout(weight, heads):
    """Reorder a projection from interleaved to half.

    The rows of ``weight``, [heads · d, d_model], are
    reordered. In each head features 2p and 2p + 1 were a
    pair; afterwards features p and d/2 + p are.
    """
    d = len(weight) // heads
    even, odd = torch.arange(0, d, 2), torch.arange(1, d, 2)
    by_head = weight.unflatten(0, (heads, d))
    return by_head[:, torch.cat((even, odd))].flatten(0, 1)


def _broken_to_half_layout(weight, heads):
    """Reorder a projection from interleaved to half.

    The rows of ``weight``, [heads · d, d_model], are
    reordered. In each head features 2p and 2p + 1 were a
    pair; afterwards features p and d/2 + p are.
    """
    rows = len(weight)
    even = torch.arange(0, rows, 2)
    odd = torch.arange(1, rows, 2)
    return weight[torch.cat((even, odd))]


def symptom_of_layout(function):
    """Return how many rows of head 0 come from head 1."""
    weight = torch.arange(8.0)[:, None]
    return (function(weight, 2)[:4] >= 4).sum().item()


def _back_to_interleaved(weight, heads):
    d = len(weight) // heads
    order = torch.arange(d).reshape(2, -1).T.flatten()
    return weight.unflatten(0, (heads, d))[:, order].flatten(0, 1)


def _halves_exchanged(weight, heads):
    d = len(weight) // heads
    half = to_half_layout(weight, heads).unflatten(0, (heads, d))
    return half.roll(d // 2, 1).flatten(0, 1)


def _first_head(weight, heads):
    rows = len(weight) // heads
    return torch.cat((to_half_layout(weight[:rows], 1), weight[rows:]))


def _heads_inside(weight, heads):
    pairs = weight.unflatten(0, (-1, 2, heads))
    return pairs.transpose(0, 1).flatten(0, 2)


LAYOUT = Exercise(
    name="repair-8",
    title="Weights for another layout",
    kind="repair",
    minutes=8,
    lines=2,
    statement=r"""
A checkpoint is converted for a kernel with the half layout.
With one head the converted model gives the same logits, with two it does not.
Repair `to_half_layout`; `symptom_of_layout` must give 0.
Which of the four projections q, k, v and o must be reordered?
""",
    hint=r"""
A head's rows stay together: split them off first.
""",
    cases=(
        (torch.arange(4.0)[:, None], 1),
        (torch.arange(8.0)[:, None], 2),
        (_randn(24, 5), 3),
    ),
    solution=to_half_layout,
    misconceptions=(
        Misconception(
            "Rows of all heads reordered together",
            "The code is as it was: it sorts even and odd rows of the whole matrix, "
            "across heads.",
            _broken_to_half_layout,
        ),
        Misconception(
            "The other direction",
            "This goes from the half layout to the interleaved one. For heads of four "
            "features both are the same.",
            _back_to_interleaved,
        ),
        Misconception(
            "Odd features first",
            "Feature 2p goes to p, feature 2p + 1 to d/2 + p.",
            _halves_exchanged,
        ),
        Misconception(
            "First head only",
            "Every head is reordered, each within itself.",
            _first_head,
        ),
        Misconception(
            "Heads taken for the inner axis",
            "The rows of a head stand together: [heads · d], not [d · heads].",
            _heads_inside,
        ),
    ),
    tolerance=0.0,
    explanation=r"""
The reordering is one of features within a head, and with one head there is nothing to mix.
Only q and k are reordered, both alike, so that their inner products stay; v and o never meet a rotation, and stay as they are.
Biases of q and k and their norms' weights, if the model has any, are reordered with them.
""",
    repair=Repair(_broken_to_half_layout, symptom_of_layout),
)


# repair-9: axes of a picture


def grid_positions(width, height):
    """Positions (x, y) of a picture's patches.

    They are [width · height, 2], row by row. x is the
    column, from the left, y the row, from the top.
    """
    columns = torch.arange(width)
    rows = torch.arange(height)
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    return torch.stack((x, y), -1).flatten(0, 1)


def _broken_grid_positions(width, height):
    """Positions (x, y) of a picture's patches.

    They are [width · height, 2], row by row. x is the
    column, from the left, y the row, from the top.
    """
    columns = torch.arange(width)
    rows = torch.arange(height)
    x, y = torch.meshgrid(columns, rows, indexing="ij")
    return torch.stack((x, y), -1).flatten(0, 1)


def symptom_of_axes(function):
    """Return the error of the step to the second patch.

    Right is a step of one column.
    """
    first, second = function(3, 2)[:2]
    step = second - first
    return (step - torch.tensor([1, 0])).abs().sum().item()


def _yx(width, height):
    return grid_positions(width, height).flip(-1)


AXES = Exercise(
    name="repair-9",
    title="Patches of a picture that is not square",
    kind="repair",
    minutes=5,
    lines=2,
    statement=r"""
A vision model was tried on square pictures, with a small loss.
On wide ones it fails.
Repair `grid_positions`; `symptom_of_axes` must give 0.
Why was the loss on square pictures small, though it was wrong there, too?
""",
    hint=r"""
Patches come row by row: which of the two coordinates changes first?
""",
    cases=((2, 1), (3, 2), (2, 2), (1, 4)),
    solution=grid_positions,
    misconceptions=(
        Misconception(
            "Patches numbered column by column",
            "The code is as it was: its second patch stands below the first.",
            _broken_grid_positions,
        ),
        Misconception(
            "Rows and columns exchanged",
            "The first coordinate is x, the column.",
            _yx,
        ),
        Misconception(
            "Width and height exchanged",
            "A row has `width` patches, and x counts them. Your numbers are those of "
            "a picture with width and height exchanged: either the sizes have changed "
            "places, or the two coordinates, while the order of the patches is as it "
            "was.",
            lambda width, height: grid_positions(height, width),
        ),
        Misconception(
            "Rows from the bottom",
            "y counts from the top.",
            lambda width, height: torch.stack(
                (
                    grid_positions(width, height)[:, 0],
                    height - 1 - grid_positions(width, height)[:, 1],
                ),
                -1,
            ),
        ),
    ),
    explanation=r"""
Patches come row by row, so x changes first.
On a square the broken positions are the right ones mirrored at the diagonal: every picture is learned as its mirror image, which is a consistent world.
On other pictures neighbors are torn apart; and weights that were trained with right positions see every square picture mirrored.
""",
    repair=Repair(_broken_grid_positions, symptom_of_axes),
)


# repair-10: a decoding step


def step_bias(cached, new, slope):
    """ALiBi's bias of one head for appended tokens.

    It is [new, cached + new]. The ``new`` tokens follow
    ``cached`` earlier ones. Keys later than the query get
    −infinity.
    """
    i = cached + torch.arange(new)[:, None]
    j = torch.arange(cached + new)
    return torch.where(j <= i, -slope * (i - j), -math.inf)


def _broken_step_bias(cached, new, slope):
    """ALiBi's bias of one head for appended tokens.

    It is [new, cached + new]. The ``new`` tokens follow
    ``cached`` earlier ones. Keys later than the query get
    −infinity.
    """
    i = torch.arange(new)[:, None]
    j = torch.arange(cached + new)
    return torch.where(j <= i, -slope * (i - j), -math.inf)


def symptom_of_step(function):
    """Return the error of the bias of one more token.

    It is compared with the last row of the whole text's.
    """
    whole, step = function(0, 5, 0.5), function(4, 1, 0.5)
    return (whole[-1:] - step).abs().max().item()


def _one_too_far(cached, new, slope):
    i = cached + 1 + torch.arange(new)[:, None]
    j = torch.arange(cached + new)
    return torch.where(j <= i, -slope * (i - j), -math.inf)


def _step_bias(bias, mask=lambda i, j, cached: j <= i, later=-math.inf):
    """Make a wrong answer to the exercise ``step_bias``.

    ``bias(i, j, cached)`` are the distances that are multiplied by minus the slope,
    ``mask(i, j, cached)`` says which keys are visible, and others get ``later``. Queries
    have the right positions i, keys j.
    """

    def answer(cached, new, slope):
        i = cached + torch.arange(new)[:, None]
        j = torch.arange(cached + new)
        return torch.where(mask(i, j, cached), -slope * bias(i, j, cached), later)

    return answer


def _distance(i, j, cached):
    return i - j


def _all_as_the_last(cached, new, slope):
    j = torch.arange(cached + new)
    return (-slope * (cached + new - 1 - j)).expand(new, -1)


STEP = Exercise(
    name="repair-10",
    title="One token more",
    kind="repair",
    minutes=6,
    lines=3,
    statement=r"""
Reading a whole text gives the right loss; generating token by token gives nonsense.
Repair `step_bias`; `symptom_of_step` must give 0.
A learner's repair leaves out `cached` and aligns the mask at the lower right corner. Is this the same?
""",
    hint=r"""
At which position does the first new token stand?
""",
    cases=((0, 2, 1.0), (3, 1, 0.5), (2, 3, 0.25)),
    solution=step_bias,
    misconceptions=(
        Misconception(
            "Queries counted from 0",
            "The code is as it was: the first new token stands after the cached ones.",
            _broken_step_bias,
        ),
        Misconception(
            "One position too far",
            "Positions count from 0, so after n cached tokens the next is at n.",
            _one_too_far,
        ),
        Misconception(
            "The last query's row for all",
            "With several new tokens each has its own position and sees no later one.",
            _all_as_the_last,
        ),
        Misconception(
            "The bias still counts queries from 0",
            "The mask is right now. The bias, too, needs the position at which the "
            "query stands.",
            _step_bias(lambda i, j, cached: i - cached - j),
        ),
        Misconception(
            "The mask still counts queries from 0",
            "The bias is right now. The mask, too, needs the position at which the "
            "query stands.",
            _step_bias(_distance, lambda i, j, cached: j <= i - cached),
        ),
        Misconception(
            "One position too early",
            "After n cached tokens the next is at n, and it sees itself.",
            _step_bias(lambda i, j, cached: i - 1 - j, lambda i, j, cached: j <= i - 1),
        ),
        Misconception(
            "A token without itself",
            "A token attends to itself: its own bias is 0.",
            _step_bias(_distance, lambda i, j, cached: j < i),
        ),
        Misconception(
            "Keys moved, not the queries",
            "The keys stand where they stood, from 0 on. The new queries follow the "
            "cached tokens.",
            _step_bias(
                lambda i, j, cached: i - 2 * cached - j,
                lambda i, j, cached: j <= i - 2 * cached,
            ),
        ),
        Misconception(
            "Mask left out",
            "Several new tokens come at once, and keys later than a query must get "
            "−infinity.",
            _step_bias(_distance, lambda i, j, cached: j >= 0),
        ),
        Misconception(
            "Distance in both directions, without a mask",
            "Keys later than the query get −infinity, not the bias of a distance.",
            _step_bias(lambda i, j, cached: (i - j).abs(), lambda i, j, cached: j >= 0),
        ),
        Misconception(
            "0 for later keys",
            "A bias of 0 is the largest there is. Keys later than the query get "
            "−infinity, which a softmax makes 0.",
            _step_bias(_distance, later=0.0),
        ),
        Misconception(
            "A large number in place of −infinity",
            "−10⁹ hides a key from most queries, but −infinity is asked for.",
            _step_bias(_distance, later=-1e9),
        ),
    ),
    explanation=r"""
The new queries stand at positions `cached`, `cached` + 1, …, and keys from 0 on.
Aligning at the lower right corner is the same as long as the queries are the last tokens of the keys: $i = \text{keys} - \text{queries} + \text{row}$.
It is not once the cache is padded at its end, or has lost keys between its first and its last ones; positions that are passed along, those of the keys too, survive both.
""",
    repair=Repair(_broken_step_bias, symptom_of_step),
)


# repair-11: slopes of a part of the heads


def slopes_of_rank(heads, rank, ranks):
    """ALiBi's slopes of one rank's heads.

    They are [heads / ranks]. ``heads``, a power of two, are
    shared out over ``ranks`` devices in order; head h of
    all, from 1, has the slope 2^(−8h/heads).
    """
    own = heads // ranks
    h = 1 + torch.arange(own, dtype=torch.float64)
    return 2.0 ** (-8 * (h + rank * own) / heads)


def _broken_slopes_of_rank(heads, rank, ranks):
    """ALiBi's slopes of one rank's heads.

    They are [heads / ranks]. ``heads``, a power of two, are
    shared out over ``ranks`` devices in order; head h of
    all, from 1, has the slope 2^(−8h/heads).
    """
    own = heads // ranks
    h = 1 + torch.arange(own, dtype=torch.float64)
    return 2.0 ** (-8 * h / own)


def symptom_of_slopes(function):
    """Return the error of the slopes of four ranks.

    They are compared with those of one device.
    """
    alone = function(8, 0, 1)
    parts = [function(8, rank, 4) for rank in range(4)]
    return (alone - torch.cat(parts)).abs().max().item()


def _first_of_all(heads, rank, ranks):
    return slopes_of_rank(heads, 0, ranks)


def _every_other(heads, rank, ranks):
    h = 1 + rank + ranks * torch.arange(heads // ranks, dtype=torch.float64)
    return 2.0 ** (-8 * h / heads)


def _slopes_with(number, divisor=lambda heads, own: heads):
    """Make a wrong answer to the exercise ``slopes_of_rank``.

    ``number(h, rank, own, ranks)`` is a head's number among all heads, h its number
    among those of its rank, from 1; ``divisor(heads, own)`` divides the exponent.
    """

    def answer(heads, rank, ranks):
        own = heads // ranks
        h = 1 + torch.arange(own, dtype=torch.float64)
        return 2.0 ** (-8 * number(h, rank, own, ranks) / divisor(heads, own))

    return answer


def _exponent_rounded(heads, rank, ranks):
    exponents = slopes_of_rank(heads, rank, ranks).log2()
    return 2.0 ** exponents.round(decimals=9).floor()


SLOPES = Exercise(
    name="repair-11",
    title="Heads on four devices",
    kind="repair",
    minutes=6,
    lines=2,
    statement=r"""
A model with ALiBi gives right answers on one device, and others on four, with the heads shared out over them.
Repair `slopes_of_rank`; `symptom_of_slopes` must give 0.
What would a model learn that was trained with the fault?
""",
    hint=r"""
Which number does a rank's first head have among all heads?
""",
    cases=((2, 1, 2), (8, 0, 1), (8, 1, 4), (16, 3, 4)),
    solution=slopes_of_rank,
    misconceptions=(
        Misconception(
            "Slopes of a model that has only these heads",
            "The code is as it was: every rank computes the slopes of `own` heads.",
            _broken_slopes_of_rank,
        ),
        Misconception(
            "Every rank has the first heads",
            "The formula has the right number of heads now, but a rank's heads begin "
            "at another one.",
            _first_of_all,
        ),
        Misconception(
            "Heads dealt out in turn",
            "They are shared out in order: the first rank has the first heads.",
            _every_other,
        ),
        Misconception(
            "The divisor is still that of the own heads",
            "The heads have the right numbers now. The exponent is divided by the "
            "number of all heads.",
            _slopes_with(
                lambda h, rank, own, ranks: h + rank * own, lambda n, own: own
            ),
        ),
        Misconception(
            "Offset of one head per rank",
            "Each rank before this one has `own` heads, not one.",
            _slopes_with(lambda h, rank, own, ranks: h + rank),
        ),
        Misconception(
            "Offset of as many heads as there are ranks",
            "Each rank before this one has `own` heads.",
            _slopes_with(lambda h, rank, own, ranks: h + rank * ranks),
        ),
        Misconception(
            "Heads from 0",
            "The first head of all has the number 1.",
            _slopes_with(lambda h, rank, own, ranks: h + rank * own - 1),
        ),
        Misconception(
            "Ranks in reverse order",
            "Rank 0 has the first heads.",
            lambda heads, rank, ranks: slopes_of_rank(heads, ranks - 1 - rank, ranks),
        ),
        Misconception(
            "Exponent rounded down",
            "An exponent need not be a whole number: divide by `/`.",
            _exponent_rounded,
        ),
    ),
    explanation=r"""
A head's slope depends on its number among all heads and on the number of all heads; a rank must be given both.
Trained with the fault, a model would have only `heads / ranks` different slopes, each on every rank; it would learn to use them, and break on one device.
So what counts is that training and use agree, and the number of devices should not be part of a model.
""",
    repair=Repair(_broken_slopes_of_rank, symptom_of_slopes),
)


# repair-12: T5's buckets


def decoder_buckets(queries, keys, distance):
    """Bucket [queries, keys] of T5's decoder.

    The queries are the last tokens of the keys. Each
    distance, query minus key, has its own bucket; those
    from ``distance`` on share one, and keys later than the
    query have bucket 0.
    """
    i = keys - queries + torch.arange(queries)[:, None]
    return (i - torch.arange(keys)).clamp(0, distance)


def _broken_decoder_buckets(queries, keys, distance):
    """Bucket [queries, keys] of T5's decoder.

    The queries are the last tokens of the keys. Each
    distance, query minus key, has its own bucket; those
    from ``distance`` on share one, and keys later than the
    query have bucket 0.
    """
    i = keys - queries + torch.arange(queries)[:, None]
    return (torch.arange(keys) - i).clamp(0, distance)


def symptom_of_buckets(function):
    """Return how many distances have the bucket of 0.

    The distances are 1 to 5.
    """
    return (function(1, 6, 8)[0, :5] == 0).sum().item()


def _from_zero(queries, keys, distance):
    i = torch.arange(queries)[:, None]
    return (i - torch.arange(keys)).clamp(0, distance)


def _absolute(queries, keys, distance):
    i = keys - queries + torch.arange(queries)[:, None]
    return (i - torch.arange(keys)).abs().clamp(max=distance)


def _buckets_with(bucket):
    """Make an answer with ``bucket(offset, distance)``, offset being query minus key."""

    def answer(queries, keys, distance):
        i = keys - queries + torch.arange(queries)[:, None]
        return bucket(i - torch.arange(keys), distance)

    return answer


BUCKETS = Exercise(
    name="repair-12",
    title="Buckets of a decoder",
    kind="repair",
    minutes=5,
    lines=2,
    statement=r"""
A decoder with T5's bias behaves as if it had no bias at all.
Repair `decoder_buckets`; `symptom_of_buckets` must give 0.
Would the fault show in an encoder, too?
""",
    hint=r"""
What does T5's code call `relative_position`, and which sign does it have?
""",
    cases=((1, 2, 4), (1, 7, 4), (3, 5, 2)),
    solution=decoder_buckets,
    misconceptions=(
        Misconception(
            "Key minus query",
            "The code is as it was: earlier keys have negative numbers, which are all "
            "cut to 0.",
            _broken_decoder_buckets,
        ),
        Misconception(
            "Queries counted from 0",
            "The queries are the last tokens of the keys.",
            _from_zero,
        ),
        Misconception(
            "Later keys as far as earlier ones",
            "Keys later than the query have bucket 0. (The mask hides them, but their "
            "gradient would change the buckets of earlier keys if it did not.)",
            _absolute,
        ),
        Misconception(
            "No upper end",
            "Distances from `distance` on share one bucket, the number `distance`.",
            _buckets_with(lambda offset, distance: offset.clamp(min=0)),
        ),
        Misconception(
            "Later keys negative",
            "Keys later than the query have bucket 0.",
            _buckets_with(lambda offset, distance: offset.clamp(max=distance)),
        ),
        Misconception(
            "Sign after the clamp",
            "Key minus query is negative for earlier keys, and the clamp has made it "
            "0. Change the sign first.",
            _buckets_with(lambda offset, distance: -(-offset).clamp(0, distance)),
        ),
        Misconception(
            "Bucket 0 for later keys only",
            "Distance 0 has bucket 0, and shares it with later keys.",
            _buckets_with(lambda offset, distance: 1 + offset.clamp(-1, distance)),
        ),
        Misconception(
            "Later keys as far as the farthest",
            "Keys later than the query have bucket 0, not the last one.",
            _buckets_with(
                lambda offset, distance: offset.clamp(max=distance).where(
                    offset >= 0, distance
                )
            ),
        ),
        Misconception(
            "Keys in reverse order",
            "Reversing the row of keys does not repair the sign: key 0 is the earliest.",
            lambda *sizes: _broken_decoder_buckets(*sizes).flip(1),
        ),
    ),
    explanation=r"""
T5's code calls key minus query the relative position and negates it; without this sign every earlier key falls into bucket 0, and one number for all keys leaves a softmax unchanged.
In an encoder the fault would exchange the buckets of earlier and later keys.
A model trained with it would be none the worse; one that is loaded would read every sentence backwards.
""",
    repair=Repair(_broken_decoder_buckets, symptom_of_buckets),
)


SHEET = Sheet(
    title="Twelve layers to repair",
    conventions=r"""
Each function below runs, and is wrong.
The cell after it measures a symptom, a number that should be 0 up to rounding; the check also tries cases that the symptom does not show.
Change as little as you can: no repair takes more than three lines.
`posedu.numpy` and `posedu.torch` may be used to find the fault, and the book's recipes to understand it.
""",
    example=r"""
from posedu.tools.diagnose import diagnose
from posedu.torch import LanguageModel, RoPE

rope = RoPE(8, base=500_000.0, layout="half")
model = LanguageModel(97, 16, 2, 1, encoding=rope)
config = {"head_dim": 8, "rope_theta": 10_000.0}
found = diagnose(model, config=config, behavior=False)
print(found.ok, [fault.name for fault in found.faults])
""",
    figure="",
    exercises=(
        *(PADDING, PACKING, STALE, PRECISION, BASE, SECTIONS),
        *(PARTIAL, LAYOUT, AXES, STEP, SLOPES, BUCKETS),
    ),
)
