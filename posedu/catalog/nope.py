"""Catalog record of NoPE, attention without a positional encoding."""

from posedu.catalog.records import ATTENTION, EncodingRecord, SpecialCase, variant

ENCODINGS = (
    EncodingRecord(
        name="nope",
        title="NoPE",
        paper="haviv2022",
        arxiv="2203.16634",
        kind="hooks",
        hooks=("rotate",),
        file="nope",
        module="NoPE",
        variants=(
            variant(temperature=1.0),
            variant(temperature=1.2),
            variant("heads", module={"temperature": 1.6}, parameters="h"),
        ),
        chapter="nope",
        lab="nope",
        parameters="0",
        cost="none; with a temperature, one product for each feature of a query",
        relative="needs no position: causal layers tell early from late tokens by the "
        "number of visible keys",
        bounded="yes: logits do not depend on positions",
        adopters=(
            "Command A (global-attention layers)",
            "Llama 4 (every fourth layer)",
            "SmolLM3 (every fourth layer)",
        ),
        special_cases=(
            SpecialCase(ATTENTION, "the temperature is 1", "eq-nope-plain"),
            SpecialCase(
                "alibi",
                "a layer below has written positions into the vectors: then its "
                "weights are those of ALiBi",
                "eq-nope-alibi",
                kind="part",
            ),
        ),
        sizes=(),
        unit=1,
    ),
)
