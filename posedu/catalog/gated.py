"""Catalog records of FoX, FoX (Pro), CoPE and selective attention."""

from posedu.catalog.records import ATTENTION, EncodingRecord, SpecialCase, variant

ENCODINGS = (
    EncodingRecord(
        name="fox",
        title="FoX",
        paper="lin2025",
        arxiv="2503.02130",
        kind="hooks",
        hooks=("fold",),
        file="gated.fox",
        module="FoX",
        variants=(
            variant(form="difference", module={"gate": "learned"}),
            variant(
                form="key", module={"gate": "independent"}, parameters="h", heads=4
            ),
            variant(form="difference", module={"gate": "fixed"}, parameters="0"),
        ),
        chapter="fox",
        lab="fox",
        parameters="h*(h*d+1)",
        cost="O(L²) a head and layer for the bias, O(L h d) a head for the gates",
        relative="at equal gates: then it is ALiBi",
        bounded="no: the bias has no lower bound",
        special_cases=(
            SpecialCase("alibi", "all gates of a head are equal", "eq-fox-alibi"),
            SpecialCase(ATTENTION, "all gates go to 1", "eq-fox-open", kind="limit"),
        ),
        sizes=("d_model", "heads"),
        unit=1,
    ),
    EncodingRecord(
        name="fox-pro",
        title="FoX (Pro)",
        paper="lin2025",
        arxiv="2503.02130",
        kind="block",
        hooks=("fold",),
        file="gated.fox",
        module="FoXPro",
        variants=(
            variant(output_gate="sigmoid"),
            variant(
                output_gate="silu",
                module={"v_shift": False, "output_norm": False},
                parameters="5*(h*d)**2+2*h**2*d+h+2*h*d",
            ),
            variant(
                module={
                    "k_shift": False,
                    "v_shift": False,
                    "qk_norm": False,
                    "output_norm": False,
                    "output_gate": None,
                },
                parameters="4*(h*d)**2+h**2*d+h",
            ),
        ),
        chapter="fox",
        lab="fox",
        parameters="5*(h*d)**2+3*h**2*d+h+3*h*d",
        cost="O(L²) a head and layer for the bias, O(L h² d²) for the output gate",
        relative="at equal gates, except for the shift of keys and values",
        bounded="no: the bias has no lower bound",
        special_cases=(
            SpecialCase("fox", "every part is switched off", "eq-fox-pro-off"),
        ),
        sizes=("d_model", "heads"),
        unit=1,
    ),
    EncodingRecord(
        name="cope",
        title="CoPE",
        paper="golovneva2024",
        arxiv="2405.18719",
        kind="hooks",
        hooks=("scale", "bias"),
        file="gated.cope",
        module="CoPE",
        variants=(
            variant(scaling="code", gates="content", module={"npos": 4}),
            variant(
                "heads", scaling="bias unscaled", gates="values", module={"npos": 4}
            ),
            variant(
                "d_model",
                "gate_heads",
                scaling="paper",
                gates="keys",
                module={"npos": 4},
                parameters="d*npos+h**2*d**2",
            ),
        ),
        chapter="cope",
        lab="fox",
        parameters="h*d*npos",
        cost="O(L² + L npos d) a head and layer for positions and bias",
        relative="at gates that are all 1: then it is a relative table",
        bounded="positions: yes, at most npos − 1",
        special_cases=(
            SpecialCase(
                "fox",
                "the table falls in a straight line and the gates are the tokens' own",
                "eq-decay-cope",
            ),
            SpecialCase(ATTENTION, "the table is 0", "eq-cope-nope"),
        ),
        unit=1,
    ),
    EncodingRecord(
        name="selective-attention",
        title="Selective attention",
        paper="leviathan2024",
        arxiv="2410.02703",
        kind="hooks",
        hooks=("bias",),
        file="gated.selective_attention",
        module="SelectiveAttention",
        variants=(
            variant(include_current=False, spare_first=True),
            variant(include_current=True, spare_first=False),
        ),
        parameters="0",
        cost="O(L²) a layer for the bias, O(L d) a step with a cache",
        relative="needs no position: the order of the keys is enough",
        bounded="no: the bias has no lower bound",
        sizes=(),
        unit=1,
    ),
)
