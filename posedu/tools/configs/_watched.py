"""Configurations that note which of their names are read, and the names left unread."""

import re
from collections.abc import ItemsView, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

ABOUT_POSITIONS = re.compile(
    r"rope|rotary|_rot_|^rot_|yarn|ntk|mscale|alibi|posit|pos_emb|temperature|nope|"
    r"theta|mrope|freq_base|condense_ratio|context_length|head_dim|per_layer_config",
    re.IGNORECASE,
)
"""Parts of names that have to do with positions."""

ROPE_PARAMETERS = re.compile(r"rope|rotary|yarn|scaling\b", re.IGNORECASE)
"""Parts of names of objects in which every name has to do with positions."""

NOT_ABOUT_ROTATION = re.compile(
    # Lengths, tables of learned embeddings, relative biases, convolutions, sine waves.
    r"(\w+_)?(max|num|min|n)_?(\w*_)?(2d_)?positions?(_embeddings|_ids)?|"
    r"(\w+_)?context_length|original_context_length|position_embedding_size|"
    r"\w*relative_(attention|position|residx|chain|max|bias)\w*|"
    r"max_relative_positions?|position_(buckets|bins|biased_input)|"
    r"position_bias_(num_buckets|max_distance)|num_conv_pos_embedding\w*|"
    r"use_(shared_)?(absolute|learned|mid|relative|sinusoidal)_position\w*|"
    r"use_positional_e\w+|positional_encoding_(type|temperature)|"
    r"positional_embedding_temperature|sine_position_embedding_scale|"
    r"(learned|sinusoidal|axial)_pos_emb\w*|max_pos_emb|pos_emb_(height|width|time)|"
    r"window_positional_\w+|pos_embed_(shift|jitter|rescale)|"
    r"position_id_per_seconds|reset_position_index_per_cell|(dropout_)?positions|"
    r"positionwise_\w+|out_point_positions2D|\w+_dropout(_rate)?|alibi_bias_max|"
    # Temperatures of samplers and losses, labels, parts of a head without rotation.
    r"temperature|\w+_(logits_)?temperature|temperature_(init_value|height|width)|"
    r"(\w+_)?positive(_\w+)?|(\w+_)?(nope|v|value|key|index|linear|mamba|qk)_head_dim|"
    r"\w*resampler\w*_head_dim",
    re.ASCII,
)
"""Names that mention positions and change no rotation."""


ALIKE = 0.87
"""Least similarity, as difflib measures it, of a misspelled name and the right one."""


class Watched(Mapping[str, Any]):
    """A configuration that notes which of its names are read.

    A name is read when its value is taken by ``[]`` or ``get``; to ask whether it is
    there, or to go through all of them, is not to read it. Names that are asked for and
    are not there are noted, too. Objects in the configuration are watched as well.
    """

    def __init__(self, content: Mapping[str, Any]):
        self._content = content
        self._inner: dict[str, Watched] = {}
        self._read: set[str] = set()
        self._absent: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        """Return the value of ``name``, which is noted as read."""
        if name not in self:
            raise KeyError(name)
        value = self._content[name]
        self._read.add(name)
        return self._watched(name, value)

    def __contains__(self, name: object) -> bool:
        """Return whether ``name`` is in the configuration."""
        if name in self._content:
            return True
        if isinstance(name, str):
            self._absent.add(name)
        return False

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __repr__(self) -> str:
        return repr(self._content)

    def items(self) -> ItemsView[str, Any]:
        """Return names and values, none of which is noted as read."""
        own = self._content.items()
        return {name: self._watched(name, value) for name, value in own}.items()

    def unread(self, prefix: str = "") -> Iterator[str]:
        """Yield the names of values that were not read.

        Objects have no value of their own, only the names inside them, which have the
        object's name before them, with a dot. ``prefix`` is what stands before all
        names.
        """
        for name, value in self._content.items():
            if isinstance(value, Mapping):
                yield from self._inside(name, value).unread(f"{prefix}{name}.")
            elif name not in self._read and _says_something(value):
                yield f"{prefix}{name}"  # libraries' own objects have numbers, too
            for place, each in _objects_in(value):
                inside = self._inside(f"{name}{place}", each)
                yield from inside.unread(f"{prefix}{name}{place}.")

    def similar(self, name: str) -> str:
        """Return the absent name that was asked for and is most like ``name``.

        ``name`` is one of those of :meth:`unread`. If no name is so alike that ``name``
        may be a misspelling of it, or if it is known to change no rotation, the result
        is empty.
        """
        outer, _, rest = name.partition(".")
        if rest and outer in self._inner:
            found = self._inner[outer].similar(rest)
            return found and f"{outer}.{found}"
        if NOT_ABOUT_ROTATION.fullmatch(name):
            return ""
        found = get_close_matches(name, sorted(self._absent), n=1, cutoff=ALIKE)
        return found[0] if found else ""

    def under(self, prefix: str) -> "Watched":
        """Return the names that begin with ``prefix``, without it, noted with these."""
        return _Under(self, prefix)

    def _watched(self, name: str, value: Any) -> Any:
        return self._inside(name, value) if isinstance(value, Mapping) else value

    def _inside(self, name: str, value: Mapping[str, Any]) -> "Watched":
        return self._inner.setdefault(name, Watched(value))


class _Under(Watched):
    """The names of a configuration that begin with a prefix, without the prefix."""

    def __init__(self, whole: Watched, prefix: str):
        super().__init__(
            {
                name.removeprefix(prefix): value
                for name, value in whole.items()
                if name.startswith(prefix)
            }
        )
        self._whole, self._prefix = whole, prefix

    def __getitem__(self, name: str) -> Any:
        """Return the value of ``name``, which is noted as read in the whole."""
        return self._whole[self._prefix + name]


def _objects_in(value: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects in a list, and in lists in it, with places such as ``[0][2]``.

    If ``value`` is no list, there are none.
    """
    for n, each in enumerate(value) if isinstance(value, list | tuple) else ():
        if isinstance(each, Mapping):
            yield f"[{n}]", each
        for place, inner in _objects_in(each):
            yield f"[{n}]{place}", inner


def _says_something(value: object) -> bool:
    """Return whether a value turns something on: not null, false or empty."""
    is_empty = isinstance(value, str | list | Mapping) and not value
    return value is not None and value is not False and not is_empty


def about_positions(name: str) -> bool:
    """Return whether a dotted name has to do with positions.

    So it is if its last part says so, or if it is inside an object of RoPE parameters.
    Names that are known to change no rotation are left out.
    """
    above, _, last = name.replace("-", "_").rpartition(".")
    if NOT_ABOUT_ROTATION.fullmatch(last):
        return False
    return (
        ROPE_PARAMETERS.search(above) is not None
        or ABOUT_POSITIONS.search(last) is not None
    )
