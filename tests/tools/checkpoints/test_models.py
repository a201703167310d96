"""Tiny models of every kind of attention give the same outputs when converted."""

from dataclasses import dataclass, replace

import pytest
import torch

from posedu.tools.checkpoints import (
    Conversion,
    ConvertError,
    Fused,
    Pairs,
    convert,
    plan,
)

HALF, NEIGHBORS = Pairs(layout="half"), Pairs(layout="interleaved")
TOLERANCE = 1e-12  # of float64, whose sums are reordered
TOKENS, HIDDEN = 7, 24


def rotated(x, width, pairs, *, trailing=False):
    """Rotate the leading or trailing ``width`` features of the last axis."""
    if not width:
        return x
    start = x.shape[-1] - width if trailing else 0
    part = x[..., start : start + width]
    if pairs.layout == "half":
        a, b = part[..., : width // 2], part[..., width // 2 :]
    else:
        a, b = part[..., ::2], part[..., 1::2]
    speeds = 10.0 ** -(torch.arange(width // 2).double() / width)
    angle = torch.arange(TOKENS).double()[:, None] * speeds
    cos, sin = angle.cos(), -angle.sin() if pairs.clockwise else angle.sin()
    a, b = a * cos - b * sin, a * sin + b * cos
    stacked = (
        torch.cat((a, b), -1)
        if pairs.layout == "half"
        else torch.stack((a, b), -1).flatten(-2)
    )
    return torch.cat((x[..., :start], stacked, x[..., start + width :]), -1)


def normalized(x, weight, *, full=False):
    """RMS norm of heads, or of all heads together; x is [heads, tokens, features]."""
    if weight is None:
        return x
    dims = (0, 2) if full else (2,)
    scaled = x * x.square().mean(dims, keepdim=True).rsqrt()
    if full:
        weight = weight.view(x.shape[0], x.shape[2])
    return scaled * (weight[:, None] if weight.ndim == 2 else weight)


@dataclass(frozen=True)
class Kind:
    """Dimensions of a layer, and how its tensors are arranged."""

    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    width: int = 8
    norm: str = ""  # "shared", "by head", "full" or "list"
    fused: str = ""  # "stacked", "grouped" or "plain"
    bias: bool = False

    def sizes(self):
        """Shapes of the layer's tensors by name."""
        d = self.head_dim
        rows = {"q": self.heads * d, "k": self.kv_heads * d, "v": self.kv_heads * d}
        names = {x: f"{x}_proj.{{}}" for x in rows}
        if self.fused:
            rows = {"qkv": sum(rows.values())}
            names = {"qkv": "in_proj_{}" if self.fused == "plain" else "qkv_proj.{}"}
        found = {names[x].format("weight"): (n, HIDDEN) for x, n in rows.items()}
        if self.bias:
            found |= {names[x].format("bias"): (n,) for x, n in rows.items()}
        found["o_proj.weight"] = (HIDDEN, self.heads * d)
        for x, n in (("q", self.heads), ("k", self.kv_heads)) if self.norm else ():
            if self.norm == "list":
                for head in range(n):
                    found[f"{x}_layernorm.norms.{head}.weight"] = (d,)
            else:
                shapes = {"shared": (d,), "by head": (n, d), "full": (n * d,)}
                found[f"{x}_norm.weight"] = shapes[self.norm]
        return {f"self_attn.{name}": shape for name, shape in found.items()}

    def heads_of(self, state, x):
        """Queries, keys and values, [heads, tokens, features]."""

        def projected(name):
            plain = name == "in_proj"
            weight, bias = (
                state.get(f"{name}{'_' if plain else '.'}{kind}")
                for kind in ("weight", "bias")
            )
            y = x @ weight.T + (0 if bias is None else bias)
            return y.unflatten(-1, (-1, self.head_dim)).transpose(0, 1)

        if not self.fused:
            return tuple(projected(f"{name}_proj") for name in "qkv")
        both = projected("in_proj" if self.fused == "plain" else "qkv_proj")
        if self.fused == "grouped":
            groups = both.unflatten(0, (self.kv_heads, -1))
            return groups[:, :-2].flatten(0, 1), groups[:, -2], groups[:, -1]
        return both.split((self.heads, self.kv_heads, self.kv_heads))

    def norm_of(self, state, x):
        """Weight of the norm of queries ("q") or keys ("k")."""
        if self.norm != "list":
            return state.get(f"{x}_norm.weight")
        names = [n for n in state if n.startswith(f"{x}_layernorm")]
        return torch.stack([state[name] for name in names])

    def __call__(self, state, x, pairs):
        q, k, v = self.heads_of(state, x)
        q, k = (
            rotated(
                normalized(y, self.norm_of(state, name), full=self.norm == "full"),
                self.width,
                pairs,
            )
            for y, name in ((q, "q"), (k, "k"))
        )
        k, v = (y.repeat_interleave(self.heads // self.kv_heads, 0) for y in (k, v))
        later = torch.ones(TOKENS, TOKENS).triu(1).bool()
        scores = (q @ k.mT / self.head_dim**0.5).masked_fill(later, -torch.inf)
        y = (scores.softmax(-1) @ v).transpose(0, 1).flatten(-2)
        return y @ state["o_proj.weight"].T


def model(*kinds, seed=0):
    """A state dict of layers of these kinds."""
    numbers = torch.Generator().manual_seed(seed)
    return {
        f"model.layers.{n}.{name}": torch.randn(shape, generator=numbers).double()
        for n, kind in enumerate(kinds)
        for name, shape in {**kind.sizes(), "mlp.up_proj.weight": (9, HIDDEN)}.items()
    }


def output(state, kinds, pairs):
    """Output of the layers, with residual connections."""
    x = torch.randn(TOKENS, HIDDEN, generator=torch.Generator().manual_seed(1)).double()
    for n, kind in enumerate(kinds):
        prefix = f"model.layers.{n}.self_attn."
        own = {k.removeprefix(prefix): v for k, v in state.items() if prefix in k}
        x = x + kind(own, x / x.norm(), pairs)
    return x


def change(state, kinds, conversion):
    """Relative change of the output of the converted model."""
    old = output(state, kinds, conversion.source)
    new = output(convert(state, conversion), kinds, conversion.target)
    return ((old - new).abs().max() / old.abs().max()).item()


KINDS = {
    "grouped queries": Kind(),
    "biases": Kind(bias=True),
    "a share of the head": Kind(width=4, bias=True, norm="shared"),
    "a norm of all heads": Kind(norm="shared"),
    "a norm for each head": Kind(norm="by head"),
    "as many heads as features": Kind(heads=8, kv_heads=8, norm="by head"),
    "norms in a list": Kind(norm="list", width=6),
    "a norm over all features": Kind(norm="full"),
    "one head of keys": Kind(kv_heads=1, norm="full"),
    "Phi-3": Kind(fused="stacked", width=6, bias=True),
    "GPT-NeoX": Kind(kv_heads=4, fused="grouped", width=4, bias=True),
    "Falcon": Kind(fused="grouped"),
    "Megatron with norms": Kind(fused="grouped", norm="shared"),
    "nn.MultiheadAttention": Kind(kv_heads=4, fused="plain", bias=True),
}


def conversion_of(kind, source=HALF, target=NEIGHBORS):
    order = "grouped" if kind.fused == "grouped" else "stacked"
    fused = Fused(order=order, heads=kind.heads, kv_heads=kind.kv_heads)
    return Conversion(
        source=source,
        target=target,
        head_dim=kind.head_dim,
        width=kind.width,
        fused=fused if kind.fused else None,
    )


@pytest.mark.parametrize("name", KINDS)
def test_no_output_changes(name):
    kinds = (KINDS[name],) * 2
    state = model(*kinds)
    clockwise = replace(NEIGHBORS, clockwise=True)
    for source, target in ((HALF, NEIGHBORS), (NEIGHBORS, HALF), (HALF, clockwise)):
        conversion = conversion_of(kinds[0], source, target)
        assert change(state, kinds, conversion) <= TOLERANCE
        there = convert(state, conversion)
        back = convert(there, conversion_of(kinds[0], target, source))
        assert all(torch.equal(back[name], was) for name, was in state.items())
    wrong = output(state, kinds, NEIGHBORS) - output(state, kinds, HALF)
    assert wrong.abs().max() > 1e-4


def test_heads_are_permuted_alone_where_there_are_as_many_as_features():
    """Permuting the heads of such a norm, as 0.3 did, changes the output."""
    kinds = (KINDS["as many heads as features"],)
    state, conversion = model(*kinds), conversion_of(kinds[0])
    right = convert(state, conversion)
    name = "model.layers.0.self_attn.q_norm.weight"
    wrong = right | {name: state[name][conversion.order(8, 0)]}
    assert not torch.equal(wrong[name], right[name])
    off = output(wrong, kinds, NEIGHBORS) - output(state, kinds, HALF)
    assert off.abs().max() > 1e-4


SLIDING, FULL = Kind(norm="shared"), Kind(head_dim=16, width=4, norm="shared")
UNROTATED = Kind(width=0)


@pytest.mark.parametrize("norm", ["", "shared", "by head"])
def test_heads_of_two_widths(norm):
    """Layers as in Gemma 4, and one without rotation."""
    kinds = [replace(k, norm=norm) for k in (SLIDING, FULL, UNROTATED, FULL)]
    state = model(*kinds)
    conversion = Conversion(
        source=HALF,
        target=NEIGHBORS,
        head_dim={n: kind.head_dim for n, kind in enumerate(kinds)},
        width={n: kind.width for n, kind in enumerate(kinds)},
    )
    assert change(state, kinds, conversion) <= TOLERANCE
    done = convert(state, conversion)
    unrotated = [name for name in state if ".2." in name]
    assert unrotated and all(done[name] is state[name] for name in unrotated)
    for head_dim in (8, 16):
        one = Conversion(source=HALF, target=NEIGHBORS, head_dim=head_dim)
        found = plan({k: v for k, v in state.items() if ".2." not in k}, one)
        assert found.refused
        expected = r"layers\.[13]" if head_dim == 8 or not norm else r"layers\.0"
        with pytest.raises(ConvertError, match=expected):
            convert({k: v for k, v in state.items() if ".2." not in k}, one)


def test_more_heads_of_the_same_width_are_converted_if_a_norm_shows_the_width():
    kinds = Kind(norm="shared"), Kind(heads=8, norm="shared")
    assert change(model(*kinds), kinds, conversion_of(kinds[0])) <= TOLERANCE
    for norm in ("full", ""):
        unclear = [replace(kind, norm=norm) for kind in kinds]
        with pytest.raises(ConvertError, match=r"layers\.1.*has 64 rows, and 32 in"):
            convert(model(*unclear), conversion_of(kinds[0]))
    by_layer = replace(conversion_of(kinds[0]), head_dim={0: 8, 1: 8}, width=None)
    assert change(model(*unclear), unclear, by_layer) <= TOLERANCE


# --- Latent attention, as in DeepSeek-V3

NOPE, ROPE, VALUE, RANK, HEADS = 6, 4, 5, 10, 3


def latent_state(*, compressed):
    shapes = {
        "q_a_proj": (9, HIDDEN),
        "q_a_layernorm": (9,),
        "q_b_proj": (HEADS * (NOPE + ROPE), 9),
    }
    if not compressed:
        shapes = {"q_proj": (HEADS * (NOPE + ROPE), HIDDEN)}
    shapes |= {
        "kv_a_proj_with_mqa": (RANK + ROPE, HIDDEN),
        "kv_a_layernorm": (RANK,),
        "kv_b_proj": (HEADS * (NOPE + VALUE), RANK),
        "o_proj": (HIDDEN, HEADS * VALUE),
    }
    numbers = torch.Generator().manual_seed(2)
    return {
        f"model.layers.0.self_attn.{name}.weight": torch.randn(shape, generator=numbers)
        for name, shape in shapes.items()
    }


def latent_output(state, pairs):
    w = {name.split(".")[-2]: tensor.double() for name, tensor in state.items()}
    x = torch.randn(TOKENS, HIDDEN, generator=torch.Generator().manual_seed(1)).double()
    if "q_proj" in w:
        q = x @ w["q_proj"].T
    else:
        q = (x @ w["q_a_proj"].T * w["q_a_layernorm"]) @ w["q_b_proj"].T
    q = q.unflatten(-1, (HEADS, -1)).transpose(0, 1)
    q = rotated(q, ROPE, pairs, trailing=True)
    latent, k_rotated = (x @ w["kv_a_proj_with_mqa"].T).split((RANK, ROPE), -1)
    both = (latent * w["kv_a_layernorm"]) @ w["kv_b_proj"].T
    both = both.unflatten(-1, (HEADS, -1)).transpose(0, 1)
    k, v = both.split((NOPE, VALUE), -1)
    shared = rotated(k_rotated, ROPE, pairs).expand(HEADS, TOKENS, ROPE)
    scores = q @ torch.cat((k, shared), -1).mT / (NOPE + ROPE)
    y = scores.softmax(-1) @ v
    return y.transpose(0, 1).flatten(-2) @ w["o_proj"].T


LATENT = Conversion(
    source=NEIGHBORS, target=HALF, head_dim=NOPE + ROPE, width=ROPE, rotated="trailing"
)


@pytest.mark.parametrize("compressed", [False, True])
def test_latent_attention(compressed):
    state = latent_state(compressed=compressed)
    old, wrong = latent_output(state, NEIGHBORS), latent_output(state, HALF)
    new = latent_output(convert(state, LATENT), HALF)
    assert (old - new).abs().max() <= TOLERANCE * old.abs().max()
    assert (old - wrong).abs().max() > 1e-3 * old.abs().max()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rotated": "leading"}, "kv_a_proj_with_mqa.weight is of latent attention"),
        ({"width": None}, "kv_a_proj_with_mqa.weight is of latent attention"),
        (
            {"width": 2},
            "q_b_proj.weight has 30 rows, which are not heads of 10",
        ),
        ({"head_dim": 15}, "q_b_proj.weight has 30 rows, which are not heads of 15"),
    ],
)
def test_wrong_dimensions_of_latent_attention_are_refused(changes, message):
    with pytest.raises(ConvertError, match=message):
        convert(latent_state(compressed=True), replace(LATENT, **changes))


@pytest.mark.parametrize("rows", [3, 4])
def test_a_shared_key_without_latent_features_is_refused(rows):
    state = latent_state(compressed=True)
    name = "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"
    with pytest.raises(ConvertError, match=f"must have more than 4 rows.*got {rows}"):
        convert(state | {name: torch.zeros(rows, HIDDEN)}, LATENT)
