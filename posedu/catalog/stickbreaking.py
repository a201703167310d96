"""Catalog records of stick-breaking and geometric attention."""

from posedu.catalog.records import EncodingRecord, SpecialCase, variant

ENCODINGS = (
    EncodingRecord(
        name="stickbreaking",
        title="Stick-breaking",
        paper="tan2024",
        arxiv="2410.17980",
        kind="hooks",
        hooks=("weigh", "mix"),
        file="stickbreaking.stickbreaking",
        function="stick_breaking",
        module="StickBreaking",
        variants=(
            variant(attend_current=False, remainder="drop"),
            variant(attend_current=True, remainder="own"),
            variant(attend_current=False, remainder="renormalize"),
            variant(
                "heads",
                "d",
                attend_current=True,
                remainder="sink",
                parameters="h*d",
            ),
        ),
        chapter="stickbreaking",
        lab="stickbreaking",
        parameters="0",
        cost="O(L² d) a head and layer, in the place of the softmax; in tiles O(L d) "
        "memory",
        relative="needs no position: the order of the keys is enough",
        crosses=("ordered",),
        bounded="yes: weights sum to at most 1",
        special_cases=(
            SpecialCase(
                "alibi",
                "its logits are equal and its weights renormalized: then they are the "
                "weights of ALiBi at equal contents, over the same keys",
                "eq-stick-alibi",
                kind="part",
            ),
        ),
        sizes=(),
        unit=1,
    ),
    EncodingRecord(
        name="geometric",
        title="Geometric attention",
        paper="csordas2021",
        arxiv="2110.07732",
        kind="hooks",
        hooks=("logits", "weigh"),
        file="stickbreaking.geometric",
        module="Geometric",
        variants=(
            variant(normalize=True, heads=1),  # α and γ are of all heads
            variant(normalize=False, module={"direction": False}, parameters="h*d+2"),
        ),
        chapter="geometric",
        lab="geometric",
        parameters="h*(2*(h*d+1)+d)+2",
        cost="O(L²) a head and layer, in the place of the softmax",
        relative="needs no position: the order of the keys is enough",
        crosses=("ordered",),
        bounded="yes: weights sum to at most 1",
        special_cases=(
            SpecialCase(
                "stickbreaking",
                "it is causal, without direction and biases",
                "eq-geometric-causal",
            ),
            SpecialCase(
                "alibi",
                "all shares are equal: then each side falls as with ALiBi's bias",
                "eq-geometric-equal",
                kind="part",
            ),
        ),
        sizes=("d_model", "heads", "d"),
        unit=1,
    ),
)
