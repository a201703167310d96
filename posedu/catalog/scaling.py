"""Catalog record of log-n temperature, which scales logits by the query's position."""

from posedu.catalog.records import EncodingRecord, variant

ENCODINGS = (
    EncodingRecord(
        name="log-n",
        title="Log-n temperature",
        paper="nakanishi2025",
        arxiv="2501.19399",
        kind="hooks",
        hooks=("rotate",),
        file="scaling.log_n",
        module="LogN",
        chapter="temperature",
        lab="temperature",
        variants=(
            variant(growth="steps", index_from=1, alpha=0.5, length=3.0),
            variant(growth="floor", index_from=1, alpha=0.5, length=3.0),
            variant(growth="power", index_from=0, alpha=0.5, length=3.0),
            variant("heads", growth="learned", index_from=1, parameters="2*h", heads=4),
        ),
        parameters="0",
        cost="O(L d) a head and layer",
        relative="no: a query's scores grow with its position",
        bounded="no: τ grows without end, like ln i or a small power of i",
        sizes=(),
        unit=1,
        adopters=(
            "Llama 4",
            "Ministral 3",
            "Mistral 4",
            "Mistral-Large-4",
            "Beam",
            "Inkling-2",
        ),
    ),
)
