"""How the experiments train."""

from torch import nn
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR


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
    warm_up = max(0.1, min(1.5 / steps, 0.9))  # at one step exactly, torch divides by 0
    schedule = OneCycleLR(
        optimiser,
        max_lr=rate,
        total_steps=steps,
        pct_start=warm_up,
        cycle_momentum=False,
    )
    return optimiser, schedule
