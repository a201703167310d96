"""The small transformer that the experiments train, and how."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR

from posedu.torch import Attention


class Block(nn.Module):
    """Attention, then a perceptron, each on the normalised stream and added to it."""

    def __init__(self, width: int, attention: Attention):
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.attention = attention
        self.perceptron = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.GELU(),
            nn.Linear(2 * width, width),
        )

    def forward(
        self, x: Float[Tensor, "batch tokens width"], positions: Tensor | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        """Add what the layer has to say."""
        x = x + self.attention(self.before_attention(x), positions)
        return x + self.perceptron(x)


def optimisation(
    model: nn.Module, *, rate: float, decay: float, steps: int
) -> tuple[Optimizer, LRScheduler]:
    """AdamW, the rate up for a tenth of the steps and down along a cosine.

    Weight decay is for linear maps only, not for an encoding's parameters.
    """
    linear = {m.weight for m in model.modules() if isinstance(m, nn.Linear)}
    others = [p for p in model.parameters() if p.requires_grad and p not in linear]
    optimiser = AdamW(
        [
            {"params": [*linear], "weight_decay": decay},
            {"params": others, "weight_decay": 0.0},
        ]
    )
    schedule = OneCycleLR(
        optimiser,
        max_lr=rate,
        total_steps=steps,
        pct_start=0.1,
        cycle_momentum=False,
    )
    return optimiser, schedule
