"""Pictures of one set of queries and keys under each encoding of the catalog.

A share is an attention weight times the number of keys that the query may attend to: an
even share is 1. All encodings get the same 32 tokens and the same projections. With
independent queries and keys the mean score would be 0 at every distance, also after a
rotation; therefore the tokens have a part in common, and the two projections correlate.
"""

import base64
import html
import struct
import zlib
from functools import cache, partial

import matplotlib as mpl
import numpy as np
import torch

from posedu.book.figures import DIVERGING
from posedu.catalog import CATALOG
from posedu.crosscheck.common import parameters_of, points_of, to_numpy
from posedu.numpy.absolute import embed_sinusoidal
from posedu.numpy.attention import Hooks, causal_mask, steps

TOKENS = 32
HEADS = 2  # of which the first is shown
D = 16  # or the next multiple of the number that an encoding's head dimension needs
SEED = 0
OWN = 0.4  # deviation of a token's own part; that of the common part is 1
ALIKE = 0.8  # correlation of the entries of query and key projection
DOUBLINGS = 2  # the color scale ends at 2 ** -2 and at 2 ** 2 times an even share
STEPS = 8  # colors between an even share and either end of the scale
WIDTH, HEIGHT, TOP = 160, 80, 4.0  # of the curve; shares above TOP are drawn at TOP
PARTS_UNSEEN = {"values", "output", "mix"}  # hooks that attention weights do not show
WITHOUT_SOFTMAX = {"log-linear", "retention"}
POINTS = {
    2: "The tokens are points of a grid of 4 rows and 8 columns, row by row.",
    3: "The tokens are patches of 2 frames of 4 × 4 patches, one after the other.",
    8: "The positions are poses of a camera that moves and rotates.",
    "algebraic": "The tokens are nodes of a tree: so many steps down its first branch "
    "as the row of a grid of 4 rows and 8 columns, then down its second as the column.",
    "integrated": "The tokens are points of a grid of 4 rows and 8 columns by rows, "
    "and each point has the deviation 1/4 on both axes.",
}


def can_be_drawn(encoding):
    """Return whether an encoding takes given queries and keys and makes shares of them.

    A block makes queries and keys itself. Attention without a softmax has weights that
    may be negative and need not sum to 1.
    """
    has_softmax = encoding.name not in WITHOUT_SOFTMAX
    return encoding.kind != "block" and encoding.family != "recurrent" and has_softmax


@cache
def shares(name):
    """Return the share of every (query, key) pair under an encoding, ``[32, 32]``.

    The encoding has its first configuration of the catalog, and its trained parameters
    are random. A share is an attention weight times the number of keys that the query
    may attend to; later keys have the share 0. The head is the first, and the layer is
    the first as well, except for an encoding that changes positions by layer: there it
    is the second, with equal queries and keys.
    """
    encoding = CATALOG[name]
    hooks = _hooks(encoding)
    rng = np.random.default_rng(SEED)
    d = _d(encoding)
    width = HEADS * d
    x = rng.normal(size=width) + OWN * rng.normal(size=(TOKENS, width))
    w_q, w_v, own = rng.normal(size=(3, HEADS, d, width)) / np.sqrt(width)
    w_k = ALIKE * w_q + np.sqrt(1 - ALIKE**2) * own

    positions = hooks.locate(_positions(encoding), x)
    x = hooks.enter(hooks.embed(x, positions), positions)
    q, k, v = (np.einsum("hdm,im->hid", w, x) for w in (w_q, w_k, w_v))
    attention = partial(steps, q, k, v, hooks, x=x, mask=causal_mask(TOKENS))
    found = attention(positions=positions)
    if encoding.kind == "layers":
        found = attention(positions=hooks.update(found.weights, found.tokens, x))
    return found.weights[0] * np.arange(1, TOKENS + 1)[:, None]


def _hooks(encoding):
    """Return an encoding's NumPy hooks, the functions by which it acts on attention.

    The configuration is the first of the catalog's record. Trained parameters are drawn
    from a normal distribution, whose deviation for a matrix is 1 / √columns.
    """
    variant = encoding.variants[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        module = encoding.make(variant, d=_d(encoding), heads=HEADS).double()
        with torch.no_grad():
            for p in module.parameters():
                if p.requires_grad:
                    deviation = p.shape[-1] ** -0.5 if p.ndim > 1 else 1.0
                    p.copy_(deviation * torch.randn_like(p))
        drawn = module.draw(1, TOKENS) if encoding.kind == "positions" else {}
    keywords = encoding.keywords(variant, d=_d(encoding), heads=HEADS)
    keywords |= {n: to_numpy(p) for n, p in parameters_of(module).items()}
    keywords |= {n: t.numpy() for n, t in drawn.items()}
    implementation = encoding.implementation("numpy")
    if encoding.kind in ("hooks", "layers"):
        return implementation(**keywords)
    encode = partial(implementation, **keywords)
    if encoding.kind == "positions":
        return Hooks(
            locate=lambda positions, x: encode(positions)[0],
            embed=partial(embed_sinusoidal, layout="interleaved"),
        )
    if "rotate" in encoding.hooks:
        return Hooks(rotate=lambda q, k, at: (encode(q, at), encode(k, at)))
    return Hooks(**{encoding.hooks[0]: encode})


def _d(encoding):
    """Return the head dimension with which an encoding is drawn."""
    unit = encoding.divisor(encoding.variants[0])
    return D if encoding.any_wider else -(-D // unit) * unit


def _positions(encoding):
    """Return the positions of the 32 tokens, which ``POINTS`` describes for points."""
    tokens = np.arange(TOKENS)
    row, column = np.divmod(tokens, 8)
    if encoding.name == "algebraic":
        return np.stack([row, 0 * row, 0 * row, column], axis=-1)
    if encoding.name == "integrated":
        return np.stack([row, column, 0 * row + 0.25, 0 * row + 0.25], axis=-1)
    if encoding.axes is None:
        return tokens
    if encoding.axes == 2:
        return np.stack([row, column], axis=-1)
    if encoding.axes == 3:
        return np.stack([tokens // 16, tokens // 4 % 4, tokens % 4], axis=-1)
    return points_of(np.linspace(0, encoding.reach, TOKENS), encoding.axes)


def note(encoding):
    """Return what a reader must know of an encoding's picture besides the common text.

    ``encoding`` is the catalog record. The result is a text of sentences, which may be
    empty.
    """
    sentences = []
    if encoding.learned:
        sentences.append("Parameters that training would set are random here.")
    if encoding.kind == "positions":
        sentences.append("Positions are sampled once, and sinusoids encode them.")
    if encoding.kind == "layers":
        sentences.append("The layer is the second: the first changes the positions.")
    if encoding.axes is not None:
        own = encoding.name if encoding.name in POINTS else encoding.axes
        sentences.append(POINTS[own])
    if PARTS_UNSEEN & {*encoding.hooks}:
        sentences.append("What it does besides changing weights is not visible here.")
    return " ".join(sentences)


def mean_shares(table):
    """Return the mean share of keys at each distance 0 … 31 before their query."""
    return np.array([np.diagonal(table, -t).mean() for t in range(len(table))])


def heat_map(table):
    """Return a PNG of shares as a data address: a pixel for each query and key.

    Queries are rows, from above. Red is more than an even share, blue is less, and
    later keys are transparent.
    """
    with np.errstate(divide="ignore"):
        doublings = np.log2(np.clip(table, 2.0**-DOUBLINGS, 2.0**DOUBLINGS))
    levels = np.rint(doublings * STEPS / DOUBLINGS).astype(int) + STEPS + 1
    levels = np.where(causal_mask(len(table)), levels, 0)
    png = base64.b64encode(_png(levels.astype(np.uint8), colors())).decode("ascii")
    return f"data:image/png;base64,{png}"


def colors():
    """Return the colors of the scale of shares from least to most, uint8 [17, 3]."""
    scale = mpl.colormaps[DIVERGING](np.linspace(0, 1, 2 * STEPS + 1))
    return np.rint(255 * scale[:, :3]).astype(np.uint8)


def _png(levels, palette):
    """Return a PNG file with an index into a palette for each pixel.

    Index 0 is transparent; index n is the color number n − 1 of ``palette``. Since a
    page has many such pictures, this file has nothing but what PNG requires.
    """

    def chunk(kind, data):
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    rows, columns = levels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in levels)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
            chunk(b"PLTE", b"\0\0\0" + palette.tobytes()),
            chunk(b"tRNS", b"\0"),
            chunk(b"IDAT", zlib.compress(lines, 9)),
            chunk(b"IEND", b""),
        ]
    )


def curve(table):
    """Return an SVG of the mean share by distance, with that of no encoding in gray."""
    label = html.escape(f"Mean share by distance: {_means_in_words(table)}.")
    return (
        f'<svg role="img" aria-label="{label}" viewBox="-14 -6 182 104">'
        f'<path class="posedu-axes" d="M0 0V{HEIGHT}H{WIDTH}"/>'
        f'<text x="-4" y="{_y(1) + 3}">1</text><text x="-4" y="{_y(TOP) + 3}">4</text>'
        f'<text x="0" y="92">0</text><text x="{WIDTH}" y="92">{TOKENS - 1}</text>'
        f'<text class="posedu-axis" x="{WIDTH / 2:g}" y="92">distance</text>'
        '<text class="posedu-axis" transform="translate(-5 29) rotate(-90)">mean share'
        "</text>"
        f'<polyline class="posedu-none" points="{_points(shares("nope"))}"/>'
        f'<polyline points="{_points(table)}"/></svg>'
    )


def _points(table):
    step = WIDTH / (TOKENS - 1)
    return " ".join(
        f"{step * t:.0f},{_y(share):g}" for t, share in enumerate(mean_shares(table))
    )


def _y(share):
    return round(HEIGHT * (1 - min(float(share), TOP) / TOP), 1)


def alternative_text(title, table):
    """Return what is seen in the heat map of an encoding with that ``title``."""
    allowed = np.where(causal_mask(TOKENS), table, 0.0)
    more = (allowed > 1).sum() / causal_mask(TOKENS).sum()
    query, key = np.unravel_index(allowed.argmax(), allowed.shape)
    return (
        f"Shares of 32 queries and keys under {title}: {more:.0%} of the pairs have "
        f"more than an even share; the most, {allowed.max():.1f} times, is that of "
        f"query {query} and key {key}"
    )


def _means_in_words(table):
    """Return the mean share of a query's own token and of near and far keys as text."""
    means = mean_shares(table)
    return (
        f"{means[0]:.1f} for a query's own token, {means[1:8].mean():.1f} at distances "
        f"1 to 7, {means[8:24].mean():.1f} at 8 to 23"
    )
