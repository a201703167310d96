"""Model and optimizer of the experiments."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR

from posedu.torch import Encoding, Transformer


class CausalModel(nn.Module):
    """Causal transformer that predicts a label for every token.

    ``make`` returns the encodings of the layers, from the first layer to the last.
    Where they act on the input, the first one alone is used. Where they update
    positions from layer to layer, the first one makes the initial positions.
    ``window`` is each layer's attention window. All models of one seed have the same
    initial weights, except for the parameters of their encodings.
    """

    def __init__(
        self,
        make: Callable[[], Sequence[Encoding]],
        *,
        tokens: int,
        labels: int,
        heads: int,
        d: int,
        route: str | None,
        seed: int,
        window: Sequence[int | None] | None = None,
    ):
        super().__init__()
        torch.manual_seed(seed)
        encodings = make()
        torch.manual_seed(seed)
        first = encodings[0]
        updates_positions = first.uses("update")
        acts_on_input = first.uses("embed")
        self.embedding = nn.Embedding(tokens, heads * d)
        self.trunk = Transformer(
            heads * d,
            heads,
            len(encodings),
            encoding=None if acts_on_input else encodings,
            input=first if acts_on_input or updates_positions else None,
            route=route,
            window=window,
            expansion=2,
        )
        self.answer = nn.Linear(heads * d, labels)

    def forward(
        self, tokens: Int[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens labels"]:
        """Return the logits of the labels for every token.

        ``tokens`` are token ids.
        """
        return self.answer(self.trunk(self.embedding(tokens)))


def optimization(
    model: nn.Module, *, rate: float, decay: float, steps: int
) -> tuple[Optimizer, LRScheduler]:
    """Return AdamW and its schedule: warm-up for a tenth of the steps, then cosine.

    ``rate`` is the largest learning rate, ``decay`` the weight decay. Weight decay
    applies to the weights of linear layers only, not to an encoding's parameters.
    """
    linear = {m.weight for m in model.modules() if isinstance(m, nn.Linear)}
    others = [p for p in model.parameters() if p.requires_grad and p not in linear]
    optimizer = AdamW(
        [
            {"params": [*linear], "weight_decay": decay},
            {"params": others, "weight_decay": 0.0},
        ]
    )
    warm_up = max(0.1, min(1.5 / steps, 0.9))  # torch divides by 0 at exactly one step
    schedule = OneCycleLR(
        optimizer,
        max_lr=rate,
        total_steps=steps,
        pct_start=warm_up,
        cycle_momentum=False,
    )
    return optimizer, schedule
