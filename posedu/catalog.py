"""Every encoding of the book, once: what it is, where its faces are, how it relates."""

from dataclasses import dataclass
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
    code disagrees about): NumPy as ``f(x, positions, **options)``, PyTorch as
    ``Module(d, **options)(x, positions)``, SymPy as ``f(column, position, **options)``.
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

    def face(self, face: str) -> Any:
        """Load the ``"numpy"``, ``"torch"`` or ``"sympy"`` face."""
        module, _, attribute = getattr(self, face).partition(":")
        return getattr(import_module(module), attribute)


def _variants(**choices: tuple[str, ...]) -> tuple[MappingProxyType, ...]:
    """Every combination of the given choices, as read-only keywords."""
    combinations: list[dict[str, str]] = [{}]
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
    )
}
