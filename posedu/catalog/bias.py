"""Records of the biases of distance."""

from posedu.catalog.records import Encoding, variant

ENCODINGS = (
    Encoding(
        name="t5",
        title="T5's relative bias",
        paper="raffel2020",
        arxiv="1910.10683",
        kind="doors",
        doors=("scale", "bias"),
        file="bias.t5",
        module="T5",
        variants=(
            variant(bidirectional=False, distance=16, module={"buckets": 8}),
            variant(bidirectional=True, distance=16, module={"buckets": 8}),
        ),
        parameters="h*buckets",
        cost="O(L²) a head and layer for the bias",
        relative="exactly",
        bounded="yes: one number for all distances from the last bucket's on",
        adopters=("T5", "mT5", "ByT5", "Flan-T5", "UL2", "LongT5"),
        sizes=("heads",),
        unit="1",
    ),
    Encoding(
        name="alibi",
        title="ALiBi",
        paper="press2022",
        arxiv="2108.12409",
        kind="doors",
        doors=("fold",),
        treated="def-decay-alibi",
        file="bias.alibi",
        module="ALiBi",
        variants=(
            variant(slopes="authors", sides="causal", heads=3),
            variant(slopes="geometric", sides="symmetric", heads=3),
            variant(slopes="authors", sides="one-sided", heads=6),
        ),
        parameters="0",
        cost="O(L) a head and layer, as one more feature of queries and keys",
        relative="exactly",
        bounded="no: the bias falls without end",
        adopters=("BLOOM", "MPT", "Falcon-RW", "Baichuan-13B", "JinaBERT"),
        sizes=("heads",),
        face_sizes=("heads",),
        unit="1",
    ),
)
