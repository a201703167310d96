"""Every encoding in layers and models: hidden tokens, pieces, derivatives, batches.

What is called is found in the catalog: a new encoding is tested as soon as it is there.
"""

from contextlib import suppress

import pytest
import torch
from torch.func import functional_call, grad, jvp, vmap

from posedu.catalog import CATALOG
from posedu.torch import Attention, KVCache, Transformer
from posedu.torch.routes import ROUTES

pytestmark = pytest.mark.usefixtures("unchecked", "untraced_flex")

D, TOKENS = 8, 7
ATOL = 1e-11  # thousands of roundings of float64 numbers of size one
DRAWN = {"randomized"}  # a sample for each call, as many numbers as it has tokens
NEIGHBORS = {"dape"}  # reads the logits of neighboring keys, whatever their positions


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def model_of(entry, variant, route="eager"):
    """A layer or a model, in float64, whose parameters are not where they start."""
    heads, unit = variant.heads, entry.divisor(variant)
    d = -(-D // unit) * unit
    torch.manual_seed(0)
    if entry.kind == "block":
        model = entry.implementation("torch")(
            heads * d, heads, route=route, **variant.keywords
        )
    elif entry.of_model:
        module = entry.make(variant, d=d, heads=heads)
        model = Transformer(heads * d, heads, 2, encoding=module, route=route)
    else:
        module = entry.make(variant, d=d, heads=heads)
        model = Attention(heads * d, heads, encoding=module, route=route)
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad and (p.ndim > 1 or p.unique().numel() == 1):
                p.normal_(0, 0.7 * p.shape[-1] ** -0.5)
    return model.double().eval()


def positions_of(entry, tokens):
    """Positions with gaps, coordinates where the encoding has them."""
    if entry.kind == "positions":  # they are numbers of tokens
        return torch.arange(tokens)
    shape = (tokens,) if entry.axes is None else (tokens, entry.axes)
    steps = torch.randint(1, 6, shape, generator=torch.Generator().manual_seed(1))
    return steps.cumsum(0) % 40


def runs():
    """Each variant by the eager route, the first by every route that supports it."""
    for entry in CATALOG.values():
        for variant in entry.variants:
            first = variant is entry.variants[0]
            for route in ROUTES if first and not entry.of_model else ("eager",):
                if route != "flex":  # traced, see test_attention
                    with suppress(ValueError):
                        model_of(entry, variant, route)
                        name = f"{entry.label(variant)}-{route}"
                        yield pytest.param(entry, variant, route, id=name)


each_run = pytest.mark.parametrize("entry, variant, route", [*runs()])
each_variant = pytest.mark.parametrize(
    "entry, variant",
    [
        pytest.param(entry, variant, id=entry.label(variant))
        for entry in CATALOG.values()
        for variant in entry.variants
    ],
)


@each_run
def test_hidden_tokens_and_other_sequences_are_as_if_absent(entry, variant, route):
    model = model_of(entry, variant, route)
    x, positions = normal(2, TOKENS, model.d_model), positions_of(entry, TOKENS)
    hidden = torch.zeros(2, TOKENS, dtype=torch.bool)
    hidden[0, [0, 3]] = hidden[1, [2, 6]] = True
    packed = torch.tensor([[0, 1, 0, 0, 1, 1, 0], [5] * TOKENS])
    if entry.name in NEIGHBORS:
        hidden[:], packed = torch.arange(TOKENS) < 2, packed.sort(-1).values
    alone = torch.zeros_like(packed)
    for padding, segments in ((hidden, None), (None, packed), (hidden, packed)):
        if entry.name in DRAWN or (route == "fused" and segments is not None):
            continue
        with torch.no_grad():
            out = model(x, positions, key_padding_mask=padding, segments=segments)
            for row in range(2):
                kinds = (alone if segments is None else segments)[row]
                for kind in kinds.unique():
                    own = kinds == kind
                    own = own if padding is None else own & ~padding[row]
                    expected = model(x[row : row + 1, own], positions[own])[0]
                    torch.testing.assert_close(
                        out[row, own], expected, rtol=0, atol=ATOL
                    )


@each_run
def test_pieces_are_the_whole_and_a_refused_call_changes_nothing(entry, variant, route):
    model = model_of(entry, variant, route)
    is_model = isinstance(model, Transformer)
    if is_model and model.input.needs_whole_sequence:
        pytest.skip("its positions need all tokens of a sequence")
    x, positions = normal(2, TOKENS, model.d_model), positions_of(entry, TOKENS)
    padding = torch.arange(TOKENS) < torch.tensor([[0], [2]])
    held = model.caches() if is_model else KVCache()
    cached = {"caches" if is_model else "cache": held}
    before, parts = {n: t.clone() for n, t in model.state_dict().items()}, []
    with torch.no_grad():
        for start, stop in ((0, 3), (3, 3), (3, 4), (4, TOKENS)):
            now, at, hidden = (
                slice(start, stop),
                positions[start:stop],
                padding[:, :stop],
            )
            state = [dict(vars(c)) for c in (held if is_model else [held])]
            for bad in (
                {"x": x[:, now, 1:]},
                {"x": x[:, now], "key_padding_mask": padding[:1, : stop + 1]},
                {"x": x[:, now], "positions": positions[:1].expand(9, *at.shape[1:])},
            ):
                with pytest.raises((TypeError, ValueError)):
                    model(**{"positions": at} | bad, **cached)
            for cache, old in zip(held if is_model else [held], state, strict=True):
                assert all(vars(cache)[name] is value for name, value in old.items())
            parts.append(model(x[:, now], at, key_padding_mask=hidden, **cached))
        whole = model(x, positions, key_padding_mask=padding)
    seen = ~padding
    got, expected = torch.cat(parts, 1)[seen], whole[seen]
    torch.testing.assert_close(got, expected, rtol=0, atol=ATOL)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())


def losses(entry, variant, tokens=4):
    """A number as a function of parameters and input, with both and directions."""
    model = model_of(entry, variant)
    positions = positions_of(entry, tokens)
    x = normal(1, tokens, model.d_model, seed=2)
    given = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    towards = {n: normal(*p.shape, seed=3) for n, p in given.items()}

    def loss(parameters, x):
        torch.manual_seed(0)  # for what is drawn
        return functional_call(model, parameters, (x, positions)).sin().sum()

    return loss, given, x, towards, normal(*x.shape, seed=4)


def moved(tensors, towards, step):
    return {name: t + step * towards[name] for name, t in tensors.items()}


def slope(function, given, x, towards, along, step=1e-5):
    """A difference quotient of order four, of a function of parameters and input."""
    near, far = (
        function(moved(given, towards, n * step), x + n * step * along)
        - function(moved(given, towards, -n * step), x - n * step * along)
        for n in (1, 2)
    )
    return (8 * near - far) / (12 * step)


NEAR = {"rtol": 1e-6, "atol": 1e-6}  # a quotient, with steps of 1e-5
TWICE = {"floater": "FLOATER has no second derivative"}


@each_variant
def test_second_derivatives_are_right_or_refused(entry, variant):
    loss, given, x, towards, along = losses(entry, variant)

    def penalty(parameters, x):
        """The squared length of all gradients, and what it depends on."""
        wanted = [t.clone().requires_grad_() for t in (x, *parameters.values())]
        value = loss(dict(zip(parameters, wanted[1:], strict=True)), wanted[0])
        found = torch.autograd.grad(value, wanted, create_graph=True)
        return sum(g.square().sum() for g in found), wanted

    value, wanted = penalty(given, x)
    if entry.name in TWICE:
        with pytest.raises(NotImplementedError, match=TWICE[entry.name]):
            torch.autograd.grad(value, wanted)
        return
    second = torch.autograd.grad(value, wanted, allow_unused=True)
    found = sum(
        (g * t).sum()
        for g, t in zip(second, (along, *towards.values()), strict=True)
        if g is not None
    )
    expected = slope(lambda p, x: penalty(p, x)[0].detach(), given, x, towards, along)
    torch.testing.assert_close(found, expected, **NEAR)


OUTSIDE = {"floater": "FLOATER integrates outside torch.func"}


@each_variant
def test_transformed_functions_are_right_or_refused(entry, variant):
    """``torch.func``: gradients, tangents, both at once, batches of all."""
    loss, given, x, towards, along = losses(entry, variant)
    model, positions = model_of(entry, variant), positions_of(entry, x.shape[1])
    both = torch.stack((x, x + along))
    versions = {n: torch.stack((t, t + towards[n])) for n, t in given.items()}

    def of_input(x):
        return loss(given, x)

    expected = torch.stack([loss(given, one) for one in both])
    close(vmap(of_input, randomness="same")(both), expected)
    gradients = vmap(grad(of_input), randomness="same")(both)
    close(gradients, torch.stack([grad(of_input)(one) for one in both]))
    if entry.name in OUTSIDE:
        for transformed, those in (
            (grad(loss), given),
            (vmap(loss, (0, None)), versions),
        ):
            with pytest.raises(NotImplementedError, match=OUTSIDE[entry.name]):
                transformed(those, x)
        return
    wanted = [t.clone().requires_grad_() for t in (x, *given.values())]
    value = loss(dict(zip(given, wanted[1:], strict=True)), wanted[0])
    found = grad(loss, (0, 1))(given, x)
    close([found[1], *found[0].values()], list(torch.autograd.grad(value, wanted)))
    tangent = jvp(loss, (given, x), (towards, along))[1]
    torch.testing.assert_close(tangent, slope(loss, given, x, towards, along), **NEAR)
    twice = jvp(grad(of_input), (x,), (along,))[1]
    quotient = slope(lambda _, x: grad(of_input)(x), {}, x, {}, along)
    torch.testing.assert_close(twice, quotient, **NEAR)
    places = torch.stack((positions, positions.flip(0)))
    expected = torch.stack([model(x, row) for row in places])
    if entry.name not in DRAWN:
        close(vmap(lambda row: model(x, row))(places), expected)
    if given:
        each = [{n: t[row] for n, t in versions.items()} for row in range(2)]
        expected = torch.stack([loss(one, x) for one in each])
        close(vmap(loss, (0, None), randomness="same")(versions, x), expected)


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=100 * ATOL)
