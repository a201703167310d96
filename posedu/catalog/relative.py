"""Records of the relative vectors."""

from posedu.catalog.records import ATTENTION, Encoding, SpecialCase, variant

ENCODINGS = (
    Encoding(
        name="shaw",
        title="Shaw's relative vectors",
        paper="shaw2018",
        arxiv="1803.02155",
        kind="doors",
        doors=("bias", "mix"),
        file="relative.shaw",
        module="Shaw",
        variants=(
            variant(past=2, future=2),
            variant(
                "heads",
                past=3,
                future=1,
                module={"values": False},
                parameters="h*(past+1+future)*d",
            ),
            variant(
                past=0,
                future=0,
                module={"keys": False},
                parameters="d",
            ),
        ),
        chapter="vectors",
        lab="relative",
        parameters="2*(past+1+future)*d",
        cost="O(L (past + future) d + L²) a head and layer",
        relative="exactly",
        bounded="yes: one vector for all distances from the table's ends on",
        adopters=("wav2vec2-BERT", "SeamlessM4T v2"),
        special_cases=(
            SpecialCase(
                ATTENTION,
                "all rows of the key table are equal and the value table is 0",
                "eq-vectors-gauge",
            ),
            SpecialCase(
                "t5",
                "one feature of all queries is constant, of all keys 0, and the table "
                "uses no other",
                "eq-vectors-scalar",
            ),
        ),
        unit="1",
    ),
    Encoding(
        name="music-transformer",
        title="Music Transformer's relative attention",
        paper="huang2019",
        arxiv="1809.04281",
        kind="doors",
        doors=("bias",),
        file="relative.music",
        module="MusicTransformer",
        variants=(
            variant("heads", beyond="zero", module={"extent": 4}),
            variant(beyond="clip", module={"extent": 3}),
            variant(
                beyond="zero",
                module={"extent": 2, "values": True},
                parameters="2*extent*d",
            ),
        ),
        chapter="vectors",
        lab="relative",
        parameters="h*extent*d",
        cost="O(L extent d + L²) a head and layer",
        relative="exactly",
        bounded="yes: beyond the table nothing, or one vector for all distances",
        special_cases=(
            SpecialCase(
                "shaw",
                "the farthest vector serves all that is beyond",
                "eq-vectors-clip",
            ),
        ),
        unit="1",
    ),
    Encoding(
        name="inkling",
        title="Inkling's relative logits",
        paper="inkling2026",
        url="https://thinkingmachines.ai/news/introducing-inkling/",
        published=2026,
        kind="doors",
        doors=("scale", "bias"),
        file="relative.inkling",
        module="Inkling",
        variants=(
            variant(divisor="width", module={"extent": 4, "d_rel": 3}),
            variant(
                divisor="root",
                limit=1.5,
                floor=2.5,
                alpha=0.5,
                module={"extent": 3, "d_rel": 2, "r_bias": True},
                parameters="h*h*d*d_rel+2*h*d_rel+d_rel*extent",
            ),
        ),
        chapter="vectors",
        lab="relative",
        parameters="h*h*d*d_rel+d_rel*extent",
        cost="O(L d_rel (h d + extent) + L²) a head and layer",
        relative="exactly; a temperature depends on the query's position",
        bounded="yes: 0 from the extent on",
        adopters=("Inkling", "Inkling-2"),
        special_cases=(
            SpecialCase(
                "music-transformer",
                "what is projected is the query over √d, for a table that heads share",
                "eq-vectors-inkling",
            ),
        ),
        sizes=("heads", "d_model"),
        unit="1",
    ),
)
