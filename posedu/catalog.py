"""Every encoding of the book, once: what it is, where its faces are, how it relates."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class SpecialCase:
    """An encoding becomes the encoding ``of`` where ``when`` holds: claim ``proof``."""

    of: str
    when: str
    proof: str


@dataclass(frozen=True)
class Encoding:
    """One encoding. Faces are ``"module:object"``, loaded on demand by :meth:`face`.

    The three faces take the same keywords (``variants`` lists the ones that published
    code disagrees about): NumPy as ``f(x, positions, **options, **parameters)``,
    PyTorch as ``Module(d, **options, **module_options)(x, positions)``, SymPy as
    ``f(column, position, **options, **parameters)``. The parameters are the module's,
    by name. ``axes`` is the number of coordinates of a position, ``None`` for one that
    is a plain number.

    An encoding that acts inside attention, where content decides, has ``inputs``
    instead of positions: q, k and v, or the layer's input x too, or x alone for a whole
    block. Its faces are ``f(*inputs, **options, **parameters)``, for all heads in NumPy
    and for one in SymPy, and ``Module(**sizes, **options)(*inputs)``.

    ``parameters`` (the trained ones of a layer) and ``unit`` (what d must be a multiple
    of) are formulas in d, the block size b, the axes N, the heads h and CoPE's npos.
    """

    name: str
    title: str
    family: str
    paper: str
    year: int
    arxiv: str
    doors: tuple[str, ...]
    numpy: str
    torch: str
    sympy: str
    variants: tuple[MappingProxyType, ...]
    chapter: str
    lab: str
    exercises: str
    parameters: str
    cost: str
    relative: str
    bounded: str
    learned: str
    adopters: tuple[str, ...]
    special_cases: tuple[SpecialCase, ...] = ()
    axes: int | None = None
    inputs: tuple[str, ...] = ()
    unit: str = "2"
    module_options: MappingProxyType = field(
        default_factory=lambda: MappingProxyType({})
    )

    def divisor(self, options: Mapping[str, Any]) -> int:
        """What a head dimension must be a multiple of, for a variant's options."""
        sizes = {"b": options.get("block", 2), "N": self.axes or 1}
        factors = self.unit.split("*")
        return math.prod(sizes[f] if f in sizes else int(f) for f in factors)

    def sizes(self, d: int, heads: int) -> dict[str, int]:
        """The sizes without which the module of one with ``inputs`` cannot be made."""
        known = {"d": d, "heads": heads, "d_model": heads * d}
        parameters = signature(self.face("torch")).parameters.values()
        return {
            p.name: known[p.name]
            for p in parameters
            if p.default is p.empty and p.name in known
        }

    def face(self, face: str) -> Any:
        """Load the ``"numpy"``, ``"torch"`` or ``"sympy"`` face."""
        module, _, attribute = getattr(self, face).partition(":")
        return getattr(import_module(module), attribute)


def _variants(**choices: tuple) -> tuple[MappingProxyType, ...]:
    """Every combination of the given choices, as read-only keywords."""
    combinations: list[dict[str, Any]] = [{}]
    for keyword, values in choices.items():
        combinations = [{**c, keyword: v} for c in combinations for v in values]
    return tuple(MappingProxyType(c) for c in combinations)


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
            doors=("embed",),
            numpy="posedu.numpy.absolute:embed_sinusoidal",
            torch="posedu.torch:Sinusoidal",
            sympy="posedu.sympy.absolute:embed_sinusoidal",
            variants=_variants(
                layout=("interleaved", "half"), spacing=("paper", "tensor2tensor")
            ),
            chapter="book/absolute/sinusoidal",
            lab="notebooks/absolute",
            exercises="notebooks/exercises/absolute",
            parameters="0",
            cost="O(L d) once, at the input",
            relative="its inner products are; scores after projections in general not",
            bounded="yes: |PE|² = d/2",
            learned="no",
            adopters=("Transformer (2017)", "Marian", "Pegasus", "Whisper encoder"),
        ),
        Encoding(
            name="rope",
            title="RoPE",
            family="rotary",
            paper="su2021",
            year=2021,
            arxiv="2104.09864",
            doors=("rotate",),
            numpy="posedu.numpy.rotary:rope",
            torch="posedu.torch:RoPE",
            sympy="posedu.sympy.rotary:rope",
            variants=_variants(layout=("interleaved", "half")),
            chapter="book/rotary/rope",
            lab="notebooks/rotary",
            exercises="notebooks/exercises/rotary",
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
            doors=("rotate",),
            numpy="posedu.numpy.rotary:axial",
            torch="posedu.torch:AxialRoPE",
            sympy="posedu.sympy.rotary:axial",
            variants=_variants(
                order=("concatenated", "alternating"), layout=("interleaved", "half")
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
            doors=("rotate",),
            numpy="posedu.numpy.rotary:mixed",
            torch="posedu.torch:MixedRoPE",
            sympy="posedu.sympy.rotary:mixed",
            variants=_variants(layout=("interleaved", "half")),
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
            doors=("rotate",),
            numpy="posedu.numpy.rotary:liere",
            torch="posedu.torch:LieRE",
            sympy="posedu.sympy.rotary:liere",
            variants=_variants(block=(2, 3, 4, 8)),
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
            doors=("rotate",),
            numpy="posedu.numpy.rotary:comrope_ap",
            torch="posedu.torch:ComRoPEAP",
            sympy="posedu.sympy.rotary:comrope_ap",
            variants=_variants(block=(2, 4, 8)),
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
            doors=("rotate",),
            numpy="posedu.numpy.rotary:comrope_ld",
            torch="posedu.torch:ComRoPELD",
            sympy="posedu.sympy.rotary:comrope_ld",
            variants=_variants(block=(2, 4, 8)),
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
            module_options=MappingProxyType({"multipliers": "per head"}),
        ),
        Encoding(
            name="fope",
            title="FoPE",
            family="rotary",
            paper="hua2024",
            year=2024,
            arxiv="2412.17739",
            doors=("rotate", "bias"),
            numpy="posedu.numpy.rotary:fope",
            torch="posedu.torch:FoPE",
            sympy="posedu.sympy.rotary:fope",
            variants=_variants(
                layout=("interleaved", "half"),
                padding=("identity", "ones"),
                length=(64,),
            ),
            chapter="book/rotary/fope",
            lab="notebooks/rotations",
            exercises="notebooks/exercises/fope",
            parameters="0",
            cost="O(L d) a head and layer, and O(L d²) for the series",
            relative="as the formula of the paper: exactly; as its code: no",
            bounded="no: norms are not kept",
            learned="no",
            adopters=(),
            special_cases=(
                SpecialCase(
                    "rope", "no frequency is mixed in or dropped", "eq-fope-rope"
                ),
            ),
            module_options=MappingProxyType({"coefficients": "paper"}),
        ),
        Encoding(
            name="stickbreaking",
            title="Stick-breaking",
            family="stickbreaking",
            paper="tan2024",
            year=2024,
            arxiv="2410.17980",
            doors=("weigh", "mix"),
            numpy="posedu.numpy.stickbreaking:stick_breaking",
            torch="posedu.torch:StickBreaking",
            sympy="posedu.sympy.stickbreaking:stick_breaking",
            variants=_variants(
                attend_current=(False, True),
                remainder=("drop", "own", "renormalise"),
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
            inputs=("q", "k", "v"),
            unit="1",
        ),
        Encoding(
            name="fox",
            title="FoX",
            family="gated",
            paper="lin2025",
            year=2025,
            arxiv="2503.02130",
            doors=("bias",),
            numpy="posedu.numpy.gated:fox",
            torch="posedu.torch:FoX",
            sympy="posedu.sympy.gated:fox",
            variants=_variants(),
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
            inputs=("q", "k", "v", "x"),
            unit="1",
        ),
        Encoding(
            name="fox-pro",
            title="FoX (Pro)",
            family="gated",
            paper="lin2025",
            year=2025,
            arxiv="2503.02130",
            doors=("bias",),
            numpy="posedu.numpy.gated:fox_pro",
            torch="posedu.torch:FoXPro",
            sympy="posedu.sympy.gated:fox_pro",
            variants=_variants(),
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
            inputs=("x",),
            unit="1",
        ),
        Encoding(
            name="cope",
            title="CoPE",
            family="gated",
            paper="golovneva2024",
            year=2024,
            arxiv="2405.18719",
            doors=("bias",),
            numpy="posedu.numpy.gated:cope",
            torch="posedu.torch:CoPE",
            sympy="posedu.sympy.gated:cope",
            variants=_variants(scaling=("code", "bias unscaled", "paper")),
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
            inputs=("q", "k", "v"),
            unit="1",
            module_options=MappingProxyType({"npos": 4}),
        ),
    )
}
