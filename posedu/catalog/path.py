"""Catalog records of the path encodings: products of transitions that read the text."""

from posedu.catalog.records import ATTENTION, EncodingRecord, SpecialCase, variant

ENCODINGS = (
    EncodingRecord(
        name="selective-rope",
        title="Selective RoPE",
        paper="movahedi2025",
        arxiv="2511.17388",
        kind="hooks",
        hooks=("transport",),
        file="path.selective_rope",
        module="SelectiveRoPE",
        variants=(
            variant(layout="half", module={"gate": False, "rank": 4}),
            variant(
                layout="interleaved",
                temperature="rfa",
                activation=True,
                module={"gate": True, "rank": None, "phase_bias": True},
                parameters="h*(d/2)*(d+4+1)+h+h*(h*d+1)",
            ),
            variant(
                layout="half",
                temperature="rope",
                largest=4.0,
                activation=False,
                module={
                    "gate": True,
                    "rank": 4,
                    "convolution": None,
                    "phase_bias": True,
                },
                parameters="4*h*d+h*(d/2)*(4+1)+h*(h*d+1)",
            ),
        ),
        parameters="4*h*d+h*(d/2)*(4+4)",
        cost="O(L d) a head and layer for the angles",
        relative="at phases that are all equal: then it is RoPE",
        bounded="yes: rotations preserve norms",
        special_cases=(
            SpecialCase(
                "rope", "the projection is 0 and e^b is added", "eq-selective-rope-rope"
            ),
            SpecialCase(ATTENTION, "all phases are 0", "eq-selective-rope-nope"),
        ),
        sizes=("d_model", "heads", "d"),
        implementation_sizes=("heads",),
        unit=lambda v: 4 if v.options.get("temperature") == "rfa" else 2,
    ),
    EncodingRecord(
        name="path",
        title="PaTH",
        paper="yang2025",
        arxiv="2505.16381",
        kind="hooks",
        hooks=("logits",),
        file="path.path",
        module="PaTH",
        variants=(
            variant(negative_eigenvalues=True, module={"rank": 4}),
            variant(
                negative_eigenvalues=False,
                module={"rank": None, "convolution": None, "transitions": 1},
                parameters="(d+1)*h*d+1",
            ),
        ),
        parameters="4*h*d+h*d*(4+3)+h*(h*d+1)",
        cost="O(L² d) a head and layer for the products, O(L d) a step with a cache",
        relative="no: the product reads the text between key and query",
        bounded="yes: no transition lengthens a key",
        special_cases=(
            SpecialCase(ATTENTION, "β = 0 for all tokens", "eq-path-nope", "limit"),
        ),
        sizes=("d_model", "heads", "d"),
        implementation_sizes=("heads",),
        unit=1,
    ),
    EncodingRecord(
        name="path-fox",
        title="PaTH-FoX",
        paper="yang2025",
        arxiv="2505.16381",
        kind="hooks",
        hooks=("logits",),
        file="path.path",
        module="PaTHFoX",
        variants=(
            variant(scaling="product", module={"rank": 4}),
            variant(
                scaling="logit",
                module={"rank": None, "convolution": None},
                parameters="h*d*h*d+2*h*(h*d+1)",
            ),
        ),
        parameters="4*h*d+h*d*(4+3)+2*h*(h*d+1)",
        cost="O(L² d) a head and layer for the products, O(L d) a step with a cache",
        relative="no: the product reads the text between key and query",
        bounded="no: the bias has no lower bound",
        special_cases=(
            SpecialCase("path", "all gates go to 1", "eq-path-fox-path", "limit"),
            SpecialCase(
                "fox", "β goes to 0 for all tokens", "eq-path-fox-fox", "limit"
            ),
        ),
        sizes=("d_model", "heads", "d"),
        implementation_sizes=("heads",),
        unit=1,
    ),
)
