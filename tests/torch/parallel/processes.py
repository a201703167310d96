"""Run as a program: processes that share a text; it prints what they found as JSON.

One process imports all, and forks the ranks, which is quick.
"""

import json
import multiprocessing
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from posedu.crosscheck.many_devices import rows
from posedu.torch import LanguageModel, RoPE
from posedu.torch.bias import ALiBi
from posedu.torch.parallel import FORMS, ORDERS, Processes, context_parallel
from posedu.torch.recurrent import GLA, RecurrentLayer

NAMES = ("rope", "t5", "fox-pro", "path", "selective-attention", "kda", "cape")


def every_cut():
    return [row.__dict__ for row in rows(Processes(), NAMES)]


def model():
    torch.manual_seed(0)
    mixer = RecurrentLayer(16, 2, encoding=GLA(16, 2, 8), convolution=3)
    encodings = [RoPE(8, layout="half"), ALiBi(2, slopes="authors"), None]
    mixers = [None, None, mixer]
    return LanguageModel(11, 16, 2, 3, encoding=encodings, mixers=mixers).double()


def fully_sharded():
    """Train a model whose parameters are sharded too; return its losses and alone."""
    text = torch.randint(11, (2, 17), generator=torch.Generator().manual_seed(3))
    ids, targets = text[:, :-1], text[:, 1:]

    def losses(model, own):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        found = []
        for _ in range(4):
            logits = model(own[0])
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), own[1].flatten()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    alone = losses(model(), (ids, targets))
    found = {"alone": alone}
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for order in ORDERS:
        for form in FORMS:
            sharded = model()
            for block in sharded.transformer.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(sharded, mesh=mesh)
            with context_parallel(mesh, order=order, form=form) as cut:
                own = losses(sharded, (cut.own(ids, 1), cut.own(targets, 1)))
                every = cut.ranks.gather(torch.tensor(own, dtype=torch.float64))
            found[f"{order}, {form}"] = torch.stack(every).mean(0).tolist()
    return found


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


def of_rank(job, rank, count, meeting, sender):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=meeting,
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=60),
    )
    found = globals()[job]()
    if rank == 0:
        sender.send(found)


def main(job, count):
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{Path(folder, 'meeting')}"
        processes = [
            context.Process(target=of_rank, args=(job, rank, count, meeting, sender))
            for rank in range(count)
        ]
        for process in processes:
            process.start()
        sender.close()
        found = receiver.recv()
        for process in processes:
            process.join()
    return found


if __name__ == "__main__":
    print(json.dumps({job: main(job, int(sys.argv[1])) for job in sys.argv[2:]}))
