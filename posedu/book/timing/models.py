"""Decoding and training of a small model with each encoding, and a plain loop's time.

The plain loop decodes without an encoding. ``python -m posedu.book.timing.models``
times decoding and training, and writes ``decoding-cpu.json`` and ``training-cpu.json``.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from posedu._command_line import whole_number
from posedu.book.provenance import file_label, keep_memory
from posedu.book.timing.clock import Run
from posedu.book.timing.results import Measurement, Timing, collect, compare
from posedu.torch import (
    T5,
    ALiBi,
    Encoding,
    FoX,
    KERPLELog,
    KVCache,
    RoPE,
    Transformer,
)
from posedu.torch._fixed_cache import FixedCache, slots_of

WIDTH, HEADS, KV_HEADS, LAYERS, D = 512, 8, 2, 4, 64
ENCODINGS: Mapping[str, Callable[[], Encoding | None]] = {
    "no encoding": lambda: None,
    "RoPE": lambda: RoPE(D, layout="half"),
    "ALiBi": lambda: ALiBi(HEADS, slopes="authors"),
    "T5": lambda: T5(HEADS, bidirectional=False),
    "KERPLE": lambda: KERPLELog(HEADS, scaling="paper"),
    "FoX": lambda: FoX(WIDTH, HEADS),
}
LLAMA = "transformers: Llama"
LOOP, NONE = "a loop with SDPA and a kept cache", "the same without an encoding"
COMPILED = ("no encoding", "RoPE", "ALiBi")  # decoded by compiled steps, too
CONTEXTS = (128, 2048, 8192)  # cached tokens
BATCHES = {512: 4, 2048: 1}  # sequences in a training step, by their length


class PlainLoop:
    """Decoding of one sequence without an encoding, as a plain loop over the layers.

    The loop consists of layer norms, SDPA, and keys and values kept in place. It checks
    nothing, and reserves memory for the keys and values of ``capacity`` tokens.
    """

    def __init__(self, capacity: int):
        model = Transformer(WIDTH, HEADS, LAYERS, kv_heads=KV_HEADS)
        self.blocks = model.eval().blocks
        shape = LAYERS, 2, 1, KV_HEADS, capacity, D
        self.cached = torch.randn(shape)

    def step(self, x: Tensor, count: int) -> Tensor:
        """Return the output for the token ``x`` ``[1, 1, width]``.

        ``count`` is the number of tokens before ``x``, whose keys and values are
        cached.
        """
        for module, (k, v) in zip(self.blocks, self.cached, strict=True):
            attention: Any = module.attention
            normalized = module.before_attention(x)
            q = attention.q(normalized).view(1, KV_HEADS, HEADS // KV_HEADS, D)
            k[:, :, count] = attention.k(normalized).view(1, KV_HEADS, D)
            v[:, :, count] = attention.v(normalized).view(1, KV_HEADS, D)
            seen = slice(count + 1)
            out = scaled_dot_product_attention(q, k[:, :, seen], v[:, :, seen])
            x = x + attention.o(out.reshape(1, 1, WIDTH))
            x = x + module.MLP(x)
        return x


def decoding_steps(context: int, room: int, with_llama: bool) -> dict[str, Run]:
    """Return functions that decode one token after ``context`` cached tokens, by name.

    There is one for each encoding and, if ``with_llama``, for transformers' Llama. Each
    call adds a token to the function's cache. The first function is the plain loop,
    which starts again after ``room`` tokens, because it is called more often than the
    others.
    """
    loop = PlainLoop(context + room)
    counts = cycle(range(context, context + room))
    steps: dict[str, Run] = {
        LOOP: lambda: loop.step(torch.randn(1, 1, WIDTH), next(counts))
    }
    for name, make in ENCODINGS.items():
        model = Transformer(
            *(WIDTH, HEADS, LAYERS), encoding=make(), kv_heads=KV_HEADS
        ).eval()
        steps[name] = _decode(model, _filled(model, context))
        if name in COMPILED:
            slots = [slots_of(c, context + room) for c in _filled(model, context)]
            steps[f"{name}, compiled"] = _decode_compiled(model, slots, context)
    if with_llama:
        steps[LLAMA] = _decode_llama(context)
    return steps


def _filled(model: Transformer, context: int) -> list[KVCache]:
    """Return the model's caches after ``context`` random tokens."""
    caches = model.caches()
    for part in torch.randn(1, context, WIDTH).split(512, 1):
        model(part, caches=caches)
    return caches


def _decode(model: Transformer, caches: list[KVCache]) -> Run:
    """Return a function that decodes a token after those in the caches."""
    return lambda: model(torch.randn(1, 1, WIDTH), caches=caches)


def _decode_compiled(
    model: Transformer, slots: list[dict[str, Tensor]], context: int
) -> Run:
    """Return a compiled function that decodes a token after ``context`` tokens.

    Shapes are fixed, as in :meth:`posedu.torch.language_model.LanguageModel.generate`
    with ``compiled=True``. ``slots`` are the tensors of each layer's cache, with room
    for the new tokens.
    """

    def step(x: Tensor, place: Tensor) -> Tensor:
        caches = [FixedCache(of_layer, place) for of_layer in slots]
        return model(x, place[None], caches=caches)

    compiled = torch.compile(step, fullgraph=True)
    places = cycle(range(context, slots[0]["k"].shape[2]))
    return lambda: compiled(torch.randn(1, 1, WIDTH), torch.tensor(next(places)))


def _decode_llama(context: int) -> Run:
    """Return a function that decodes a token with transformers' Llama and its cache.

    The cache has the keys and values of ``context`` random tokens. Llama's MLP has a
    gate, and a width with which it has as many weights as posedu's MLP.
    """
    from transformers import DynamicCache, LlamaConfig, LlamaModel

    config = LlamaConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        intermediate_size=2 * 4 * WIDTH // 3,
        vocab_size=1,
        bos_token_id=None,
        eos_token_id=None,
    )
    model, cache = LlamaModel(config).eval(), DynamicCache(config=config)
    for part in torch.randn(1, context, WIDTH).split(512, 1):
        model(inputs_embeds=part, past_key_values=cache, use_cache=True)
    return lambda: model(
        inputs_embeds=torch.randn(1, 1, WIDTH), past_key_values=cache, use_cache=True
    )


def training_steps(length: int) -> dict[str, Run]:
    """Return functions that compute the gradients of a model's weights, by name.

    There is a model for each encoding; ``length`` is the number of tokens of a
    sequence.
    """
    x = torch.randn(BATCHES.get(length, 1), length, WIDTH)

    def step_of(model: nn.Module) -> Run:
        parameters = [*model.parameters()]
        upstream = torch.randn_like(x)
        return lambda: torch.autograd.grad(model(x), parameters, upstream)

    return {
        name: step_of(Transformer(WIDTH, HEADS, LAYERS, encoding=make()))
        for name, make in ENCODINGS.items()
    }


def _count_weights() -> int:
    """Return the number of weights of the small timed model, without grouped queries.

    The model has as many key heads as query heads.
    """
    return sum(p.numel() for p in Transformer(WIDTH, HEADS, LAYERS).parameters())


def time_decoding(
    contexts: Sequence[int] = CONTEXTS,
    *,
    repeats: int = 24,
    seed: int = 0,
    save_to: str | Path | None = None,
) -> Timing:
    """Time a decoding step of each model over a step of the plain loop, on a CPU.

    Parameters
    ----------
    contexts
        Numbers of cached tokens before the first timed step.
    repeats
        Timed calls of each model; each follows an untimed one.
    seed
        Seed of weights and inputs.
    save_to
        File that the result is saved to after each context.
    """
    device = torch.device("cpu")
    is_found = find_spec("transformers") is not None
    libraries = ["transformers"] if is_found else []
    missing = {} if is_found else {"transformers": "not installed"}
    result = Timing.begin("decoding", device, seed, libraries, missing, repeats=repeats)

    @torch.no_grad()
    def measure(context: int, d: int, dtype: torch.dtype) -> Iterator[Measurement]:
        steps = decoding_steps(context, 2 * (repeats + 2), is_found)
        loop = steps.pop(LOOP)
        read = 4 * (_count_weights() + 2 * LAYERS * KV_HEADS * d * context)
        yield from compare(
            steps,
            loop,
            limit_name=LOOP,
            task="decode a token",
            length=context,
            d=d,
            dtype=dtype,
            device=device,
            repeats=repeats,
            bytes_moved=read,
        )

    cells = [(context, D, torch.float32) for context in contexts]
    return collect(result, measure, cells, save_to, keep=False)


def time_training(
    lengths: Sequence[int] = tuple(BATCHES),
    *,
    repeats: int = 5,
    seed: int = 0,
    save_to: str | Path | None = None,
) -> Timing:
    """Time the gradients of each model over a model's without an encoding, on a CPU.

    ``lengths`` are the lengths of the sequences, of which a step has four if they have
    512 tokens, else one. The other arguments have the same meaning as in
    :func:`time_decoding`.
    """
    device = torch.device("cpu")
    result = Timing.begin("training", device, seed, repeats=repeats)

    def measure(length: int, d: int, dtype: torch.dtype) -> Iterator[Measurement]:
        steps = training_steps(length)
        limit = steps["no encoding"]
        yield from compare(
            steps,
            limit,
            limit_name=NONE,
            task="training step",
            length=length,
            d=d,
            dtype=dtype,
            device=device,
            repeats=repeats,
            bytes_moved=3 * 4 * _count_weights(),  # read twice, gradients written
        )

    cells = [(length, D, torch.float32) for length in lengths]
    return collect(result, measure, cells, save_to, keep=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Time decoding and training of small models; print and save a table of each.

    ``arguments`` are the command's arguments, by default the process's own. Return the
    exit status: 130 after an interrupt, else 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m posedu.book.timing.models",
        description="Time decoding and training of a model with each encoding.",
    )
    size = whole_number(1)
    parser.add_argument("--contexts", type=size, nargs="+", default=[*CONTEXTS])
    parser.add_argument("--lengths", type=size, nargs="+", default=[*BATCHES])
    parser.add_argument("--repeats", type=size, default=24, help="of decoding")
    parser.add_argument("--training-repeats", type=size, default=5)
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--folder", default=".", help="folder of the result files")
    options = parser.parse_args(arguments)
    keep_memory()
    torch.set_num_threads(1)
    label, folder = file_label(torch.device("cpu")), Path(options.folder)
    for time, sizes, repeats, name in (
        (time_decoding, options.contexts, options.repeats, "decoding"),
        (time_training, options.lengths, options.training_repeats, "training"),
    ):
        path = folder / f"{name}-{label}.json"
        try:
            result = time(sizes, repeats=repeats, seed=options.seed, save_to=path)
        except (ValueError, OSError) as error:
            parser.error(str(error))
        print(f"{result}\nin {path}")
        if not result.complete:
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
