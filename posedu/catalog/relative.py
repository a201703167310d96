"""Records of the encodings whose offsets have vectors."""

from posedu.catalog.records import Encoding, variant

ENCODINGS = (
    Encoding(
        name="transformer-xl",
        title="Transformer-XL",
        paper="dai2019",
        arxiv="1901.02860",
        kind="doors",
        doors=("bias",),
        file="relative.transformer_xl",
        module="TransformerXL",
        variants=(
            variant(layout="half"),
            variant(layout="interleaved", clamp=6.0),
        ),
        parameters="2*h*d+(h*d)**2",
        cost="O(L² d) a head and layer for the products, O(L h² d²) for the distances",
        relative="exactly",
        bounded="yes: sinusoids of the distance",
        adopters=("XLNet",),
        sizes=("d", "heads", "d_model"),
        unit="1",
    ),
    Encoding(
        name="tupe",
        title="TUPE",
        paper="ke2021",
        arxiv="2006.15595",
        kind="doors",
        doors=("scale", "bias"),
        file="relative.tupe",
        module="TUPE",
        variants=(
            variant(
                first_token="numbers", module={"norm": False, "relative": False}
            ),
            variant(
                first_token="rows",
                distance=16,
                module={"norm": True, "relative": True, "buckets": 8},
                parameters="(n+1)*h*d+2*(h*d)**2+4*h*d+h*(buckets+1)",
            ),
            variant(
                first_token="tied",
                distance=16,
                module={"norm": False, "relative": True, "buckets": 8},
                parameters="n*h*d+2*(h*d)**2+h*buckets",
            ),
        ),
        parameters="n*h*d+2*(h*d)**2+2*h",
        cost="O(L² d) a head for the bias, whatever the batch",
        relative="no: a table of positions; TUPE-R adds a bias of the offset",
        bounded="a vector for each position, and none beyond the table",
        sizes=("d", "heads", "d_model", "tokens"),
        unit="1",
    ),
    Encoding(
        name="deberta",
        title="DeBERTa",
        paper="he2021",
        arxiv="2006.03654",
        kind="doors",
        doors=("scale", "bias"),
        file="relative.deberta",
        module="DeBERTa",
        variants=(
            variant(
                rows="paper",
                index="code",
                module={"span": 4, "biases": (True, False)},
                parameters="2*span*h*d+2*(h*d)**2+h*d",
            ),
            variant(
                rows="microsoft",
                index="paper",
                distance=9,
                module={"span": 8, "norm": True},
                parameters="2*span*h*d+2*(h*d)**2+4*h*d",
            ),
            variant(
                rows="transformers",
                index="code",
                distance=9,
                module={"span": 8, "biases": (False, False)},
            ),
        ),
        parameters="2*span*h*d+2*(h*d)**2",
        cost="O(L² d) a head and layer for products with the rows of the table",
        relative="exactly",
        bounded="yes: one row for all offsets from the last on",
        sizes=("d", "heads", "d_model"),
        unit="1",
    ),
)
