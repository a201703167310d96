"""A fake GPU: code runs as with CUDA, and its tensors are on the CPU."""

import time

import torch
from torch.nn.attention import flex_attention
from torch.overrides import TorchFunctionMode, _pop_mode_temporarily

from support.compiling import compiled

NAME = "Fake GPU"
FAKES = {
    "is_available": lambda: True,
    "is_bf16_supported": lambda **options: True,
    "get_device_name": lambda device: NAME,
    "reset_peak_memory_stats": lambda device: None,
    "memory_allocated": lambda device: 0,
    "max_memory_allocated": lambda device: 0,
    "get_rng_state": torch.get_rng_state,  # the compiler keeps it and puts it back
    "set_rng_state": torch.set_rng_state,
}


class Event:
    """A time of the CPU's clock, in place of one in a stream of the GPU."""

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.seconds = time.perf_counter()

    def synchronize(self):
        assert self.seconds

    def elapsed_time(self, end):
        return 1e3 * (end.seconds - self.seconds)


def on_cpu(argument):
    """Return the CPU in place of CUDA, and any other argument as it is."""
    is_device = isinstance(argument, torch.device | str)
    return "cpu" if is_device and str(argument).startswith("cuda") else argument


class OnCPU(TorchFunctionMode):
    """A mode that makes the tensors of CUDA on the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.device:  # its type stays CUDA
            return function(*args, **kwargs or {})
        named = {name: on_cpu(x) for name, x in (kwargs or {}).items()}
        return function(*map(on_cpu, args), **named)


def compiled_on_cpu(run, **options):
    """Compile a function whose inputs are on the CPU: the compiler traces no mode."""
    on_cpu = compiled(run, **options)

    def without_mode(*given, **named):
        with _pop_mode_temporarily():
            return on_cpu(*given, **named)

    return without_mode


def fake_cuda(monkeypatch):
    """Replace CUDA's functions, and the compiler's backend; return the mode to run in.

    Code that is given ``torch.device("cuda")`` takes the branches of a GPU.
    """
    for name, fake in FAKES.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch, "compile", compiled_on_cpu)
    # FlexAttention refuses gradients on a CPU, where its eager code has them.
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *tensors: None)
    return OnCPU()
