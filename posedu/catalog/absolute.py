"""Records of the absolute encodings."""

from posedu.catalog.records import Encoding, SpecialCase, variant

ENCODINGS = (
    Encoding(
        name="sinusoidal",
        title="Sinusoidal",
        paper="vaswani2017",
        arxiv="1706.03762",
        kind="features",
        doors=("embed",),
        file="absolute.sinusoidal",
        function="embed_sinusoidal",
        module="Sinusoidal",
        variants=(
            variant(layout="interleaved", spacing="paper"),
            variant(layout="half", spacing="tensor2tensor"),
        ),
        chapter="sinusoidal",
        lab="absolute",
        parameters="0",
        cost="O(L d) once, at the input",
        relative="its inner products are; a whole score only where it ignores content",
        bounded="yes: |PE|² = d/2",
        special_cases=(
            SpecialCase(
                "sandwich",
                "nothing is projected and the terms that mix content and position are "
                "left out, but for scale and index",
                "eq-sandwich-position",
                "part",
            ),
        ),
        sizes=("d_model",),
        adopters=("Transformer (2017)", "Marian", "Pegasus", "Whisper encoder"),
    ),
)
