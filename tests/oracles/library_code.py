"""Write what code of smaller libraries does with positions, for the book's errata.

``python tests/oracles/library_code.py`` needs torchdiffeq, x-transformers,
rotary-embedding-torch and torchscale. Its numbers are committed, so that the book and
the tests do not need them. They are

- one step of torchdiffeq's solver "rk4" for the equation p' = −p²;
- the biases of the gates that x-transformers draws for FoX, and attention with its
  CoPE;
- the powers of xPos in torchscale after a cast to bfloat16;
- scores of xPos at one offset in rotary-embedding-torch, added to those of other
  versions; the versions that were run are 0.6.5 and 0.9.1.
"""

import json
from importlib.metadata import version
from pathlib import Path

import torch
from rotary_embedding_torch import RotaryEmbedding
from torchdiffeq import odeint
from torchscale.component.xpos_relative_position import XPOS
from x_transformers.attend import Attend
from x_transformers.x_transformers import CoPE, DataDependentAlibi

HERE = Path(__file__).parent / "library-code.json"
STEP = 0.5
FAR = 64, 512, 2049, 4099
OFFSET, PLACES = 250, 5


def one_step():
    """The state after one step of "rk4" from 1."""
    at = torch.tensor([0.0, STEP], dtype=torch.float64)
    start = torch.ones(1, dtype=torch.float64)
    states = odeint(lambda t, p: -p * p, start, at, method="rk4")
    return {"step": STEP, "state": states[-1].item()}


def cope():
    """Output of attention with CoPE for random numbers, which are written too."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, 6, 4, dtype=torch.float64)
    encoding = CoPE(dim=4, heads=1, max_pos=5).double()
    torch.nn.init.normal_(encoding.pos_emb)
    out, _ = Attend(causal=True, cope=encoding)(q, k, v)
    return {
        **{name: x[0].tolist() for name, x in (("q", q), ("k", k), ("v", v))},
        "table": encoding.pos_emb.T.tolist(),
        "output": out[0].tolist(),
    }


def powers():
    """Powers of xPos in bfloat16, by the lengths of pairs of ones that are rotated."""
    count = 2 * FAR[-1] + 2
    rotated = XPOS(8).bfloat16()(torch.ones(1, count, 8))
    lengths = rotated[0].reshape(count, 4, 2).norm(dim=-1) / 2**0.5
    return {"positions": FAR, "powers": lengths[[count // 2 + i for i in FAR]].tolist()}


def scores():
    """Scores of equal queries and equal keys at one offset, at several positions."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 8)
    count = OFFSET * (PLACES + 1)
    library = RotaryEmbedding(dim=8, use_xpos=True, cache_if_possible=False)
    rotated_q, rotated_k = (
        x[0, 0, ::OFFSET]
        for x in library.rotate_queries_and_keys(
            *(x.expand(-1, -1, count, -1) for x in (q, k))
        )
    )
    return {
        "q": q.flatten().tolist(),
        "k": k.flatten().tolist(),
        "offset": OFFSET,
        "scores": (rotated_q[1:] * rotated_k[:-1]).sum(-1).tolist(),
    }


def main():
    """Write all numbers."""
    known = json.loads(HERE.read_text("utf-8")) if HERE.exists() else {}
    rotary = known.get("rotary-embedding-torch", {})
    made = ("torchdiffeq", "x-transformers", "torchscale", "torch")
    gates = DataDependentAlibi(64, 4).to_forget_gates[0]
    with torch.no_grad():
        data = {
            "made": {name: version(name) for name in made},
            "torchdiffeq": one_step(),
            "x-transformers": {
                "gate_biases": gates.bias.tolist(),
                "cope": cope(),
            },
            "torchscale": powers(),
            "rotary-embedding-torch": rotary
            | {version("rotary-embedding-torch"): scores()},
        }
    HERE.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
