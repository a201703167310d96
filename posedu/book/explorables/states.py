"""Interactive figure of assignments that run through a state, and their weights."""

import numpy as np
from jaxtyping import Float

from posedu.book.explorables.frame import Choice, Explorable, Slider, explorable
from posedu.book.figures import INKS
from posedu.numpy.path import path_scores

Array = np.ndarray

LETTERS = "ABC"
TOKENS = (
    ("A", 3), ("B", 5), ("A", 7), ("C", 2), ("B", 1), ("C", 6), ("A", 4), ("B", 8),
)  # fmt: skip
LAST = len(TOKENS) - 1
ASKED, READER = "A", LAST  # drawn where scripts do not run
D = 2 * len(LETTERS)  # a plane for each letter; keys are the first features
GATE, ANGLE = 0.8, np.pi / 4
NAMES = {
    "delta": "DeltaNet, β = 1: replaces the letter's value",
    "sum": "linear attention: nothing",
    "decay": "lightning, Mamba-2: one gate",
    "rows": "GLA: a gate for each letter's rows",
    "rotation": "RetNet, Mamba-3: a gate and a rotation",
    "half": "DeltaNet, β = ½: replaces a half",
    "gated": "Gated DeltaNet: a gate, then β = 1",
    "reflection": "DeltaNet, β = 2: reflects",
}
BETAS = {"delta": 1.0, "half": 0.5, "gated": 1.0, "reflection": 2.0}
ROWS = (0.95, 0.7, 0.4)  # gates of the planes of A, B and C
PLACE, LEVEL, UNIT = 46, 100, 36  # of the bars: step, zero line, height of weight 1


def states_explorable() -> Explorable:
    """Draw assignments to letters, and their weights in what a state answers.

    The reader chooses the transition, the token after which is asked, and the letter.
    The bars are the weights of the assignments; the answer is the sum of their values,
    each times its weight.
    """
    row = _weights("delta")[LETTERS.index(ASKED), READER]
    return explorable(
        "states",
        _picture(row),
        (
            Choice("transition", "transition", NAMES),
            Choice("letter", "asked for", {name: name for name in LETTERS}),
            Slider("reader", "asked after", 0, LAST, READER, shown=_said(READER)),
        ),
        summary=_summary(row),
        caption="Assignments in the order of the text, those after the question pale. "
        "Bars: the weight of each value in the answer; framed: the assignment that "
        "gives the present value of the letter.",
        numbers={
            "tokens": TOKENS,
            "letters": LETTERS,
            "weights": {name: np.round(_weights(name), 4).tolist() for name in NAMES},
            "place": PLACE,
            "level": LEVEL,
            "unit": UNIT,
        },
    )


def _said(t: int) -> str:
    return "{} = {}".format(*TOKENS[t])


def _key(letter: str) -> Float[Array, "{D}"]:
    return np.eye(D)[2 * LETTERS.index(letter)]


def _transitions(name: str) -> Float[Array, "tokens {D} {D}"]:
    """Return the transition of every token."""
    n = len(TOKENS)
    if name in BETAS:
        gate = GATE if name == "gated" else 1.0
        keys = np.stack([_key(letter) for letter, _ in TOKENS])
        along = np.einsum("ta,tb->tab", keys, keys)
        return gate * (np.eye(D) - BETAS[name] * along)
    c, s = np.cos(ANGLE), np.sin(ANGLE)
    return np.stack(
        [
            {
                "sum": np.eye(D),
                "decay": GATE * np.eye(D),
                "rows": np.diag(np.repeat(ROWS, 2)),
                "rotation": GATE
                * np.kron(np.eye(len(LETTERS)), np.array([[c, s], [-s, c]])),
            }[name]
        ]
        * n
    )


def _weights(name: str) -> Float[Array, "letters readers tokens"]:
    """Return the weight of every token for each letter asked for after each token."""
    transitions = _transitions(name)
    keys = np.stack([_key(letter) for letter, _ in TOKENS])
    queries = np.stack([np.tile(_key(letter), (len(TOKENS), 1)) for letter in LETTERS])
    scores = path_scores(
        queries,
        np.tile(keys, (len(LETTERS), 1, 1)),
        lambda t, moved: moved @ transitions[t].T,
    )
    return BETAS.get(name, 1.0) * scores


def _present(letter: str, reader: int) -> int | None:
    """Return the token of the letter's last assignment, or None before the first."""
    before = [t for t in range(reader + 1) if TOKENS[t][0] == letter]
    return before[-1] if before else None


def _summary(row: Float[Array, "tokens"]) -> str:
    """Return the sentence that describes the static picture."""
    answer = sum(weight * value for weight, (_, value) in zip(row, TOKENS, strict=True))
    present = _present(ASKED, READER)
    is_right = present is not None and abs(answer - TOKENS[present][1]) < 0.005
    value = None if present is None else TOKENS[present][1]
    verdict = "right" if is_right else f"the present value is {value}"
    return (
        f"Asked for {ASKED} after “{_said(READER)}”, the state answers "
        f"{answer:.2f}: {verdict}."
    )


def _picture(row: Float[Array, "tokens"]) -> str:
    present = _present(ASKED, READER)
    words = "".join(
        f'<text class="word" x="{38 + PLACE * t}" y="214"'
        f' opacity="{1 if t <= READER else 0.6}">{letter}={value}</text>'
        for t, (letter, value) in enumerate(TOKENS)
    )
    bars = "".join(
        f'<rect class="bar" x="{26 + PLACE * t}" width="24"'
        f' y="{LEVEL - UNIT * max(weight, 0):.1f}" height="{UNIT * abs(weight):.1f}"'
        f' fill="{INKS[0]}"/>'
        for t, weight in enumerate(row)
    )
    said = "".join(
        f'<text class="weight" x="{38 + PLACE * t}"'
        f' y="{LEVEL - UNIT * max(weight, 0) - 6:.1f}">{weight:.2f}</text>'
        for t, weight in enumerate(row)
    )
    frame = (
        f'<rect class="present" x="{18 + PLACE * (present or 0)}" y="196" width="40"'
        f' height="26" rx="5" fill="none" stroke="{INKS[1]}" stroke-width="2.5"'
        ' visibility="visible"/>'
    )
    return f"""
<svg class="plot" viewBox="0 0 400 230" role="img" aria-label="A bar for each
 assignment, with its weight at its end, and the assignments in a line below">
<path d="M12,{LEVEL}H392" stroke="currentColor" stroke-opacity="0.4"/>
{bars}{said}{words}{frame}
</svg>"""
