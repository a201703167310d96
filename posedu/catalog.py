"""Every encoding of the book, once: what it is, where its faces are, how it relates."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class SpecialCase:
    """An encoding becomes the encoding ``of`` where ``when`` holds: claim ``proof``."""

    of: str
    when: str
    proof: str


@dataclass(frozen=True)
class Variant:
    """One way to call the faces of an encoding.

    ``options`` are keywords of all faces, ``module`` those of the PyTorch module alone,
    ``sizes`` the sizes that this module is given besides the record's: ``heads`` for
    parameters of each head. ``parameters`` says how many are trained where the record's
    formula does not. ``exact`` tells whether the symbolic face has it, ``heads`` how
    many heads show what is special about it.
    """

    options: Mapping[str, Any]
    module: Mapping[str, Any]
    sizes: tuple[str, ...] = ()
    parameters: str | None = None
    exact: bool = True
    heads: int = 2

    @property
    def keywords(self) -> dict[str, Any]:
        """All options by name, those of the module alone last."""
        return {**self.options, **self.module}


@dataclass(frozen=True)
class Encoding:
    """One encoding. Faces are ``"module:object"``, loaded on demand by :meth:`face`.

    The faces take the same keywords: the options of a variant, and the parameters by
    the names that the PyTorch module has for them ("." becomes "_"). ``kind`` says what
    they are:

    ``"features"``
        Functions of features and positions: NumPy ``f(x, positions, **keywords)``,
        SymPy ``f(column, position, **keywords)``, ``module(x, positions)``.
    ``"doors"``
        NumPy and SymPy ``f(**keywords)`` return ``Doors``, the module is an
        ``Encoding``; each goes to its face's ``attend``.
    ``"block"``
        A whole attention block: ``f(x, **keywords)`` and ``module(x)``.

    ``sizes`` names what the module's constructor needs (``d``, ``heads``, ``d_model``),
    ``face_sizes`` those that the other two faces take too. ``axes`` is the number of
    coordinates of a position, ``None`` for one that is a plain number.

    ``parameters`` (the trained ones of a layer) and ``unit`` (what d must be a multiple
    of) are formulas in d, the block size b, the axes N, the heads h (1 where they share
    parameters), CoPE's npos and T5's buckets.

    ``chapter``, ``lab`` and ``exercises`` are empty until the book has them.
    """

    name: str
    title: str
    family: str
    paper: str
    year: int
    arxiv: str
    kind: str
    doors: tuple[str, ...]
    numpy: str
    torch: str
    sympy: str
    variants: tuple[Variant, ...]
    parameters: str
    cost: str
    relative: str
    bounded: str
    learned: str
    adopters: tuple[str, ...]
    sizes: tuple[str, ...] = ("d",)
    face_sizes: tuple[str, ...] = ()
    special_cases: tuple[SpecialCase, ...] = ()
    axes: int | None = None
    unit: str = "2"
    chapter: str = ""
    lab: str = ""
    exercises: str = ""

    def divisor(self, variant: Variant) -> int:
        """What a head dimension must be a multiple of."""
        sizes = {"b": variant.options.get("block", 2), "N": self.axes or 1}
        factors = self.unit.split("*")
        return math.prod(sizes[f] if f in sizes else int(f) for f in factors)

    def label(self, variant: Variant) -> str:
        """The name and the options."""
        own = ("own " + name for name in variant.sizes if name == "heads")
        return ", ".join((self.name, *map(str, variant.keywords.values()), *own))

    def make(self, variant: Variant, *, d: int, heads: int) -> Any:
        """The PyTorch module of a variant, for a layer of these sizes."""
        sizes = _sizes((*self.sizes, *variant.sizes), d, heads)
        return self.face("torch")(**sizes, **variant.keywords)

    def keywords(self, variant: Variant, *, d: int, heads: int) -> dict[str, Any]:
        """What the other two faces are given besides parameters."""
        return _sizes(self.face_sizes, d, heads) | dict(variant.options)

    def face(self, face: str) -> Any:
        """Load the ``"numpy"``, ``"torch"`` or ``"sympy"`` face."""
        module, _, attribute = getattr(self, face).partition(":")
        return getattr(import_module(module), attribute)


def _sizes(names: tuple[str, ...], d: int, heads: int) -> dict[str, int]:
    known = {"d": d, "heads": heads, "d_model": heads * d, "gate_heads": heads}
    return {name: known[name] for name in names}


def _variant(
    *sizes: str,
    module: Mapping[str, Any] = NOTHING,
    parameters: str | None = None,
    exact: bool = True,
    heads: int = 2,
    **options: Any,
) -> Variant:
    return Variant(
        MappingProxyType(options),
        MappingProxyType(dict(module)),
        sizes,
        parameters,
        exact,
        heads,
    )


ATTENTION = "attention"  # no encoding at all: the root of the map of special cases

CATALOG: dict[str, Encoding] = {
    encoding.name: encoding
    for encoding in (
        Encoding(
            name="sinusoidal",
            title="Sinusoidal",
            family="absolute",
            paper="vaswani2017",
            year=2017,
            arxiv="1706.03762",
            kind="features",
            doors=("embed",),
            numpy="posedu.numpy.absolute.sinusoidal:embed_sinusoidal",
            torch="posedu.torch:Sinusoidal",
            sympy="posedu.sympy.absolute.sinusoidal:embed_sinusoidal",
            variants=(
                _variant(layout="interleaved", spacing="paper"),
                _variant(layout="half", spacing="tensor2tensor"),
            ),
            chapter="book/absolute/sinusoidal",
            lab="notebooks/absolute",
            exercises="notebooks/exercises/sinusoidal",
            parameters="0",
            cost="O(L d) once, at the input",
            relative="its inner products are; scores after projections in general not",
            bounded="yes: |PE|² = d/2",
            learned="no",
            sizes=("d_model",),
            adopters=("Transformer (2017)", "Marian", "Pegasus", "Whisper encoder"),
        ),
        Encoding(
            name="rope",
            title="RoPE",
            family="rotary",
            paper="su2021",
            year=2021,
            arxiv="2104.09864",
            kind="features",
            doors=("rotate",),
            numpy="posedu.numpy.rotary:rope",
            torch="posedu.torch:RoPE",
            sympy="posedu.sympy.rotary:rope",
            variants=(
                _variant(layout="interleaved"),
                _variant(layout="half"),
            ),
            chapter="book/rotary/rope",
            lab="notebooks/rotary",
            exercises="notebooks/exercises/rope",
            parameters="0",
            cost="O(L d) a head and layer, for queries and keys",
            relative="exactly",
            bounded="yes: norms are kept",
            learned="no",
            adopters=("Llama 1–4", "Mistral", "Qwen", "Gemma", "GPT-NeoX", "OLMo"),
            special_cases=(
                SpecialCase(
                    "sinusoidal",
                    "q = k = PE(0): the scores are its position–position term",
                    "eq-rope-sinusoidal",
                ),
                SpecialCase(
                    ATTENTION, "all positions equal", "eq-rope-equal-positions"
                ),
            ),
        ),
        Encoding(
            name="axial",
            title="Axial RoPE",
            family="rotary",
            paper="heo2024",
            year=2024,
            arxiv="2403.13298",
            kind="features",
            doors=("rotate",),
            numpy="posedu.numpy.rotary:axial",
            torch="posedu.torch:AxialRoPE",
            sympy="posedu.sympy.rotary:axial",
            variants=(
                _variant(order="concatenated", layout="interleaved"),
                _variant(order="alternating", layout="half"),
            ),
            chapter="book/rotary/axes",
            lab="notebooks/rotations",
            exercises="notebooks/exercises/axes",
            parameters="0",
            cost="O(L d) a head and layer, for queries and keys",
            relative="exactly",
            bounded="yes: norms are kept",
            learned="no",
            adopters=("RoPE-ViT", "EVA-02", "Qwen2-VL's image encoder", "DINOv3"),
            special_cases=(SpecialCase("rope", "there is one axis", "eq-axial-rope"),),
            axes=2,
            unit="2*N",
        ),
        Encoding(
            name="mixed",
            title="RoPE-Mixed",
            family="rotary",
            paper="heo2024",
            year=2024,
            arxiv="2403.13298",
            kind="features",
            doors=("rotate",),
            numpy="posedu.numpy.rotary:mixed",
            torch="posedu.torch:MixedRoPE",
            sympy="posedu.sympy.rotary:mixed",
            variants=(
                _variant(layout="interleaved"),
                _variant("heads", layout="half"),
            ),
            chapter="book/rotary/axes",
            lab="notebooks/rotations",
            exercises="notebooks/exercises/axes",
            parameters="h*N*d/2",
            cost="O(L d N) a head and layer, for queries and keys",
            relative="exactly",
            bounded="yes: norms are kept",
            learned="yes",
            adopters=("RoPE-ViT",),
            special_cases=(
                SpecialCase(
                    "axial", "each frequency vector lies on an axis", "eq-mixed-axial"
                ),
            ),
            axes=2,
            unit="4",
        ),
        Encoding(
            name="liere",
            title="LieRE",
            family="rotary",
            paper="ostmeier2024",
            year=2024,
            arxiv="2406.10322",
            kind="features",
            doors=("rotate",),
            numpy="posedu.numpy.rotary:liere",
            torch="posedu.torch:LieRE",
            sympy="posedu.sympy.rotary:liere",
            variants=(
                _variant("heads", block=2),
                _variant(block=3),
                _variant("heads", block=4),
                _variant(block=8, exact=False),
            ),
            chapter="book/rotary/liere",
            lab="notebooks/rotations",
            exercises="notebooks/exercises/liere",
            parameters="h*N*d*(b-1)/2",
            cost="O(L d b) a head and layer, and O(L d b²) for the exponentials",
            relative="only where the generators commute",
            bounded="yes: norms are kept",
            learned="yes",
            adopters=(),
            special_cases=(
                SpecialCase("mixed", "blocks are 2 × 2", "eq-liere-mixed"),
                SpecialCase(
                    "comrope-ap",
                    "each block's generators vanish but for one axis",
                    "eq-liere-comrope-ap",
                ),
                SpecialCase(
                    "comrope-ld",
                    "each block's generators are multiples of one matrix",
                    "eq-liere-comrope-ld",
                ),
            ),
            axes=2,
            unit="b",
        ),
        Encoding(
            name="comrope-ap",
            title="ComRoPE-AP",
            family="rotary",
            paper="yu2025",
            year=2025,
            arxiv="2506.03737",
            kind="features",
            doors=("rotate",),
            numpy="posedu.numpy.rotary:comrope_ap",
            torch="posedu.torch:ComRoPEAP",
            sympy="posedu.sympy.rotary:comrope_ap",
            variants=(
                _variant(block=2),
                _variant("heads", block=4),
                _variant("heads", block=8, exact=False),
            ),
            chapter="book/rotary/comrope",
            lab="notebooks/rotations",
            exercises="notebooks/exercises/comrope",
            parameters="h*d*b",
            cost="O(L d b) a head and layer, and O(L d b²) for the exponentials; "
            "O(L d) as RoPE-Mixed in a fixed basis",
            relative="exactly",
            bounded="yes: norms are kept",
            learned="yes",
            adopters=(),
            special_cases=(
                SpecialCase(
                    "axial",
                    "blocks are 2 × 2 and turn by axial RoPE's frequencies",
                    "eq-comrope-axial",
                ),
            ),
            axes=2,
            unit="N*b",
        ),
        Encoding(
            name="comrope-ld",
            title="ComRoPE-LD",
            family="rotary",
            paper="yu2025",
            year=2025,
            arxiv="2506.03737",
            kind="features",
            doors=("rotate",),
            numpy="posedu.numpy.rotary:comrope_ld",
            torch="posedu.torch:ComRoPELD",
            sympy="posedu.sympy.rotary:comrope_ld",
            variants=(
                _variant("heads", block=2, module={"multipliers": "per head"}),
                _variant(
                    "heads",
                    block=4,
                    module={"multipliers": "shared"},
                    parameters="h*d*b+N*d/b",
                ),
                _variant(block=8, exact=False, module={"multipliers": "per head"}),
            ),
            chapter="book/rotary/comrope",
            lab="notebooks/rotations",
            exercises="notebooks/exercises/comrope",
            parameters="h*(d*b+N*d/b)",
            cost="O(L d b) a head and layer, and O(L d b²) for the exponentials; "
            "O(L d) as RoPE-Mixed in a fixed basis",
            relative="exactly",
            bounded="yes: norms are kept",
            learned="yes",
            adopters=(),
            special_cases=(
                SpecialCase("mixed", "blocks are 2 × 2", "eq-comrope-mixed"),
            ),
            axes=2,
            unit="b",
        ),
        Encoding(
            name="fope",
            title="FoPE",
            family="rotary",
            paper="hua2024",
            year=2024,
            arxiv="2412.17739",
            kind="features",
            doors=("rotate",),
            numpy="posedu.numpy.rotary:fope",
            torch="posedu.torch:FoPE",
            sympy="posedu.sympy.rotary:fope",
            variants=(
                _variant(
                    layout="interleaved",
                    padding="identity",
                    length=64,
                    module={"coefficients": "paper"},
                ),
                _variant(
                    "heads",
                    layout="half",
                    padding="ones",
                    length=64,
                    normalise=True,
                    module={"coefficients": "code"},
                ),
            ),
            chapter="book/rotary/fope",
            lab="notebooks/rotations",
            exercises="notebooks/exercises/fope",
            parameters="0",
            cost="O(L d) a head and layer, and O(L d²) for the series",
            relative="no, as the code has it; by its offset: exactly",
            bounded="no: norms are not kept",
            learned="no",
            adopters=(),
            special_cases=(
                SpecialCase(
                    "rope", "no frequency is mixed in or dropped", "eq-fope-rope"
                ),
            ),
        ),
        Encoding(
            name="fope-offset",
            title="FoPE of the offset",
            family="rotary",
            paper="hua2024",
            year=2024,
            arxiv="2412.17739",
            kind="doors",
            doors=("logits",),
            numpy="posedu.numpy.rotary:fope_offset",
            torch="posedu.torch:FoPE",
            sympy="posedu.sympy.rotary:fope_offset",
            variants=(
                _variant(
                    layout="interleaved",
                    padding="identity",
                    length=64,
                    module={"coefficients": "paper", "series": "offset"},
                ),
                _variant(
                    layout="half",
                    padding="ones",
                    length=64,
                    normalise=True,
                    module={"coefficients": "code", "series": "offset"},
                ),
            ),
            chapter="book/rotary/fope",
            lab="notebooks/rotations",
            exercises="notebooks/exercises/fope",
            parameters="0",
            cost="O(L² d) a head and layer",
            relative="exactly",
            bounded="no: norms are not kept",
            learned="no",
            adopters=(),
        ),
        Encoding(
            name="t5",
            title="T5's relative bias",
            family="bias",
            paper="raffel2020",
            year=2019,
            arxiv="1910.10683",
            kind="doors",
            doors=("scale", "bias"),
            numpy="posedu.numpy.bias:t5",
            torch="posedu.torch:T5",
            sympy="posedu.sympy.bias:t5",
            variants=(
                _variant(bidirectional=False, distance=16, module={"buckets": 8}),
                _variant(bidirectional=True, distance=16, module={"buckets": 8}),
            ),
            parameters="h*buckets",
            cost="O(L²) a head and layer for the bias",
            relative="exactly",
            bounded="yes: one number for all distances from the last bucket's on",
            learned="yes",
            adopters=("T5", "mT5", "ByT5", "Flan-T5", "UL2", "LongT5"),
            sizes=("heads",),
            unit="1",
        ),
        Encoding(
            name="alibi",
            title="ALiBi",
            family="bias",
            paper="press2022",
            year=2021,
            arxiv="2108.12409",
            kind="doors",
            doors=("fold",),
            numpy="posedu.numpy.bias:alibi",
            torch="posedu.torch:ALiBi",
            sympy="posedu.sympy.bias:alibi",
            variants=(
                _variant(slopes="authors", sides="causal", heads=3),
                _variant(slopes="geometric", sides="symmetric", heads=3),
                _variant(slopes="authors", sides="one-sided", heads=6),
            ),
            parameters="0",
            cost="O(L) a head and layer, as one more feature of queries and keys",
            relative="exactly",
            bounded="no: the bias falls without end",
            learned="no",
            adopters=("BLOOM", "MPT", "Falcon-RW", "Baichuan-13B", "JinaBERT"),
            sizes=("heads",),
            face_sizes=("heads",),
            unit="1",
        ),
        Encoding(
            name="stickbreaking",
            title="Stick-breaking",
            family="stickbreaking",
            paper="tan2024",
            year=2024,
            arxiv="2410.17980",
            kind="doors",
            doors=("weigh", "mix"),
            numpy="posedu.numpy.stickbreaking:stick_breaking",
            torch="posedu.torch:StickBreaking",
            sympy="posedu.sympy.stickbreaking:stick_breaking",
            variants=(
                _variant(attend_current=False, remainder="drop"),
                _variant(attend_current=True, remainder="own"),
                _variant(attend_current=False, remainder="renormalise"),
                _variant(
                    "heads",
                    "d",
                    attend_current=True,
                    remainder="sink",
                    parameters="h*d",
                ),
            ),
            chapter="book/stickbreaking/stickbreaking",
            lab="notebooks/stickbreaking",
            exercises="notebooks/exercises/stickbreaking",
            parameters="0",
            cost="O(L² d) a head and layer, in the place of the softmax; memory O(L d)",
            relative="needs no position: the order of the keys is enough",
            bounded="yes: weights sum to at most 1",
            learned="no",
            adopters=(),
            sizes=(),
            unit="1",
        ),
        Encoding(
            name="fox",
            title="FoX",
            family="gated",
            paper="lin2025",
            year=2025,
            arxiv="2503.02130",
            kind="doors",
            doors=("fold",),
            numpy="posedu.numpy.gated:fox",
            torch="posedu.torch:FoX",
            sympy="posedu.sympy.gated:fox",
            variants=(
                _variant(form="difference", module={"gate": "learned"}),
                _variant(
                    form="key", module={"gate": "independent"}, parameters="h", heads=4
                ),
                _variant(form="difference", module={"gate": "fixed"}, parameters="0"),
            ),
            chapter="book/gated/fox",
            lab="notebooks/gated",
            exercises="notebooks/exercises/fox",
            parameters="h*(h*d+1)",
            cost="O(L²) a head and layer for the bias, O(L h d) a head for the gates",
            relative="at equal gates: then it is ALiBi",
            bounded="yes: the bias is at most 0",
            learned="yes",
            adopters=(),
            special_cases=(SpecialCase(ATTENTION, "all gates are 1", "eq-fox-open"),),
            sizes=("d_model", "heads"),
            unit="1",
        ),
        Encoding(
            name="fox-pro",
            title="FoX (Pro)",
            family="gated",
            paper="lin2025",
            year=2025,
            arxiv="2503.02130",
            kind="block",
            doors=("fold",),
            numpy="posedu.numpy.gated:fox_pro",
            torch="posedu.torch:FoXPro",
            sympy="posedu.sympy.gated:fox_pro",
            variants=(
                _variant(output_gate="sigmoid"),
                _variant(
                    output_gate="silu",
                    module={"v_shift": False, "output_norm": False},
                    parameters="5*(h*d)**2+2*h**2*d+h+2*h*d",
                ),
                _variant(
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
            chapter="book/gated/fox",
            lab="notebooks/gated",
            exercises="notebooks/exercises/fox",
            parameters="5*(h*d)**2+3*h**2*d+h+3*h*d",
            cost="O(L²) a head and layer for the bias, O(L h² d²) for the output gate",
            relative="at equal gates, but for the shift of keys and values",
            bounded="yes: the bias is at most 0",
            learned="yes",
            adopters=(),
            special_cases=(
                SpecialCase("fox", "every part is switched off", "eq-fox-pro-off"),
            ),
            sizes=("d_model", "heads"),
            unit="1",
        ),
        Encoding(
            name="cope",
            title="CoPE",
            family="gated",
            paper="golovneva2024",
            year=2024,
            arxiv="2405.18719",
            kind="doors",
            doors=("scale", "bias"),
            numpy="posedu.numpy.gated:cope",
            torch="posedu.torch:CoPE",
            sympy="posedu.sympy.gated:cope",
            variants=(
                _variant(scaling="code", gates="content", module={"npos": 4}),
                _variant(
                    "heads", scaling="bias unscaled", gates="values", module={"npos": 4}
                ),
                _variant(
                    "d_model",
                    "gate_heads",
                    scaling="paper",
                    gates="keys",
                    module={"npos": 4},
                    parameters="d*npos+h**2*d**2",
                ),
            ),
            chapter="book/gated/cope",
            lab="notebooks/gated",
            exercises="notebooks/exercises/cope",
            parameters="h*d*npos",
            cost="O(L² + L npos d) a head and layer for positions and bias",
            relative="at gates that are all 1: then it is a relative table",
            bounded="positions: yes, at most npos − 1",
            learned="yes",
            adopters=(),
            special_cases=(SpecialCase(ATTENTION, "the table is 0", "eq-cope-nope"),),
            unit="1",
        ),
    )
}
