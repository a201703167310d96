"""What the experiments train, and how."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR

from posedu.torch import Encoding, Transformer


class CausalModel(nn.Module):
    """A causal transformer that says something after every token.

    ``make`` makes the encoding of a layer, the first one's first; one that acts on the
    input is made once, and of those that move positions the first one makes them.
    ``window`` is how far back each layer sees. Of one seed all have the same
    initial weights but for their encodings'.
    """

    def __init__(
        self,
        make: Callable[[], Encoding],
        *,
        tokens: int,
        labels: int,
        layers: int,
        heads: int,
        d: int,
        route: str | None,
        seed: int,
        window: Sequence[int | None] | None = None,
    ):
        super().__init__()
        torch.manual_seed(seed)
        encodings = [make() for _ in range(layers)]
        torch.manual_seed(seed)
        first = encodings[0]
        moves = first.uses("update")
        acts_on_input = first.uses("embed")
        self.embedding = nn.Embedding(tokens, heads * d)
        self.trunk = Transformer(
            heads * d,
            heads,
            layers,
            encoding=None if acts_on_input else encodings,
            input=first if acts_on_input or moves else None,
            route=route,
            window=window,
            expansion=2,
        )
        self.answer = nn.Linear(heads * d, labels)

    def forward(
        self, tokens: Int[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens labels"]:
        """Logits of the labels, after every token."""
        return self.answer(self.trunk(self.embedding(tokens)))


def optimization(
    model: nn.Module, *, rate: float, decay: float, steps: int
) -> tuple[Optimizer, LRScheduler]:
    """AdamW, the rate up for a tenth of the steps and down along a cosine.

    Weight decay is for linear maps only, not for an encoding's parameters.
    """
    linear = {m.weight for m in model.modules() if isinstance(m, nn.Linear)}
    others = [p for p in model.parameters() if p.requires_grad and p not in linear]
    optimizer = AdamW(
        [
            {"params": [*linear], "weight_decay": decay},
            {"params": others, "weight_decay": 0.0},
        ]
    )
    warm_up = max(0.1, min(1.5 / steps, 0.9))  # at one step exactly, torch divides by 0
    schedule = OneCycleLR(
        optimizer,
        max_lr=rate,
        total_steps=steps,
        pct_start=warm_up,
        cycle_momentum=False,
    )
    return optimizer, schedule
