"""Timing of attention with biases or relative vectors, by libraries and by posedu.

The forward of attention is timed without projections: q, k and v are given, ``[1,
heads, L, d]``, and all implementations have the same parameters. Products that compute
an encoding's own vectors are included: Inkling's r, the projected position vectors of
Transformer-XL and DeBERTa. A mask or a bias that a library makes once for all layers is
made beforehand and does not count in the library's peak memory. posedu makes everything
in every call.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from posedu._arguments import require_choice
from posedu.book.timing.clock import Run
from posedu.book.timing.peers import transformers, x_transformers
from posedu.book.timing.results import Measurement, Timing, collect, compare
from posedu.book.timing.timed_calls import compiled
from posedu.catalog import CATALOG
from posedu.catalog.records import Variant, variant
from posedu.crosscheck.common import parameters_of, to_numpy
from posedu.numpy import attention as reference
from posedu.torch import Encoding, attend
from posedu.torch.encoding import Tokens
from posedu.torch.routes import ROUTES, choose_route

QUERIES = 8  # rows of the result that enter its error
CHECKED = {
    "length": 1100,
    "d": 8,
    "heads": 3,
}  # longer than the reach of any encoding here
SAME = torch.finfo(torch.float32).eps ** 0.5  # half of the digits of float32

Core = Callable[[Any, Tokens], dict[str, Run]]


@dataclass(frozen=True)
class Match:
    """An encoding's configuration that libraries implement, and these libraries.

    ``variant`` is the configuration. ``libraries`` maps a library's name to a function
    that prepares the library's attention with the encoding's parameters. ``causal``
    says whether the libraries' attention is causal.
    """

    variant: Variant
    libraries: Mapping[str, Core]
    causal: bool = True


MATCHES = {
    "t5": Match(
        variant(bidirectional=False),
        {"transformers": transformers.t5, "x-transformers": x_transformers.t5},
    ),
    "alibi": Match(
        variant(slopes="authors", sides="causal"),
        {"transformers": transformers.bloom, "x-transformers": x_transformers.alibi},
    ),
    "shaw": Match(
        variant(past=64, future=8, module={"values": False}),
        {"transformers": transformers.wav2vec2_bert},
        causal=False,
    ),
    "inkling": Match(
        variant(divisor="width"),
        {
            "transformers": transformers.inkling,
            "x-transformers": x_transformers.inkling,
        },
    ),
    "transformer-xl": Match(
        variant(layout="half"), {"transformers": transformers.xlnet}, causal=False
    ),
    "deberta": Match(
        variant(rows="transformers", index="code", module={"span": 256}),
        {"transformers": transformers.deberta_v2},
        causal=False,
    ),
}
"""Matches by the name of the encoding's record."""


@torch.no_grad()
def draw(
    name: str,
    *,
    length: int,
    d: int,
    heads: int,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> tuple[Encoding, Tokens]:
    """Return an encoding module with random parameters, and tokens with random q, k, v.

    ``name`` is a key of ``MATCHES``, which has the encoding's configuration. q, k and v
    are ``[1, heads, length, d]``.

    Parameters and scaled inner products of queries and keys have standard deviation 1,
    except for a projection's weights, where it is one over the root of the projection's
    width.
    """
    match = MATCHES[name]
    encoding = CATALOG[name].make(match.variant, d=d, heads=heads, tokens=length)
    for parameter_name, parameter in encoding.named_parameters():
        is_projection = parameter_name.endswith("weight")
        std = parameter.shape[-1] ** -0.5 if is_projection else 1.0
        nn.init.normal_(parameter, std=std)
    encoding.to(device, dtype)
    q, k, v = torch.randn(3, 1, heads, length, d, device=device)
    q = q / (encoding.scale(d) * d**0.5)
    x = torch.randn(1, length, heads * d, device=device)
    positions = torch.arange(length, device=device)[None]
    return encoding, Tokens(
        *(t.to(dtype) for t in (q, k, v)),
        d=d,
        query_positions=positions,
        key_positions=positions,
        causal=match.causal,
        x=x.to(dtype) if encoding.needs_x else None,
        consecutive=True,
    )


def routes_of(encoding: Encoding) -> Iterator[str]:
    """Yield the names of the routes that support an encoding.

    A route is one of posedu's implementations of attention, such as ``"eager"``.
    """
    for route in ROUTES:
        try:
            yield choose_route(encoding, route)
        except ValueError:
            continue


def by_ours(encoding: Encoding, tokens: Tokens) -> dict[str, Run]:
    """Return functions that compute posedu's attention, by the names of routes.

    A route is an implementation of attention, such as ``"eager"``; all routes that
    support the encoding are included.
    """

    def run_with(route: str) -> Run:
        return lambda: attend(
            tokens.q,
            tokens.k,
            tokens.v,
            encoding,
            x=tokens.x,
            causal=tokens.causal,
            route=route,
        )

    return {route: run_with(route) for route in routes_of(encoding)}


def exact_rows(
    name: str, encoding: Encoding, tokens: Tokens
) -> tuple[np.ndarray, np.ndarray]:
    """Return indices of evenly spread queries, and their exact attention outputs.

    The outputs ``[heads, queries, d]`` are computed by the NumPy reference
    implementation of the encoding ``name``, with the parameters of the module
    ``encoding``.
    """
    entry, options = CATALOG[name], MATCHES[name].variant
    heads, length, d = tokens.q.shape[1:]
    sizes = entry.keywords(options, d=d, heads=heads)
    parameters = {n: to_numpy(p) for n, p in parameters_of(encoding).items()}
    hooks = entry.implementation("numpy")(**sizes, **parameters)
    q, k, v = (to_numpy(t[0]) for t in (tokens.q, tokens.k, tokens.v))
    rows, keys = np.linspace(0, length - 1, QUERIES, dtype=int), np.arange(length)
    selected = reference.Tokens(
        q=q[:, rows],
        k=k,
        v=v,
        d=d,
        query_positions=rows.astype(float),
        key_positions=keys.astype(float),
        mask=(keys <= rows[:, None]) | (not tokens.causal),
        x=None if tokens.x is None else to_numpy(tokens.x[0, rows]),
    )
    weights = hooks.weigh(reference.logits(selected, hooks), selected)
    return rows, hooks.mix(weights, v, selected)


def relative_error(out: Tensor, rows: np.ndarray, exact: np.ndarray) -> float:
    """Return the relative error (Euclidean norm) of attention outputs at ``rows``.

    ``out`` are the outputs of all queries, ``[1, heads, tokens, d]``; ``rows`` are
    indices of queries, ``exact`` their exact outputs.
    """
    error = to_numpy(out[0][:, rows]) - exact
    return float(np.linalg.norm(error) / np.linalg.norm(exact))


@torch.no_grad()
def refusals(
    name: str, libraries: Mapping[str, Core], device: str | torch.device = "cpu"
) -> dict[str, str]:
    """Return the reasons why libraries cannot be compared, by the library's name.

    A library cannot be compared if it is missing, or if it agrees with the reference
    implementation in fewer than half of the digits of float32; other libraries have no
    entry. ``name`` is the encoding's; ``libraries`` maps the libraries' names to
    functions that prepare their attention with the encoding's parameters.
    """
    encoding, tokens = draw(name, **CHECKED, device=device)
    rows, exact = exact_rows(name, encoding, tokens)
    reasons = {}
    for library, core in libraries.items():
        try:
            runs = core(encoding, tokens).values()
        except ImportError as error:
            reasons[library] = str(error)
            continue
        worst = np.max([relative_error(run(), rows, exact) for run in runs])
        if not worst <= SAME:  # also true of NaN
            reasons[library] = f"computes something else: relative error {worst:.0e}"
    return reasons


def time_attention(
    name: str,
    *,
    lengths: Sequence[int] = (1024,),
    head_dims: Sequence[int] = (64,),
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.bfloat16),
    device: str | torch.device = "cpu",
    heads: int = 8,
    repeats: int = 9,
    seed: int = 0,
    save_to: str | Path | None = None,
    keep: bool = False,
) -> Timing:
    """Time attention with an encoding, by posedu and by the libraries that have it.

    posedu's attention is timed by each of its routes (implementations of attention)
    that support the encoding. The task is ``causal`` or ``bidirectional``, as the
    libraries' models are. The limit, to whose time all are compared, is PyTorch's
    attention of the same q, k and v without a bias. The route ``"flex"`` is compiled;
    every other call is timed eager and compiled. The error is the difference from the
    reference implementation with the same parameters, for 8 evenly spread queries. A
    library that computes something else is recorded as missing, with its error.

    Parameters have the same meaning as in :func:`posedu.book.timing.time_encoding`.
    Everything that the process had compiled before is reset.

    Raises
    ------
    ValueError
        A name for which there is no library; otherwise as ``time_encoding``.
    """
    match = MATCHES[require_choice("name", name, tuple(MATCHES))]
    device = torch.device(device)
    missing = refusals(name, match.libraries, device)
    found = {n: core for n, core in match.libraries.items() if n not in missing}
    task = "causal" if match.causal else "bidirectional"
    settings = {"heads": heads, "repeats": repeats, "task": task}
    result = Timing.begin(name, device, seed, [*found], missing, **settings)

    def candidates(encoding: Encoding, tokens: Tokens) -> Iterator[tuple[str, Run]]:
        for library, core in {"posedu": by_ours, **found}.items():
            for route, run in core(encoding, tokens).items():
                if route != "flex":
                    yield f"{library}, {route}", run
                yield f"{library}, {route}, compiled", compiled(run, fullgraph=False)

    @torch.no_grad()
    def measure(length: int, d: int, dtype: torch.dtype) -> Iterator[Measurement]:
        from torch._dynamo.exc import TorchDynamoException  # takes half a second

        torch.compiler.reset()
        encoding, tokens = draw(
            name, length=length, d=d, heads=heads, dtype=dtype, device=device
        )
        q, k, v = tokens.q, tokens.k, tokens.v
        rows, exact = exact_rows(name, encoding, tokens)
        runs, errors = {}, {}
        for candidate, run in candidates(encoding, tokens):
            try:
                error = relative_error(run(), rows, exact)
            except TorchDynamoException as failure:
                reason, *_ = re.split(r"\n|\. ", str(failure), maxsplit=1)
                result.missing[candidate] = f"does not compile: {reason}"
                continue
            if error < 1:
                runs[candidate], errors[candidate] = run, error
            else:  # no better than zeros, or NaN
                where = f"{candidate}, L = {length}, {dtype}"
                result.missing[where] = f"relative error {error:.0e}"
        yield from compare(
            runs,
            lambda: scaled_dot_product_attention(q, k, v, is_causal=match.causal),
            limit_name="attention without encoding",
            task=task,
            length=length,
            d=d,
            dtype=dtype,
            device=device,
            repeats=repeats,
            bytes_moved=4 * q.nbytes,
            errors=errors,
        )

    cells = list(product(lengths, head_dims, dtypes))
    return collect(result, measure, cells, save_to, keep)
