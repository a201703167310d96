"""Dataclasses of the catalog: records of encodings, their options and special cases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from posedu._argument_types import check_types
from posedu._arguments import require_choice
from posedu._renamed import renamed_names

NOTHING: Mapping[str, Any] = MappingProxyType({})
ATTENTION = "attention"  # attention without an encoding: the root of the special cases
IMPLEMENTATIONS = ("numpy", "sympy", "torch")
TOKENS = 64  # default number of positions of a table
Closeness = Literal["is", "limit", "part"]  # of one encoding to another
Crossing = Literal["positions", "prefix", "ordered", "state", "heads", "draw"]


@check_types
@dataclass(frozen=True)
class SpecialCase:
    """Statement that an encoding becomes a second one, ``of``, under a condition.

    ``of`` is the name of the second encoding, ``when`` the condition, and ``proof`` the
    label of the equation that is proved. ``kind`` says how closely the two agree under
    the condition: the encoding ``"is"`` the second one, comes as near to it as one
    likes in the ``"limit"``, or agrees with it in one ``"part"`` of its formula.
    """

    of: str
    when: str
    proof: str
    kind: Closeness = "is"

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, Closeness)


@check_types
@dataclass(frozen=True)
class Variant:
    """One configuration of an encoding: keyword arguments of its implementations.

    ``options`` are keyword arguments of all implementations, ``module`` those of the
    PyTorch module alone. ``sizes`` are sizes that the PyTorch module takes besides
    those in the encoding's catalog record: ``heads`` where each head has its own
    parameters.
    ``parameters`` is the formula for the number of trained parameters where the
    record's does not hold. ``has_symbolic`` is false where the symbolic implementation
    lacks the configuration. ``heads`` is the number of heads with which tools try the
    configuration.
    """

    options: Mapping[str, Any]
    module: Mapping[str, Any]
    sizes: tuple[str, ...] = ()
    parameters: str | None = None
    has_symbolic: bool = True
    heads: int = 2

    @property
    def keywords(self) -> dict[str, Any]:
        """Return the configuration's keyword arguments: ``options``, then ``module``.

        ``module`` holds the keyword arguments of the PyTorch module alone.
        """
        return {**self.options, **self.module}


@check_types
def variant(
    *sizes: str,
    module: Mapping[str, Any] = NOTHING,
    parameters: str | None = None,
    has_symbolic: bool = True,
    heads: int = 2,
    **options: Any,
) -> Variant:
    """Make a :class:`Variant`, a configuration of an encoding.

    The configuration's ``options`` are given as keyword arguments; all other arguments
    are the fields of :class:`Variant` of the same names.
    """
    return Variant(
        MappingProxyType(options),
        MappingProxyType(dict(module)),
        sizes,
        parameters,
        has_symbolic,
        heads,
    )


@check_types
@dataclass(frozen=True, kw_only=True)
class Record:
    """Base class of the catalog's records of encodings and of RoPE scaling methods.

    ``title`` is a name for readers, ``paper`` the publication's key in the book's
    bibliography, and ``arxiv`` the publication's arXiv id. ``adopters`` are models and
    programs that use the encoding or method.

    ``file`` is the module of the implementations, as a path in the package of each:
    ``"rotary.rope"`` is ``posedu/numpy/rotary/rope.py`` and its counterparts.
    ``function`` is the name of the function in that module, if it is not ``name``.
    ``chapter`` and ``lab`` are names of the book's files without folder and ending,
    empty until the book has them. ``treated`` is the label of an equation with which
    another chapter, or a further page of the chapter, states the encoding.
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
        """Family of the encoding: its folder in each package and in the book."""
        return self.file.partition(".")[0]

    @property
    def year(self) -> int:
        """Year of first publication: ``published``, or the year of the arXiv id."""
        return self.published or 2000 + int(self.arxiv[:2])

    @property
    def source(self) -> str:
        """Web address of the publication: ``url``, or the arXiv page."""
        return self.url or f"https://arxiv.org/abs/{self.arxiv}"

    @property
    def page(self) -> str:
        """Path of the encoding's chapter in the book, or an empty string."""
        return f"book/{self.family}/{self.chapter}" if self.chapter else ""

    @property
    def notebook(self) -> str:
        """Path of the encoding's lab notebook in the book, or an empty string."""
        return f"notebooks/{self.lab}" if self.lab else ""

    @property
    def exercises(self) -> str:
        """Path of the notebook with the chapter's exercises, or an empty string."""
        return f"notebooks/exercises/{self.chapter}" if self.chapter else ""

    def implementation(self, implementation: str) -> Any:
        """Load the encoding's or method's function in ``"numpy"`` or ``"sympy"``.

        ``implementation`` is the package to load it from, one of these two. Any other
        raises ValueError.
        """
        require_choice("implementation", implementation, IMPLEMENTATIONS)
        module = import_module(f"posedu.{implementation}.{self.file}")
        return getattr(module, self.function or self.name.replace("-", "_"))


@check_types
@dataclass(frozen=True, kw_only=True)
class RoPEScaling(Record):
    """Catalog record of a RoPE scaling method, which changes RoPE's frequencies alone.

    The one implementation of a method is a NumPy function ``f(frequencies, **options)``
    that returns changed frequencies, which RoPE takes in every implementation.
    ``options`` are sets of keyword arguments to try the method with.
    ``attention_factor`` is the name of the function in the same file that computes the
    factor of RoPE's cosines and sines, if the method has one.
    """

    options: tuple[Mapping[str, Any], ...]
    attention_factor: str = ""


@check_types
@dataclass(frozen=True, kw_only=True)
class EncodingRecord(Record):
    """Catalog record of one encoding: its sources, configurations and implementations.

    :meth:`implementation` loads an implementation. All of them take the same keywords:
    the options of a configuration (:class:`Variant`), and the parameters by the names
    that they have in the PyTorch module ("." becomes "_"). ``module`` is the class in
    PyTorch. ``kind`` is the kind of the implementations:

    ``"features"``
        Functions of features and positions: NumPy ``f(x, positions, **keywords)``,
        SymPy ``f(column, position, **keywords)``, ``module(x, positions)``.
    ``"hooks"``
        NumPy and SymPy ``f(**keywords)`` return ``Hooks`` (functions that act on
        attention), the module is an ``Encoding``; each is an argument of its
        implementation's ``attend``.
    ``"layers"``
        ``Hooks`` and an ``Encoding``, where each layer changes the positions of the
        next: the implementations need several layers, and a model's hook ``locate``.
    ``"positions"``
        Functions of positions and of random numbers: NumPy and SymPy
        ``f(positions, **draws, **keywords)``, ``module.place(positions, **draws)``.
        The module's ``draw(rows, tokens)`` samples the numbers; its hook ``locate``
        does both. Another encoding encodes the positions.
    ``"block"``
        A whole attention block: ``f(x, **keywords)`` and ``module(x)``.

    ``hooks`` names the points of a model at which the encoding acts. ``cost``,
    ``relative`` and ``bounded`` are texts for readers: the running time, whether scores
    depend on offsets alone, and whether the encoding stays bounded at all positions.

    ``crosses`` says what queries need of other devices besides keys and values, where a
    text is cut over devices, each of which knows the positions of its own tokens:

    ``"positions"``
        The positions of keys.
    ``"prefix"``
        A sum over earlier tokens, for each head or feature.
    ``"ordered"``
        Parts of the keys that are merged from near to far.
    ``"state"``
        A state of each head, or the transitions of all tokens.
    ``"heads"``
        All heads of a (query, key) pair, so that heads cannot be cut over devices.
    ``"draw"``
        The same random numbers on every device.

    ``sizes`` are the sizes that the module's constructor takes (``d``, ``heads``,
    ``d_model``, ``tokens`` where positions are rows of a table),
    ``implementation_sizes`` those that the NumPy and SymPy functions take. ``axes`` is
    the number of coordinates of a position, ``None`` for a position that is a number.

    ``reach`` is the largest position that tools try where the running time grows with
    the position, or where angles are rounded by more than the bounds count; ``None``
    elsewhere.

    ``parameters`` is the formula for the number of trained parameters of a layer, for
    readers; :meth:`trained` counts them. Its letters are d, the heads h (1 where they
    share parameters), the width of the model D, the axes N, the block size b, the rows
    n of a table of positions, and options by their names. ``unit`` is the number that d
    must be a multiple of, or a function of the configuration that returns this number.
    If ``any_wider`` is true, every d from this number on is allowed, for the encoding
    leaves features as they are that its code does not fill.
    """

    module: str
    kind: str
    hooks: tuple[str, ...]
    variants: tuple[Variant, ...]
    parameters: str
    cost: str
    relative: str
    bounded: str
    crosses: tuple[Crossing, ...] = ()
    sizes: tuple[str, ...] = ("d",)
    implementation_sizes: tuple[str, ...] = ()
    axes: int | None = None
    unit: int | Callable[[Variant], int] = 2
    any_wider: bool = False
    reach: float | None = None

    @property
    def of_model(self) -> bool:
        """True if the encoding acts on a model's input or between its layers."""
        return self.hooks in (("embed",), ("enter",)) or self.kind in (
            "layers",
            "positions",
        )

    @property
    def learned(self) -> bool:
        """True if the encoding's first configuration has trained parameters.

        A configuration is a set of options of the encoding.
        """
        return (self.variants[0].parameters or self.parameters) != "0"

    def implementation(self, implementation: str) -> Any:
        """Load the implementation: a function for ``"numpy"`` and ``"sympy"``.

        For ``"torch"`` it is the class of the PyTorch module.
        """
        if implementation == "torch":
            return getattr(import_module(f"posedu.torch.{self.file}"), self.module)
        return super().implementation(implementation)

    def rows(self, variant: Variant) -> int | None:
        """Return the number of rows of the encoding's table of positions, or ``None``.

        ``variant`` is a configuration (set of options). The result is ``None`` if there
        is no table, or if the option ``beyond`` lets the table accept positions past
        its end.
        """
        refuses = variant.options.get("beyond", "raise") == "raise"
        return TOKENS if "tokens" in self.sizes and refuses else None

    def divisor(self, variant: Variant) -> int:
        """Return the number that the head dimension must be a multiple of.

        The number depends on ``variant``, a configuration (set of options) of the
        encoding, if the rotated blocks or groups have a size that is an option.
        """
        return self.unit(variant) if callable(self.unit) else self.unit

    def trained(self, variant: Variant, *, d: int, heads: int) -> int:
        """Count the encoding's trained parameters in a layer of ``heads`` heads.

        ``variant`` is a configuration (set of options), ``d`` the head dimension. The
        PyTorch module is made and its parameters are counted.
        """
        module = self.make(variant, d=d, heads=heads)
        return sum(p.numel() for p in module.parameters() if p.requires_grad)

    def label(self, variant: Variant) -> str:
        """Return the encoding's name and a configuration's option values, as one text.

        ``variant`` is the configuration (set of options). "own heads" is added if each
        head has its own parameters.
        """
        own = ("own " + name for name in variant.sizes if name == "heads")
        return ", ".join((self.name, *map(str, variant.keywords.values()), *own))

    def make(
        self, variant: Variant, *, d: int, heads: int, tokens: int = TOKENS
    ) -> Any:
        """Make the PyTorch module of a configuration, for heads of dimension ``d``.

        ``variant`` is the configuration (set of options). ``tokens`` is the number of
        rows of a table of positions, if the encoding has one.
        """
        sizes = _sizes((*self.sizes, *variant.sizes), d, heads, tokens)
        return self.implementation("torch")(**sizes, **variant.keywords)

    def keywords(self, variant: Variant, *, d: int, heads: int) -> dict[str, Any]:
        """Return the keywords of NumPy and SymPy functions, without trained parameters.

        ``variant`` is a configuration (set of options). The head dimension ``d`` and
        the number of heads ``heads`` are among the keywords if the functions take them.
        """
        return _sizes(self.implementation_sizes, d, heads) | dict(variant.options)


def _sizes(
    names: tuple[str, ...], d: int, heads: int, tokens: int = TOKENS
) -> dict[str, int]:
    known = {"d": d, "heads": heads, "d_model": heads * d, "gate_heads": heads}
    known |= {"tokens": tokens}
    return {name: known[name] for name in names}


if not TYPE_CHECKING:  # to a type checker, the old names do not exist
    __getattr__ = renamed_names(__name__)
