"""Write the outputs of flash-linear-attention's plain loops, for small random numbers.

It needs fla-core and einops, which are not among the requirements::

    PYTHONPATH=FOLDER:tests python tests/oracles/recurrent_fla.py FOLDER

where FOLDER has been filled by
``pip install --no-deps --target FOLDER fla-core einops``. The files ``naive.py`` run on
a CPU, in float32, without the rest of the package, which needs Triton. The result,
``tests/oracles/recurrent-fla.json``, holds the inputs and each function's output.
"""

import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path

import torch

from support import ROOT

OUT = ROOT / "tests/oracles/recurrent-fla.json"
TOKENS, HEADS, D, D_V, STEPS = 70, 2, 4, 3, 2  # more tokens than a chunk


def drawn():
    """Inputs as [batch, tokens, heads, …], multiples of 1/64; gates are logarithms."""
    generator = torch.Generator().manual_seed(0)

    def multiples(*shape, low=-48, high=49):
        shape = 1, *shape
        return torch.randint(low, high, shape, generator=generator) / 64

    steps = TOKENS * STEPS
    return {
        "q": multiples(TOKENS, HEADS, D),
        "k": multiples(steps, HEADS, D, low=-32, high=33),
        "v": multiples(steps, HEADS, D_V),
        "beta": multiples(steps, HEADS, low=1, high=100),
        "gate": -multiples(TOKENS, HEADS, low=1, high=49),
        "gates": -multiples(TOKENS, HEADS, D, low=1, high=49),
    }


def loaded(folder, name):
    """The module ``naive`` of one operation, without the package around it."""
    path = Path(folder) / f"fla/ops/{name}/naive.py"
    spec = importlib.util.spec_from_file_location(f"naive_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outputs(folder):
    of = drawn()
    q, gate, gates = of["q"], of["gate"], of["gates"]
    k, v, beta = (of[name][:, :TOKENS] for name in ("k", "v", "beta"))
    by_heads = (t.transpose(1, 2) for t in (q, k, v, beta))
    rule, gated, kda, gla, product, linear = (
        loaded(folder, name)
        for name in (
            *("delta_rule", "gated_delta_rule", "kda", "gla"),
            *("gated_delta_product", "linear_attn"),
        )
    )
    out = {
        "linear": linear.naive_recurrent_linear_attn(q, k, v),
        "gla": gla.naive_recurrent_gla(q, k, v, gates),
        "delta": rule.delta_rule_recurrence(*by_heads),
        "gated delta": gated.naive_recurrent_gated_delta_rule(q, k, v, beta, gate),
        "kda": kda.naive_recurrent_kda(q, k, v, gates, beta),
        "gated delta product": product.naive_recurrent_gated_delta_product(
            *(q, of["k"], of["v"], gate, of["beta"]),
            scale=D**-0.5,
            num_householder=STEPS,
        ),
    }
    found = {name: o for name, (o, _) in out.items()}
    return of, found | {"delta": found["delta"].transpose(1, 2)}


def main(folder):
    of, out = outputs(folder)
    version = importlib.metadata.version("fla-core")
    found = {
        "versions": {"fla-core": version, "torch": torch.__version__},
        "inputs": {name: t.tolist() for name, t in of.items()},
        "outputs": {
            name: [
                [[[float(f"{e:.9g}") for e in row] for row in m] for m in n] for n in t
            ]
            for name, t in ((name, t.tolist()) for name, t in out.items())
        },
    }
    OUT.write_text(json.dumps(found) + "\n", encoding="utf-8")
    print(OUT.relative_to(ROOT), *map(list, (t.shape for t in out.values())))


if __name__ == "__main__":
    main(*sys.argv[1:])
