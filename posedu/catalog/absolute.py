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
    Encoding(
        name="floater",
        title="FLOATER",
        paper="liu2020",
        arxiv="2003.09229",
        kind="doors",
        doors=("rotate", "values"),
        file="absolute.floater",
        module="FLOATER",
        variants=(
            variant(tableau="3/8", delta=0.01, steps=2),
            variant(tableau="classical", delta=0.02, steps=1),
        ),
        parameters="2 * (d * h)**2 + 7 * d * h",
        cost="O(L d_model²) for each projection, in O(L) steps one after another",
        relative="no: each position has vectors of its own",
        bounded="no: nothing keeps the flow near 0",
        special_cases=(
            SpecialCase(
                "sinusoidal",
                "h turns each pair of features at its frequency and p(0) is PE(0); "
                "only the vectors agree, which go to q, k and v of each layer",
                "eq-floater-sinusoid",
                "part",
            ),
        ),
        sizes=("heads", "d"),
        unit="1",
        reach=2,
    ),
)
