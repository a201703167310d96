"""Small character models for the reader's browser: train, quantize, write, read.

Each model is that of :mod:`posedu.book.experiments.characters` with one encoding, at
the learning rate that this experiment chose and with its first reported seed. A file
has one model: a script that sets ``posedu.models[encoding]``, which a page can load
from any folder. Weights are 8-bit integers with a scale for each row. This command
remakes the files in some ten minutes on one idle core::

    python -m posedu.book.experiments.live_models --out book/_static/models
"""

import argparse
import base64
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float32, Int8
from torch import Tensor

from posedu.book.experiments.characters import (
    CONDITIONS,
    KNOWN,
    MULTIPLES,
    Model,
    Settings,
    fit,
    test,
    test_windows,
    text_of,
)
from posedu.book.provenance import provenance
from posedu.torch import Learned

ENCODINGS = ("none", "sinusoidal", "learned", "alibi", "t5", "rope", "fox")
RATE, SEED = 0.03, 3
LARGEST = 127  # of the integers; −128 is not used
LEARNED = "trunk.input.table"  # name of the learned encoding's table


def quantize(
    weight: Float[Tensor, "rows columns"],
) -> tuple[Int8[np.ndarray, "rows columns"], Float32[np.ndarray, "rows"]]:
    """Return a matrix as 8-bit integers, and each row's scale.

    A weight is about its integer times the scale of its row; the error is at most half
    the scale. A row of zeros has the scale 1.
    """
    values = weight.detach().numpy().astype(np.float32)
    scales = np.abs(values).max(1) / np.float32(LARGEST)
    scales[scales == 0] = 1
    return np.rint(values / scales[:, None]).astype(np.int8), scales


def stored_weights(model: Model, settings: Settings) -> dict[str, Tensor]:
    """Return the weights of a trained model that its file has, by name.

    A table of learned positions has the rows of the training length alone: no step of
    training touches the later ones. Readers take zeros for these.
    """
    weights: dict[str, Tensor] = dict(model.named_parameters())
    if LEARNED in weights:
        weights[LEARNED] = weights[LEARNED][: settings.length]
    return weights


def packed(weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return vectors and matrices as JSON data: their shapes, and base64 of the rest.

    The data are the float32 scales of all rows, then all 8-bit integers, both in the
    order of the names. A vector is one row.
    """
    rows = [quantize(torch.atleast_2d(weight)) for weight in weights.values()]
    scales = np.concatenate([scale for _, scale in rows]).astype("<f4")
    integers = np.concatenate([integer.ravel() for integer, _ in rows])
    return {
        "shapes": {name: list(weight.shape) for name, weight in weights.items()},
        "data": base64.b64encode(scales.tobytes() + integers.tobytes()).decode(),
    }


def unpacked(content: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the weights in the ``content`` of a model's file, by name, in float32."""
    data, shapes = base64.b64decode(content["data"]), content["shapes"]
    counts = [1 if len(shape) == 1 else shape[0] for shape in shapes.values()]
    scales = np.frombuffer(data, "<f4", sum(counts))
    integers = np.frombuffer(data, np.int8, offset=scales.nbytes)
    weights, row, at = {}, 0, 0
    for (name, shape), count in zip(shapes.items(), counts, strict=True):
        size = math.prod(shape)
        rows = integers[at : at + size].reshape(count, -1)
        values = rows * scales[row : row + count, None]
        weights[name] = torch.from_numpy(values.reshape(shape))
        row, at = row + count, at + size
    return weights


def model_of(content: Mapping[str, Any]) -> Model:
    """Return the model in the ``content`` of a file, in evaluation mode."""
    settings = Settings(**content["settings"])
    with torch.random.fork_rng(devices=[]):
        model = Model(CONDITIONS[content["encoding"]], settings, SEED).eval()
    weights = unpacked(content)
    if isinstance(model.trunk.input, Learned):
        table = torch.zeros_like(model.trunk.input.table)
        table[: settings.length] = weights[LEARNED]
        weights[LEARNED] = table
    model.load_state_dict(weights)
    return model


def trained(encoding: str, settings: Settings) -> dict[str, Any]:
    """Train the model of one encoding; return the content of its file.

    Besides the weights, these are the settings, the learning rate, the mean training
    loss of the last tenth of the steps in bits, the provenance, the characters, and the
    bits per character of the quantized model at each test length, measured as
    :mod:`posedu.book.experiments.characters` does.
    """
    text = text_of(settings)
    with torch.random.fork_rng(devices=[]):
        model = Model(CONDITIONS[encoding], settings, SEED)
        loss = fit(model.train(), text, settings, RATE, SEED)
    content = {
        "encoding": encoding,
        "settings": vars(settings),
        "rate": RATE,
        "loss": loss,
        "provenance": provenance(torch.device("cpu"), SEED),
        "characters": KNOWN,
        **packed(stored_weights(model, settings)),
    }
    quantized, windows = model_of(content), test_windows(text, settings, SEED)
    lengths = [m * settings.length for m in MULTIPLES]
    asked = max(1, settings.length // 2)
    bits = {str(n): test(quantized, windows, n, asked)[0] for n in lengths}
    return {**content, "bits": bits}


def read(path: Path) -> dict[str, Any]:
    """Return the content of a model's file, which has the name of the encoding.

    Raises
    ------
    ValueError
        The file is not one that :func:`write` has written.
    """
    text = path.read_text(encoding="utf-8")
    start = _assignment(path.stem)
    if not (text.startswith(start) and text.endswith(";\n")):
        raise ValueError(f"{path} must be `{start}…;`, got {text[:40]!r}")
    return json.loads(text.removeprefix(start).removesuffix(";\n"))


def write(content: Mapping[str, Any], folder: Path) -> None:
    """Write the content of a model's file as a script into ``folder``."""
    encoding = content["encoding"]
    text = f"{_assignment(encoding)}{json.dumps(content, ensure_ascii=False)};\n"
    (folder / f"{encoding}.js").write_text(text, encoding="utf-8")


def _assignment(encoding: str) -> str:
    return f"posedu.models.{encoding} = "


def main(arguments: Sequence[str] | None = None) -> int:
    """Train and write the models that the ``arguments`` of the command name."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the files")
    parser.add_argument(
        "--encodings", nargs="+", choices=ENCODINGS, default=ENCODINGS, metavar="NAME"
    )
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    for encoding in given.encodings:
        content = trained(encoding, Settings())
        write(content, given.out)
        print(f"{encoding}: {content['bits']} bits per character", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
