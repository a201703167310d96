"""Every encoding of the book, once: what it is, where its faces are, how it relates."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
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

    ``parameters`` (the trained ones of a layer) and ``unit`` (what d must be a multiple
    of) are formulas in d, the block size b, the axes N and the heads h.
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
    unit: str = "2"
    module_options: MappingProxyType = field(
        default_factory=lambda: MappingProxyType({})
    )

    def divisor(self, options: Mapping[str, Any]) -> int:
        """What a head dimension must be a multiple of, for a variant's options."""
        sizes = {"b": options.get("block", 2), "N": self.axes or 1}
        factors = self.unit.split("*")
        return math.prod(sizes[f] if f in sizes else int(f) for f in factors)

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
    )
}
