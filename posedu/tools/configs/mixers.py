"""Mixers of the layers of a hybrid model: attention, a recurrence, both or an MLP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from posedu._argument_types import check_types

Role = Literal["attention", "recurrence", "both", "mlp"]
Recurrence = Literal[
    "gated-delta-net",
    "kda",
    "mamba",
    "mamba-2",
    "lightning",
    "rg-lru",
    "convolution",
    "recurrence",
]
TITLES: Mapping[str, str] = {
    "gated-delta-net": "Gated DeltaNet",
    "kda": "KDA",
    "mamba": "Mamba",
    "mamba-2": "Mamba-2",
    "lightning": "lightning attention",
    "rg-lru": "RG-LRU",
    "convolution": "short convolution",
    "recurrence": "recurrence",
}
SHOWN_RUNS = 6


@check_types
@dataclass(frozen=True, kw_only=True)
class Mixers:
    """Mixers of the layers of a hybrid model.

    Parameters
    ----------
    recurrence
        The kind of recurrence, one in all layers that have one; ``"recurrence"`` if it
        is not known.
    roles
        The mixer of each layer: ``"attention"``, ``"recurrence"``, ``"both"`` (in one
        layer), or ``"mlp"``, a layer without a mixer. Empty if the layers are not
        listed.
    convolution
        Number of tokens of the short convolution, the token's own among them; ``None``
        if the configuration does not give one.
    """

    recurrence: Recurrence
    roles: tuple[Role, ...] = ()
    convolution: int | None = None

    @property
    def recurrent(self) -> tuple[int, ...]:
        """The layers with a recurrence, from 0 on."""
        return tuple(n for n, r in enumerate(self.roles) if r in ("recurrence", "both"))

    @property
    def attention(self) -> tuple[int, ...]:
        """The layers with attention, from 0 on."""
        return tuple(n for n, r in enumerate(self.roles) if r in ("attention", "both"))

    @property
    def order(self) -> str:
        """Source of the tokens' order in the recurrent layers, as text."""
        width = self.convolution
        convolution = f"a convolution of {width} tokens" if width else "a convolution"
        if self.recurrence == "convolution":
            return convolution
        if self.recurrence in ("lightning", "recurrence"):
            return "the state"
        return f"the state and {convolution}"

    def __str__(self) -> str:
        title = TITLES[self.recurrence]
        if not self.roles:
            return f"{title}, in layers that are not listed"
        if not self.recurrent:
            return f"{title}, in none of {len(self.roles)} layers"
        which = numbered(self.recurrent)
        both = self.roles.count("both")
        beside = f", {both} of them beside attention" if both else ""
        return f"{title}, {len(self.recurrent)} of {len(self.roles)}: {which}{beside}"


def numbered(places: Sequence[int]) -> str:
    """Return the numbers of layers as text, such as "layers 0–4, 6"."""
    runs: list[list[int]] = []
    for n in places:
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    texts = [f"{r[0]}–{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs]
    more = ", …" if len(texts) > SHOWN_RUNS else ""
    shown = ", ".join(texts[:SHOWN_RUNS]) + more
    return f"layer{'s' * (len(places) > 1)} {shown}"
