"""Multi-head latent attention: keys and values made of a small cached latent vector."""

import numpy as np
from jaxtyping import Float

from posedu._arguments import Layout, require_dimension
from posedu.numpy._arrays import Positions, require_floats
from posedu.numpy.attention import Hooks, attend
from posedu.numpy.rotary.rope import rope

Array = np.ndarray


def mla(
    x: Float[Array, "tokens d_model"],
    positions: Positions | None = None,
    *,
    heads: int,
    layout: Layout,
    q_weight: Float[Array, "q_features q_in"],
    kv_down_weight: Float[Array, "latent_and_rotary d_model"],
    k_up_weight: Float[Array, "features latent"],
    v_up_weight: Float[Array, "values latent"],
    o_weight: Float[Array, "d_model values"],
    q_down_weight: Float[Array, "q_latent d_model"] | None = None,
    q_gain: Float[Array, "q_latent"] | None = None,
    kv_gain: Float[Array, "latent"] | None = None,
    base: float = 10000.0,
) -> Float[Array, "tokens d_model"]:
    """Output of causal multi-head latent attention with RoPE, from a layer's input.

    arXiv 2405.04434 §2.1. Keys and values are made from a latent vector of each token;
    RoPE rotates r more features of each query, and a key of r features that all heads
    share (decoupled RoPE). Optional arrays may be ``None``. Equation ``def-cache-mla``.

    Parameters
    ----------
    x
        Input vectors, one for each token, any float dtype; computed in float64.
    positions
        Integers or finite reals, ``[tokens]``. Default 0, 1, 2, …
    heads
        Number of heads. Each has as many features without RoPE as ``k_up_weight`` has
        rows for a head, and r features with RoPE, where r is the number of rows of
        ``kv_down_weight`` beyond the latent ones.
    layout, base
        See :func:`posedu.numpy.rotary.rope`.
    q_weight
        For each head the rows for features without RoPE, then r rows for features with
        RoPE. The weight applies to x, or with ``q_down_weight`` to the query's latent
        vector.
    kv_down_weight
        Rows that make the latent vector, then r rows that make the shared key. Weights
        are ``[out, in]`` as in PyTorch.
    q_gain, kv_gain
        Gains of an RMS norm of the latent vectors, ε = 1e−6.

    Raises
    ------
    TypeError, ValueError
        Arrays that hold no floats, shapes that do not match, an odd number of features
        for RoPE, unknown ``layout``.
    """
    arrays = {
        name: require_floats(name, array)
        for name, array in locals().items()
        if name in _ARRAYS or (name in _OPTIONAL and array is not None)
    }
    r, d = _require_shapes(arrays, require_dimension("heads", heads, 1))
    x = arrays["x"]

    down = x @ arrays["kv_down_weight"].T
    latent, shared = down[:, :-r], down[:, -r:]
    if kv_gain is not None:
        latent = rms_norm(latent, arrays["kv_gain"])
    source = x
    if q_down_weight is not None:
        source = x @ arrays["q_down_weight"].T
        if q_gain is not None:
            source = rms_norm(source, arrays["q_gain"])

    def by_head(features: Array) -> Array:
        own = features.shape[1] // heads
        return np.moveaxis(features.reshape(len(x), heads, own), 1, 0)

    q = by_head(source @ arrays["q_weight"].T)
    k = by_head(latent @ arrays["k_up_weight"].T)
    v = by_head(latent @ arrays["v_up_weight"].T)
    k = np.concatenate((k, np.broadcast_to(shared, (heads, *shared.shape))), axis=-1)

    def rotate(q: Array, k: Array, positions: Array) -> tuple[Array, Array]:
        q, k = (
            np.concatenate(
                (t[..., :d], rope(t[..., d:], positions, layout=layout, base=base)),
                axis=-1,
            )
            for t in (q, k)
        )
        return q, k

    out = attend(q, k, v, Hooks(rotate=rotate), positions=positions)
    out = np.moveaxis(out, 0, 1).reshape(len(x), len(arrays["v_up_weight"]))
    return out @ arrays["o_weight"].T


_ARRAYS = (
    *("x", "q_weight", "kv_down_weight", "k_up_weight", "v_up_weight", "o_weight"),
)
_OPTIONAL = "q_down_weight", "q_gain", "kv_gain"


def rms_norm(
    x: Float[Array, "tokens n"], gain: Float[Array, "n"], *, eps: float = 1e-6
) -> Float[Array, "tokens n"]:
    """RMS norm: divide each vector by its root mean square, multiply by the gains.

    ``gain`` has a factor for each feature; ``eps`` is added to the mean square.
    """
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * gain


def _require_shapes(given: dict[str, Array], heads: int) -> tuple[int, int]:
    """Return a head's numbers of features with RoPE and without RoPE, in this order.

    Raise unless all shapes fit. ``given`` holds the arrays of :func:`mla` by their
    names, ``heads`` is the number of heads.
    """
    for name, array in given.items():
        if array.ndim != (1 if name.endswith("gain") else 2):
            axes = "[n]" if name.endswith("gain") else "[out, in]"
            axes = "[tokens, d_model]" if name == "x" else axes
            raise ValueError(f"{name} must be {axes}, got shape {list(array.shape)}")
    if "q_gain" in given and "q_down_weight" not in given:
        raise ValueError("q_gain is for the query's latent vector: give q_down_weight")
    d_model = given["x"].shape[1]
    rows, latent = given["k_up_weight"].shape
    r = require_dimension("rotary", len(given["kv_down_weight"]) - latent)
    if rows % heads or len(given["v_up_weight"]) % heads or not rows * latent:
        raise ValueError(
            f"k_up_weight and v_up_weight must have rows for {heads} heads and a "
            f"latent vector, got shapes {[rows, latent]} and "
            f"{list(given['v_up_weight'].shape)}"
        )
    source = len(given["q_down_weight"]) if "q_down_weight" in given else d_model
    needed = {
        "kv_down_weight": (latent + r, d_model),
        "v_up_weight": (len(given["v_up_weight"]), latent),
        "o_weight": (d_model, len(given["v_up_weight"])),
        "q_weight": (rows + heads * r, source),
        "q_down_weight": (source, d_model),
        "q_gain": (source,),
        "kv_gain": (latent,),
    }
    for name, shape in needed.items():
        if name in given and given[name].shape != shape:
            raise ValueError(
                f"{name} must be {list(shape)} for {heads} heads of {rows // heads} "
                f"features and {r} with RoPE, got shape {list(given[name].shape)}"
            )
    return r, rows // heads
