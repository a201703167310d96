"""Reference solution of the project on a kernel with a score_mod."""

import math

import torch

from posedu.book.projects.records import Rubric


def rotate(x, positions):
    """Rotate by RoPE in the half layout; angles are float64, as cosines are made."""
    d = x.shape[-1]
    exponents = -torch.arange(0, d, 2, dtype=torch.float64) / d
    angles = positions.double()[:, None] * 10000**exponents
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def attend(q, k, v, score_mod, tile=128):
    """Compute causal attention in tiles by an online softmax."""
    batch, heads, length, d = q.shape
    q = q / math.sqrt(d)
    b = torch.arange(batch)[:, None, None, None]
    h = torch.arange(heads)[:, None, None]
    outputs = []
    for first in range(0, length, tile):
        rows = slice(first, min(first + tile, length))
        i = torch.arange(rows.start, rows.stop)[:, None]
        maximum = q.new_full((batch, heads, len(i), 1), -math.inf)
        total = torch.zeros_like(maximum)
        out = v.new_zeros(batch, heads, len(i), v.shape[-1])
        for start in range(0, rows.stop, tile):
            columns = slice(start, min(start + tile, rows.stop))
            j = torch.arange(columns.start, columns.stop)
            z = score_mod(q[:, :, rows] @ k[:, :, columns].mT, b, h, i, j)
            if columns.stop > rows.start + 1:
                z = z.masked_fill(j > i, -math.inf)
            larger = torch.maximum(maximum, z.amax(-1, keepdim=True))
            shift = larger.masked_fill(larger == -math.inf, 0.0)
            weights, correction = (z - shift).exp(), (maximum - shift).exp()
            total = correction * total + weights.sum(-1, keepdim=True)
            out = correction * out + weights @ v[:, :, columns]
            maximum = larger
        outputs.append(out / total)
    return torch.cat(outputs, 2)


def attend_at_once(q, k, v, score_mod):
    """Compute causal attention with all L × L scores."""
    batch, heads, length, d = q.shape
    b = torch.arange(batch)[:, None, None, None]
    h = torch.arange(heads)[:, None, None]
    i, j = torch.arange(length)[:, None], torch.arange(length)
    z = score_mod(q @ k.mT / math.sqrt(d), b, h, i, j)
    return z.masked_fill(j > i, -math.inf).softmax(-1) @ v


def attend_with_empty_tiles(q, k, v, score_mod, tile=256):
    """Compute attention in tiles, not prepared for rows in which all keys are hidden."""
    batch, heads, length, d = q.shape
    b = torch.arange(batch)[:, None, None, None]
    h = torch.arange(heads)[:, None, None]
    outputs = []
    for first in range(0, length, tile):
        i = torch.arange(first, min(first + tile, length))[:, None]
        maximum, total, out = -math.inf, 0.0, 0.0
        for start in range(0, len(i) + first, tile):
            j = torch.arange(start, min(start + tile, length))
            z = q[:, :, i[:, 0]] @ k[:, :, j].mT / math.sqrt(d)
            z = score_mod(z, b, h, i, j).masked_fill(j > i, -math.inf)
            larger = z.amax(-1, keepdim=True).clamp(min=maximum)
            weights, correction = (z - larger).exp(), (maximum - larger).exp()
            total = correction * total + weights.sum(-1, keepdim=True)
            out = correction * out + weights @ v[:, :, j]
            maximum = larger
        outputs.append(out / total)
    return torch.cat(outputs, 2)


def attend_without_correction(q, k, v, score_mod, tile=256):
    """Compute attention in tiles; what is summed keeps the maximum of its own tile."""
    batch, heads, length, d = q.shape
    b = torch.arange(batch)[:, None, None, None]
    h = torch.arange(heads)[:, None, None]
    outputs = []
    for first in range(0, length, tile):
        i = torch.arange(first, min(first + tile, length))[:, None]
        total, out = 0.0, 0.0
        for start in range(0, len(i) + first, tile):
            j = torch.arange(start, min(start + tile, length))
            z = q[:, :, i[:, 0]] @ k[:, :, j].mT / math.sqrt(d)
            z = score_mod(z, b, h, i, j).masked_fill(j > i, -math.inf)
            largest = z.amax(-1, keepdim=True)
            shift = largest.masked_fill(largest == -math.inf, 0.0)
            weights = (z - shift).exp()
            total = total + weights.sum(-1, keepdim=True)
            out = out + weights @ v[:, :, j]
        outputs.append(out / total)
    return torch.cat(outputs, 2)


def attend_without_maximum(q, k, v, score_mod, tile=256):
    """Compute attention in tiles; no maximum is subtracted before exp."""
    batch, heads, length, d = q.shape
    b = torch.arange(batch)[:, None, None, None]
    h = torch.arange(heads)[:, None, None]
    outputs = []
    for first in range(0, length, tile):
        i = torch.arange(first, min(first + tile, length))[:, None]
        total, out = 0.0, 0.0
        for start in range(0, len(i) + first, tile):
            j = torch.arange(start, min(start + tile, length))
            z = q[:, :, i[:, 0]] @ k[:, :, j].mT / math.sqrt(d)
            weights = score_mod(z, b, h, i, j).masked_fill(j > i, -math.inf).exp()
            total = total + weights.sum(-1, keepdim=True)
            out = out + weights @ v[:, :, j]
        outputs.append(out / total)
    return torch.cat(outputs, 2)


ANSWERS = (rotate, attend)
INSUFFICIENT = {
    "at-once": (rotate, attend_at_once),
    "empty-tiles": (rotate, attend_with_empty_tiles),
    "no-correction": (rotate, attend_without_correction),
    "no-maximum": (rotate, attend_without_maximum),
}
RUBRIC = Rubric(
    full=r"""
All goals are reached by tiles of the learner's own, without the library's attention, PyTorch's kernel or FlexAttention in their place: read the code, the measurement cannot tell.
Old sums and outputs are multiplied by $e^{m - m'}$ when the maximum grows to $m'$; as long as all keys were hidden, a finite number stands for $m = -\infty$ in the exponents, for values and gradients alike.
Tiles above the diagonal are not computed, and only those on it are masked.
The write-up proves by induction that $o / s$ is the softmax over the keys so far; it counts passes over the matrix as bytes, names the fresh memory that each matrix needs, and explains the ratio to PyTorch's kernel, which has no `score_mod` and fewer passes.
It says that autograd keeps all tiles, and that $m + \log s$ would suffice to compute them again.
""",
    partial=r"""
Outputs are right, and one goal is missed: NaN for windows and documents, whose tiles may be hidden as a whole; all tiles are computed, so that “scores” is 1; angles are rounded to float32 before the cosine, which only far positions show; no maximum is subtracted, which only large logits show; or `score_mod` gets the places within a tile in place of those in the text.
NaN may have been replaced by 0 afterwards, which saves the output and not the gradient.
Or a few queries are normalized with all their keys at once, which reaches the goals, and the write-up does not prove the update.
The write-up states the update and does not prove it, and explains the gain in time by “less memory” without a count, or by the skipped half alone, which explains a factor of 2.
""",
    none=r"""
The matrix of all logits is made, or the formula is called through another function.
Maxima of tiles are not reconciled: each tile has a softmax of its own, and the outputs are added or averaged, right for one tile only.
A `score_mod` is recognized by its name, or its bias is computed in place of calling it.
The write-up says that tiles are faster because of the cache and gives no number; it takes RoPE for a `score_mod`.
""",
)
