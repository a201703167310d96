"""Safetensors files of bfloat16 tensors, written and read without a library."""

import json

import torch


def written(path, tensors, **changes):
    """Write a safetensors file of bf16 tensors."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
            **changes.get(name, {}),
        }
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def read(path):
    """The tensors and the header of a safetensors file."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    tensors = {}
    for name, of in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + n for n in of["data_offsets"])
            flat = torch.frombuffer(bytearray(raw[begin:end]), dtype=torch.bfloat16)
            tensors[name] = flat.view(of["shape"])
    return tensors, header
