"""What a record of the catalog says of an encoding, and what follows from that."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

NOTHING: Mapping[str, Any] = MappingProxyType({})
ATTENTION = "attention"  # no encoding at all: the root of the map of special cases
IMPLEMENTATIONS = ("numpy", "sympy", "torch")
_TABLES = (
    *("npos", "buckets", "past", "future", "extent", "d_rel", "span", "width"),
    *("features", "groups"),
    *("latent", "q_latent", "rotary"),
)
TOKENS = 64  # for how many positions a table is made, if nothing else is said
CASES = ("is", "limit", "part")  # how far one encoding becomes another


@dataclass(frozen=True)
class SpecialCase:
    """An encoding becomes the encoding ``of`` where ``when`` holds: claim ``proof``.

    ``kind`` says how far: it ``"is"`` the other there, it comes as near as one likes,
    in the ``"limit"``, or one ``"part"`` of the two agrees.
    """

    of: str
    when: str
    proof: str
    kind: str = "is"

    def __post_init__(self) -> None:
        if self.kind not in CASES:
            raise ValueError(f"kind is one of {CASES}, got {self.kind!r}")


@dataclass(frozen=True)
class Variant:
    """One way to call the implementations of an encoding.

    ``options`` are keywords of all implementations, ``module`` those of the PyTorch module alone,
    ``sizes`` the sizes that this module is given besides the record's: ``heads`` for
    parameters of each head. ``parameters`` says how many are trained where the record's
    formula does not. ``exact`` tells whether the symbolic implementation has it, ``heads`` how
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


def variant(
    *sizes: str,
    module: Mapping[str, Any] = NOTHING,
    parameters: str | None = None,
    exact: bool = True,
    heads: int = 2,
    **options: Any,
) -> Variant:
    """Write a :class:`Variant` as it is called: options are keywords."""
    return Variant(
        MappingProxyType(options),
        MappingProxyType(dict(module)),
        sizes,
        parameters,
        exact,
        heads,
    )


@dataclass(frozen=True, kw_only=True)
class Record:
    """What every record says.

    ``file`` is where the implementations are, from the folder of an implementation on: ``"rotary.rope"`` is
    ``posedu/numpy/rotary/rope.py`` and its kin. ``function`` is their name there, if it
    is not the record's. ``chapter`` and ``lab`` are names of files without folder and
    ending, empty until the book has them; ``treated`` is the label of an equation by
    which another chapter states what has none of its own.
    """

    name: str
    title: str
    paper: str
    arxiv: str = ""
    file: str
    function: str = ""
    adopters: tuple[str, ...] = ()
    special_cases: tuple[SpecialCase, ...] = ()
    chapter: str = ""
    lab: str = ""
    treated: str = ""
    url: str = ""
    published: int = 0

    @property
    def family(self) -> str:
        """The folder that it stands in, in each implementation and in the book."""
        return self.file.partition(".")[0]

    @property
    def year(self) -> int:
        """When it was published first: its arXiv identifier says so, if it has one."""
        return self.published or 2000 + int(self.arxiv[:2])

    @property
    def source(self) -> str:
        """Where it was published."""
        return self.url or f"https://arxiv.org/abs/{self.arxiv}"

    @property
    def page(self) -> str:
        """The chapter, as the book's contents have it, or nothing."""
        return f"book/{self.family}/{self.chapter}" if self.chapter else ""

    @property
    def notebook(self) -> str:
        """The lab, as the book's contents have it, or nothing."""
        return f"notebooks/{self.lab}" if self.lab else ""

    @property
    def exercises(self) -> str:
        """The learner's notebook, as the book's contents have it, or nothing."""
        return f"notebooks/exercises/{self.chapter}" if self.chapter else ""

    def implementation(self, implementation: str) -> Any:
        """Load the ``"numpy"`` or ``"sympy"`` implementation, a function."""
        module = import_module(f"posedu.{implementation}.{self.file}")
        return getattr(module, self.function or self.name.replace("-", "_"))


@dataclass(frozen=True, kw_only=True)
class RoPEScaling(Record):
    """A method that changes RoPE's frequencies and nothing else.

    It has one implementation, in NumPy, which maps the frequencies of the pairs to others:
    ``f(frequencies, **options)``. RoPE takes the result in every implementation. ``options`` are
    keywords to try it with. ``attention_factor`` is the name of a function beside it, where
    the method says what RoPE's cosines and sines are multiplied by.
    """

    options: tuple[Mapping[str, Any], ...]
    attention_factor: str = ""


@dataclass(frozen=True, kw_only=True)
class EncodingRecord(Record):
    """One encoding, whose three implementations :meth:`implementation` loads.

    The implementations take the same keywords: the options of a variant, and the parameters by
    the names that the PyTorch module has for them ("." becomes "_"). ``module`` is the
    class in PyTorch. ``kind`` says what the implementations are:

    ``"features"``
        Functions of features and positions: NumPy ``f(x, positions, **keywords)``,
        SymPy ``f(column, position, **keywords)``, ``module(x, positions)``.
    ``"hooks"``
        NumPy and SymPy ``f(**keywords)`` return ``Hooks``, the module is an
        ``EncodingRecord``; each goes to its implementation's ``attend``.
    ``"layers"``
        As ``"hooks"``, but they move positions from one layer to the next: implementations need
        more than one, and a model's hook ``locate``.
    ``"positions"``
        Functions of positions and of numbers drawn for them: NumPy and SymPy
        ``f(positions, **draws, **keywords)``, ``module.place(positions, **draws)``.
        The module's ``draw(rows, tokens)`` draws them, its hook ``locate`` does both.
        What encodes the positions is another encoding.
    ``"block"``
        A whole attention block: ``f(x, **keywords)`` and ``module(x)``.

    ``sizes`` names what the module's constructor needs (``d``, ``heads``, ``d_model``,
    ``tokens`` where positions are the rows of a table),
    ``implementation_sizes`` those that the other two implementations take too. ``axes`` is the number of
    coordinates of a position, ``None`` for one that is a plain number.

    ``reach`` is how far from 0 tools try it where its time goes with the position, or
    its angles round by more than is counted; ``None`` elsewhere.

    ``parameters`` (the trained ones of a layer) and ``unit`` (what d must be a multiple
    of) are formulas, see :meth:`evaluate`.
    """

    module: str
    kind: str
    hooks: tuple[str, ...]
    variants: tuple[Variant, ...]
    parameters: str
    cost: str
    relative: str
    bounded: str
    sizes: tuple[str, ...] = ("d",)
    implementation_sizes: tuple[str, ...] = ()
    axes: int | None = None
    unit: str = "2"
    reach: float | None = None

    @property
    def of_model(self) -> bool:
        """Whether it acts on a model's input or between layers, not within one."""
        return self.hooks in (("embed",), ("enter",)) or self.kind in (
            "layers",
            "positions",
        )

    @property
    def learned(self) -> bool:
        """Whether its first variant has trained parameters."""
        return (self.variants[0].parameters or self.parameters) != "0"

    def implementation(self, implementation: str) -> Any:
        """Load the ``"numpy"``, ``"sympy"`` or ``"torch"`` implementation."""
        if implementation == "torch":
            return getattr(import_module(f"posedu.torch.{self.file}"), self.module)
        return super().implementation(implementation)

    def evaluate(
        self, formula: str, variant: Variant, *, d: int = 0, heads: int = 1
    ) -> int:
        """The value of a formula of this record for a layer of these sizes.

        Its letters: d, the heads h (1 where they share parameters), the width of the
        model D, the axes N, the block size b, the tokens n of a table of positions, and
        the sizes of other tables by their names.
        """
        own = {"heads", "gate_heads"} & {*self.sizes, *variant.sizes}
        given = variant.keywords
        sizes = {"d": d, "h": heads if own else 1, "N": self.axes or 1}
        sizes["D"] = heads * d
        sizes |= {"b": given.get("block", 2), "n": TOKENS}
        sizes |= {name: given.get(name, 0) for name in _TABLES}
        return int(eval(formula, {"__builtins__": {}}, sizes))

    def rows(self, variant: Variant) -> int | None:
        """How many positions its table has, if others are refused."""
        refuses = variant.options.get("beyond", "raise") == "raise"
        return TOKENS if "tokens" in self.sizes and refuses else None

    def divisor(self, variant: Variant) -> int:
        """What a head dimension must be a multiple of."""
        return self.evaluate(self.unit, variant)

    def trained(self, variant: Variant, *, d: int, heads: int) -> int:
        """How many parameters a layer of these sizes trains."""
        formula = variant.parameters or self.parameters
        return self.evaluate(formula, variant, d=d, heads=heads)

    def label(self, variant: Variant) -> str:
        """The name and the options."""
        own = ("own " + name for name in variant.sizes if name == "heads")
        return ", ".join((self.name, *map(str, variant.keywords.values()), *own))

    def make(
        self, variant: Variant, *, d: int, heads: int, tokens: int = TOKENS
    ) -> Any:
        """The PyTorch module of a variant, for a layer of these sizes."""
        sizes = _sizes((*self.sizes, *variant.sizes), d, heads, tokens)
        return self.implementation("torch")(**sizes, **variant.keywords)

    def keywords(self, variant: Variant, *, d: int, heads: int) -> dict[str, Any]:
        """What the other two implementations are given besides parameters."""
        return _sizes(self.implementation_sizes, d, heads) | dict(variant.options)


def _sizes(
    names: tuple[str, ...], d: int, heads: int, tokens: int = TOKENS
) -> dict[str, int]:
    known = {"d": d, "heads": heads, "d_model": heads * d, "gate_heads": heads}
    known |= {"tokens": tokens}
    return {name: known[name] for name in names}
