"""Run as a program: processes that share a text; it prints what they found as JSON.

Each argument is a job and the number of its processes, as ``decoding:2``.

One process imports all, and forks the ranks, which is quick.
"""

import json
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import parallelize_module

from posedu.catalog import CATALOG
from posedu.crosscheck.cut_decoding import Decoding
from posedu.crosscheck.many_devices import rows
from posedu.crosscheck.processes import on_processes
from posedu.torch import LanguageModel, RoPE, attend
from posedu.torch._cut import in_force
from posedu.torch.bias import ALiBi
from posedu.torch.parallel import (
    FORMS,
    ORDERS,
    Processes,
    TextCut,
    context_parallel,
    sum_gradients,
    tensor_parallel_plan,
)
from posedu.torch.recurrent import GLA, RecurrentLayer

NAMES = ("rope", "t5", "fox-pro", "path", "selective-attention", "kda", "cape")
DECODED = "rope", "t5", "fox-pro", "kda", "sinusoidal"


JOINED: list[float] = []
_join = dist.init_process_group


def join(*args, **options):
    """Join the group, the first rank later than the others."""
    _join(*args, **options)
    if dist.get_rank() == 0:
        time.sleep(0.1)
    JOINED.append(time.monotonic())


dist.init_process_group = join


def every_cut():
    return [row.__dict__ for row in rows(Processes(), NAMES)]


def model():
    torch.manual_seed(0)
    mixer = RecurrentLayer(16, 2, encoding=GLA(16, 2, 8), convolution=3)
    encodings = [RoPE(8, layout="half"), ALiBi(2, slopes="authors"), None]
    mixers = [None, None, mixer]
    return LanguageModel(11, 16, 2, 3, encoding=encodings, mixers=mixers).double()


def fully_sharded(heads=1, plain=False):
    """Train a model whose parameters are sharded too; return its losses and alone.

    ``heads`` is the number of ranks that share the heads of each part of the text. With
    ``plain``, parameters are sharded by heads alone, and gradients are summed.
    """
    text = torch.randint(11, (2, 17), generator=torch.Generator().manual_seed(3))
    ids, targets = text[:, :-1], text[:, 1:]

    def losses(model, own, ranks=None):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        found = []
        for _ in range(4):
            logits = model(own[0])
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), own[1].flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            if ranks is not None:
                sum_gradients(model, ranks)
                for p in model.parameters():
                    p.grad /= ranks.size
            optimizer.step()
            found.append(loss.item())
        return found

    alone = losses(model(), (ids, targets))
    found = {"alone": alone}
    sizes = dist.get_world_size() // heads, heads
    both = init_device_mesh("cpu", sizes, mesh_dim_names=("text", "heads"))
    mesh = both["text"]
    for order in ORDERS:
        for form in FORMS:
            sharded = model()
            if heads > 1:
                plan = tensor_parallel_plan(sharded)
                parallelize_module(sharded, both["heads"], plan)
            for block in () if plain else sharded.transformer.blocks:
                fully_shard(block, mesh=mesh)
            if not plain:
                fully_shard(sharded, mesh=mesh)
            with context_parallel(mesh, order=order, form=form) as cut:
                parts = cut.own(ids, 1), cut.own(targets, 1)
                own = losses(sharded, parts, cut.ranks if plain else None)
                every = cut.ranks.gather(torch.tensor(own, dtype=torch.float64))
            found[f"{order}, {form}"] = torch.stack(every).mean(0).tolist()
    return found


def heads_too():
    return fully_sharded(heads=2)


def heads_alone():
    return fully_sharded(heads=2, plain=True)


def a_rank_ends():
    """The last rank ends; the others say so, within the time-out."""
    if dist.get_rank() == dist.get_world_size() - 1:
        return None
    try:
        with context_parallel() as cut:
            cut.whole(torch.ones(1, 4), 1)
    except RuntimeError as error:
        return str(error)
    return "nothing was raised"


def all_have_joined():
    """Return whether every rank began after the last one had joined the group."""
    began = torch.tensor(time.monotonic(), dtype=torch.float64)
    ranks = Processes()
    last = max(ranks.gather(torch.tensor(JOINED[-1], dtype=torch.float64)))
    return bool(min(ranks.gather(began)) >= last)


def decoding():
    """Return the largest error over ranks, for each encoding."""
    found = {}
    for name in DECODED:
        entry = CATALOG[name]
        for order in ORDERS:
            cut = TextCut(Processes(), order=order, form="all-gather")
            trial = Decoding(entry, entry.variants[0], 16, padded=True)
            error = torch.tensor(trial.on_rank(cut))
            found[f"{name}, {order}"] = float(max(cut.ranks.gather(error)))
    return found


def generated():
    """Return new tokens of a model on all ranks, and those of one device."""
    ids = torch.randint(11, (2, 8), generator=torch.Generator().manual_seed(3))

    def continued(ids):
        draws = torch.Generator().manual_seed(5)
        return model().generate(ids, 6, temperature=1.0, generator=draws)[:, -6:]

    alone = continued(ids)
    with context_parallel() as cut:
        own = continued(cut.own(ids, 1))
        return [t.tolist() for t in (alone, *cut.ranks.gather(own))]


def torch_s_ring():
    """Return the largest gaps between our ring with RoPE and PyTorch's private one.

    That one takes rotated queries and keys, and here the kernel of the CPU.
    """
    from torch.distributed.tensor.experimental._context_parallel import _attention

    aten = torch.ops.aten
    kernel = aten._scaled_dot_product_flash_attention_for_cpu
    kernel_backward = aten._scaled_dot_product_flash_attention_for_cpu_backward

    def forward(q, k, v, is_causal=False, **options):
        return kernel(q, k, v, 0.0, is_causal)

    def backward(grad_out, query, key, value, out, logsumexp, is_causal, **options):
        given = grad_out, query, key, value, out, logsumexp
        return kernel_backward(*given, 0.0, is_causal)

    group = dist.group.WORLD
    options = _attention._cp_options
    options.convert_to_f32 = False  # else float64 has the errors of float32
    generator = torch.Generator().manual_seed(7)
    whole = torch.randn(4, 1, 2, 32, 8, generator=generator, dtype=torch.float64)
    rope, gaps = RoPE(8, layout="half"), {}
    for order in ORDERS:
        options.enable_load_balance = order == "zigzag"
        cut = TextCut(Processes(), order=order, form="ring")
        q, k, v, upward = (cut.own(t, 2) for t in whole)
        with in_force(cut):
            given = [t.clone().requires_grad_() for t in (q, k, v)]
            out = attend(*given, rope, route="sdpa")
            ours = out.detach(), *torch.autograd.grad(out, given, upward)
        places = cut.places(q.shape[2])
        q, k = rope.rotate(q, k, places)
        out, lse = _attention._templated_ring_attention(
            group, 2, forward, q, k, v, is_causal=True
        )[:2]
        slopes = _attention._templated_ring_attention_backward(
            *(group, 2, backward, upward, "grad_out", q, k, v, out, lse),
            is_causal=True,
        )
        of_q, of_k = rope.rotate(*slopes[:2], -places)
        theirs = out, of_q, of_k, slopes[2]
        gap = max((a - b).abs().max() for a, b in zip(ours, theirs, strict=True))
        gaps[order] = float(max(cut.ranks.gather(gap)))
    return gaps


if __name__ == "__main__":
    wait, found = timedelta(seconds=60), {}
    for argument in sys.argv[1:]:
        job, count = argument.split(":")
        found[job] = on_processes(int(count), globals()[job], wait)
    print(json.dumps(found))
