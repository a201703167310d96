"""The language model: logits of a full run equal those of cached generation."""

import copy
import math

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

from posedu.catalog import CATALOG
from posedu.torch import (
    ALiBi,
    AxialRoPE,
    KVCache,
    LanguageModel,
    Learned,
    LearnedPerLayer,
    PoSE,
    Randomized,
    RoPE,
    Sinusoidal,
    Transformer,
)
from posedu.torch.attention import QK_NORMS
from support import compiling

VOCAB, HEADS, D = 11, 2, 8
WIDTH = HEADS * D
DOUBLE = torch.float64

# Of two layers, each a few hundred operations on numbers of size 10 at most.
ATOL = 1e4 * torch.finfo(DOUBLE).eps


def model_of(encoding=None, *, width=WIDTH, heads=HEADS, layers=2, **options):
    torch.manual_seed(0)
    model = LanguageModel(VOCAB, width, heads, layers, encoding=encoding, **options)
    return model.double()


def prompt_of(batch=2, tokens=4, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCAB, (batch, tokens), generator=generator)


def rope(d=D):
    return RoPE(d, layout="half")


def test_it_is_embedding_transformer_and_head():
    model, tokens = model_of(rope()), prompt_of()
    x = model.embedding.weight[tokens]
    expected = model.transformer(x) @ model.head.weight.T
    assert torch.equal(model(tokens), expected)
    assert model(tokens).shape == (2, 4, VOCAB)
    assert model.head.bias is None and isinstance(model.transformer.norm, nn.LayerNorm)


def test_a_tied_head_shares_its_weight_and_scales_the_input():
    model, tokens = model_of(rope(), tied=True), prompt_of()
    free = model_of(rope())
    weight = model.embedding.weight
    assert model.head.weight is weight
    counts = [sum(p.numel() for p in m.parameters()) for m in (free, model)]
    assert counts[0] - counts[1] == VOCAB * WIDTH
    expected = model.transformer(weight[tokens] * math.sqrt(WIDTH)) @ weight.T
    torch.testing.assert_close(model(tokens), expected, rtol=0, atol=ATOL)
    model(tokens).sum().backward()
    assert weight.grad is not None and weight.grad.any()


OPTIONS = {
    "window": dict(window=[2, None]),
    "kv_heads": dict(kv_heads=1),
    "bias": dict(bias=True),
    "route": dict(route="eager"),
    "expansion": dict(expansion=2),
    "input": dict(input=Sinusoidal(WIDTH, layout="half")),
    "one each": dict(encoding=[rope(), None]),
    "norm": dict(qk_norm=["head", None], qk_norm_eps=1e-3),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_those_of_the_transformer(name):
    model, tokens = model_of(**OPTIONS[name]), prompt_of(tokens=6)
    twin = Transformer(WIDTH, HEADS, 2, **OPTIONS[name]).double()
    twin.load_state_dict(model.transformer.state_dict())
    expected = model.head(twin(model.embedding(tokens)))
    assert torch.equal(model(tokens), expected)
    generated = model.generate(tokens, 5)
    assert torch.equal(generated, by_full_runs(model, tokens, 5))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_any_integers_are_tokens(dtype):
    model, tokens = model_of(rope()), prompt_of()
    assert torch.equal(model(tokens.to(dtype)), model(tokens))
    generated = model.generate(tokens.to(dtype), 3)
    assert torch.equal(generated, model.generate(tokens, 3))
    assert generated.dtype == torch.int64


def test_masks_reach_the_layers():
    model, tokens = model_of(rope()), prompt_of(1, 6)
    padding = torch.tensor([[True, True, False, False, False, False]])
    alone = model(tokens[:, 2:], range(2, 6))
    padded = model(tokens, key_padding_mask=padding)[:, 2:]
    torch.testing.assert_close(padded, alone, rtol=0, atol=ATOL)
    segments = torch.tensor([[0, 0, 1, 1, 1, 1]])
    packed = model(tokens, segments=segments)[:, 2:]
    torch.testing.assert_close(packed, alone, rtol=0, atol=ATOL)


@pytest.mark.parametrize("tied", [False, True])
def test_a_state_is_loaded_and_a_copy_is_its_own(tied):
    model, tokens = model_of(rope(), tied=tied), prompt_of()
    other = LanguageModel(VOCAB, WIDTH, HEADS, 2, encoding=rope(), tied=tied).double()
    other.load_state_dict(model.state_dict())
    twin = copy.deepcopy(model)
    assert torch.equal(other(tokens), model(tokens))
    assert torch.equal(twin(tokens), model(tokens))
    assert (twin.head.weight is twin.embedding.weight) == tied
    assert not {*twin.parameters()} & {*model.parameters()}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("tied", [False, True])
def test_compiled_is_the_same(tied):
    torch.compiler.reset()
    model = model_of(rope(), tied=tied, qk_norm="head")
    compiled = compiling.compiled(model, fullgraph=True, dynamic=True)
    for tokens in (prompt_of(), prompt_of(tokens=7)):
        torch.testing.assert_close(compiled(tokens), model(tokens), rtol=0, atol=ATOL)


@pytest.mark.parametrize("qk_norm", [None, *QK_NORMS])
def test_low_precision_and_autocast(qk_norm):
    model, tokens = model_of(rope(), qk_norm=qk_norm).float(), prompt_of()
    exact = model(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        lowered = model(tokens)
    low = model.to(torch.bfloat16)(tokens)
    assert low.dtype == torch.bfloat16
    for found in (lowered, low):  # of two layers with logits of size one
        assert (found - exact).abs().max() < 32 * torch.finfo(torch.bfloat16).eps


# Generation.


def by_full_runs(model, tokens, count, positions=None):
    """The most probable tokens, each after a run over all tokens before it."""
    for _ in range(count):
        at = None if positions is None else positions[: tokens.shape[1]]
        logits = model(tokens, at)[:, -1]
        tokens = torch.cat((tokens, logits.argmax(-1, keepdim=True)), 1)
    return tokens


def watched(model):
    """The logits of each call of a model, as they are computed."""
    logits = []
    model.register_forward_hook(lambda module, inputs, out: logits.append(out))
    return logits


def takes_caches(entry, variant):
    if entry.kind == "positions":
        module = entry.make(variant, d=D, heads=variant.heads).eval()
        return not module.needs_whole_sequence
    return entry.kind != "block"


CAUSAL = [
    pytest.param(entry, variant, id=entry.label(variant))
    for entry in CATALOG.values()
    for variant in entry.variants
    if takes_caches(entry, variant)
]


def in_a_model(entry, variant, layers=2):
    """A language model whose layers all have the encoding, with random parameters."""
    heads, unit = variant.heads, entry.divisor(variant)
    d = -(-D // unit) * unit
    torch.manual_seed(2)
    encoding = entry.make(variant, d=d, heads=heads)
    model = model_of(encoding, width=heads * d, heads=heads, layers=layers)
    with torch.no_grad():
        for p in encoding.parameters():
            if p.requires_grad and (p.ndim > 1 or p.unique().numel() == 1):
                p.normal_(0, 0.7 * p.shape[-1] ** -0.5)
    return model.eval()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("entry, variant", CAUSAL)
def test_every_step_is_a_full_run_with_every_encoding(entry, variant):
    model, tokens = in_a_model(entry, variant), prompt_of()
    at = None
    if entry.axes is not None:
        at = torch.randint(0, 9, (9, entry.axes))
    steps = watched(model)
    generated = model.generate(tokens, 5, positions=at)
    assert generated.shape == (2, 9) and torch.equal(generated[:, :4], tokens)
    assert [step.shape[1] for step in steps] == [4, 1, 1, 1, 1]
    found = torch.cat(steps, 1)
    with torch.no_grad():
        whole = model(generated[:, :-1], None if at is None else at[:-1])
    torch.testing.assert_close(found, whole, rtol=0, atol=1e-10)
    assert torch.equal(generated[:, 4:], whole[:, 3:].argmax(-1))


# Their results depend on which key is the last: a convolution over keys reads behind
# it, these sticks begin or end at it, buckets, selections and taps are counted from it,
# and a skip connection adds its value.
LAST_KEY_COUNTS = [
    *(f"dape, {over}, code, 3, 3, 4" for over in ("fire, 4.0, leaky, zero, True",)),
    "stickbreaking, False, drop",
    "stickbreaking, False, renormalize",
    "stickbreaking, True, own",
    "selective-attention, False, True",
    "selective-attention, True, False",
    "geometric, True",
    "geometric, False, False",
    "log-linear, weak, 3",
    "log-linear, strong, 5",
    "mamba-2",
    "mamba-3, rational, 2",
    "mamba-3, softplus, 4",
    "gated-convolution",
    "gated-convolution, 2",
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("entry, variant", CAUSAL)
def test_a_step_of_fixed_shape_is_a_step_with_every_encoding(
    entry, variant, monkeypatch
):
    monkeypatch.setattr(torch, "compile", lambda step, fullgraph: step)
    model, tokens = in_a_model(entry, variant), prompt_of()
    if entry.label(variant) in LAST_KEY_COUNTS:
        with pytest.raises(ValueError, match="own key to be the last key"):
            model.generate(tokens, 5, compiled=True)
        return
    at = None if entry.axes is None else torch.randint(0, 9, (9, entry.axes))
    logits = watched(model)
    generated = [
        model.generate(tokens, 5, positions=at, compiled=compiled)
        for compiled in (False, True)
    ]
    assert torch.equal(*generated)
    steps, of_fixed_shape = (torch.cat(part, 1) for part in (logits[:5], logits[5:]))
    torch.testing.assert_close(of_fixed_shape, steps, rtol=0, atol=1e-10)


def counted(monkeypatch):
    """The counter of the graphs that ``torch.compile`` makes from now on."""
    torch.compiler.reset()
    counter, compiler = CompileCounter(), torch.compile
    monkeypatch.setattr(
        torch, "compile", lambda *step, **how: compiler(*step, backend=counter, **how)
    )
    return counter


FIXED = {
    param.values[0].name: param.values
    for param in reversed(CAUSAL)
    if param.id not in LAST_KEY_COUNTS
}


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", FIXED)
def test_one_graph_serves_every_step(name, monkeypatch):
    entry, variant = FIXED[name]
    model, tokens = in_a_model(entry, variant, layers=1), prompt_of()
    at = None if entry.axes is None else torch.randint(0, 9, (8, entry.axes))
    steps = model.generate(tokens, 4, positions=at)
    counter = counted(monkeypatch)
    compiled = model.generate(tokens, 4, positions=at, compiled=True)
    assert torch.equal(compiled, steps)
    assert counter.frame_count == 1


@pytest.mark.usefixtures("unchecked")
def test_a_second_graph_serves_texts_of_every_other_length(monkeypatch):
    model, counter = model_of(rope()), counted(monkeypatch)
    for new, graphs in ((5, 1), (7, 2), (9, 2), (6, 2)):
        expected = model.generate(prompt_of(), new)
        found = model.generate(prompt_of(), new, compiled=True)
        assert torch.equal(found, expected)
        assert counter.frame_count == graphs


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("window", [1, 2, 6, 8, 30, [3, None]])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_steps_of_fixed_shape_keep_windows_and_groups(window, kv_heads, monkeypatch):
    options = []
    monkeypatch.setattr(torch, "compile", lambda step, **o: options.append(o) or step)
    model = model_of(rope(), window=window, kv_heads=kv_heads)
    logits = watched(model)
    at = torch.randn(2, 12, dtype=DOUBLE).cumsum(1)
    for compiled in (False, True):
        model.generate(prompt_of(), 8, positions=at, compiled=compiled)
    steps, of_fixed_shape = (torch.cat(part, 1) for part in (logits[:8], logits[8:]))
    torch.testing.assert_close(of_fixed_shape, steps, rtol=0, atol=ATOL)
    assert options == [{"fullgraph": True}]  # a step that breaks is refused


@pytest.mark.usefixtures("unchecked")
def test_far_positions_cost_a_step_of_fixed_shape_no_digits(monkeypatch):
    """Slots of later tokens have position 0, far from those of the text."""
    monkeypatch.setattr(torch, "compile", lambda step, fullgraph: step)
    model = model_of(ALiBi(HEADS, slopes="authors")).float()
    logits, at = watched(model), torch.arange(2**20, 2**20 + 12)
    for compiled in (False, True):
        model.generate(prompt_of(), 8, positions=at, compiled=compiled)
    steps, of_fixed_shape = (torch.cat(part, 1) for part in (logits[:8], logits[8:]))
    torch.testing.assert_close(of_fixed_shape, steps, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("unchecked")
def test_a_compiled_text_longer_than_the_table_is_refused_in_words(monkeypatch):
    counted(monkeypatch)
    of_layers = [LearnedPerLayer(WIDTH, 8, beyond="raise") for _ in range(2)]
    for encoding in (Learned(WIDTH, 8, beyond="raise"), of_layers):
        model = model_of(encoding)
        model.generate(prompt_of(), 5, compiled=True)
        with pytest.raises(ValueError, match="below 8, the rows of the table, got 8"):
            model.generate(prompt_of(), 6, compiled=True)


@pytest.mark.usefixtures("unchecked")
def test_compiled_samples_are_those_of_the_same_generator(monkeypatch):
    counted(monkeypatch)
    model = model_of(rope())
    one, other = (
        model.generate(
            prompt_of(),
            12,
            temperature=1.0,
            top_k=5,
            generator=torch.Generator().manual_seed(3),
            compiled=compiled,
        )
        for compiled in (False, True)
    )
    assert torch.equal(one, other)


def test_a_sample_of_all_positions_cannot_be_drawn_token_by_token():
    encoding = Randomized(40, per="sequence", inner=Sinusoidal(WIDTH, layout="half"))
    with pytest.raises(ValueError, match="Randomized makes the positions of a seq"):
        model_of(encoding).generate(prompt_of(), 2)


def test_it_generates_in_evaluation_mode_and_leaves_all_modes_as_they_were():
    """PoSE moves positions at random in training: for each step anew, if let."""
    model = model_of(PoSE(64, inner=Sinusoidal(WIDTH, layout="half")))
    model.transformer.blocks[1].eval()
    before = [module.training for module in model.modules()]
    during = []
    model.register_forward_hook(lambda module, *_: during.append(module.training))
    tokens = prompt_of()
    generated = model.generate(tokens, 4)
    assert [module.training for module in model.modules()] == before
    assert during == [False] * 4
    with pytest.raises(RuntimeError, match="interrupted"):
        model.register_forward_hook(interrupt)
        model.generate(tokens, 4)
    assert [module.training for module in model.modules()] == before
    twin = model_of(Sinusoidal(WIDTH, layout="half"))
    assert torch.equal(generated, twin.generate(tokens, 4))


def interrupt(module, inputs, out):
    raise RuntimeError("interrupted")


@pytest.mark.parametrize("batched", [False, True])
def test_positions_are_those_of_the_prompt_and_of_the_new_tokens(batched):
    model, tokens = model_of(rope()), prompt_of()
    at = torch.tensor([3, 1, 4, 1, 5, 9, 2])
    expected = by_full_runs(model, tokens, 3, at)
    given = at.expand(2, -1) if batched else at
    assert torch.equal(model.generate(tokens, 3, positions=given), expected)
    assert torch.equal(model.generate(tokens, 3, positions=at.tolist()), expected)
    far = model.generate(tokens, 3, positions=range(100, 107))
    assert torch.equal(far, model.generate(tokens, 3))  # RoPE has offsets alone
    square = prompt_of(7)  # as many sequences as tokens
    rows = torch.stack([at + n * at for n in range(7)])
    whole = model.generate(square, 3, positions=rows)
    for n in range(7):
        one = model.generate(square[n : n + 1], 3, positions=rows[n])
        assert torch.equal(whole[n : n + 1], one)
    axial = AxialRoPE(D, order="concatenated", layout="half")
    model, places = model_of(axial), torch.rand(7, 2, dtype=DOUBLE)
    expected = by_full_runs(model, tokens, 3, places)
    assert torch.equal(model.generate(tokens, 3, positions=places), expected)
    of_rows = places.expand(2, -1, -1)
    assert torch.equal(model.generate(tokens, 3, positions=of_rows), expected)


def test_no_new_token_is_the_prompt():
    model, tokens = model_of(rope()), prompt_of()
    assert torch.equal(model.generate(tokens, 0), tokens)
    assert not model.generate(tokens, 1).requires_grad


# Sampling.


def test_samples_follow_the_probabilities():
    """Counts of 20,000 samples are within five standard deviations of the expected."""
    model, n, temperature = model_of(rope()), 20_000, 0.7
    tokens = prompt_of(1).expand(n, -1)
    with torch.no_grad():
        logits = model(tokens[:1])[0, -1]
    for top_k in (None, 3, VOCAB):
        generator = torch.Generator().manual_seed(0)
        options = dict(temperature=temperature, top_k=top_k, generator=generator)
        new = model.generate(tokens, 1, **options)[:, -1]
        kept = logits.topk(top_k or VOCAB).indices
        weights = torch.zeros(VOCAB, dtype=DOUBLE)
        for token in kept.tolist():
            weights[token] = math.exp(logits[token] / temperature)
        probabilities = weights / weights.sum()
        counts = new.bincount(minlength=VOCAB)
        deviation = (n * probabilities * (1 - probabilities)).sqrt()
        assert ((counts - n * probabilities).abs() <= 5 * deviation).all()
        assert (counts[probabilities == 0] == 0).all()


def test_samples_are_reproducible_and_differ_between_seeds():
    model, tokens = model_of(rope()), prompt_of(8)
    runs = [
        model.generate(
            tokens, 9, temperature=1.0, generator=torch.Generator().manual_seed(seed)
        )
        for seed in (0, 0, 1)
    ]
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])
    torch.manual_seed(3)
    first = model.generate(tokens, 9, temperature=1.0)
    torch.manual_seed(3)
    assert torch.equal(first, model.generate(tokens, 9, temperature=1.0))


@pytest.mark.parametrize("temperature", [1e-3, 1e-300])
def test_low_temperatures_are_greedy(temperature):
    model, tokens = model_of(rope()), prompt_of()
    for dtype in (DOUBLE, torch.float32, torch.bfloat16):
        greedy = model.to(dtype).generate(tokens, 4)
        one = model.generate(tokens, 4, temperature=1.0, top_k=1)
        assert torch.equal(one, greedy)
        if dtype != torch.bfloat16:  # whose logits may tie
            low = model.generate(tokens, 4, temperature=temperature)
            assert torch.equal(low, greedy)


# It learns.


@pytest.mark.parametrize("tied", [False, True])
def test_it_learns_to_repeat(tied):
    """The period of a sequence is found by training; by chance 1 of 11 is right."""
    torch.manual_seed(0)
    model = LanguageModel(VOCAB, 32, 2, 2, encoding=rope(16), tied=tied)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        tokens = torch.randint(VOCAB, (32, 4)).repeat(1, 3)
        logits = model(tokens[:, :-1])[:, 4:]
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), tokens[:, 5:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    start = torch.randint(VOCAB, (64, 4)).repeat(1, 2)
    generated = model.generate(start, 4)
    assert (generated[:, -4:] == start[:, :4]).float().mean() > 0.9


# What is refused.


def build(*sizes, **options):
    return lambda: LanguageModel(*(sizes or (VOCAB, WIDTH, HEADS, 2)), **options)


def call(tokens, *arguments, **options):
    return lambda: model_of(rope())(tokens, *arguments, **options)


def run(tokens, *arguments, **options):
    return lambda: model_of(rope()).generate(tokens, *arguments, **options)


def axial():
    return model_of(AxialRoPE(D, order="concatenated", layout="half"))


SOME = prompt_of()
BAD = {
    "no vocabulary": (build(0, 8, 2, 1), ValueError, "vocab_size must be a positive"),
    "half a token": (build(1.5, 8, 2, 1), TypeError, "vocab_size must be an integer"),
    "tied": (build(tied="no"), TypeError, "tied must be True or False, got 'no'"),
    "heads": (build(5, 8, 3, 1), ValueError, "multiple of heads = 3"),
    "norm": (build(qk_norm="all"), ValueError, "qk_norm must be 'head'"),
    "norms": (build(qk_norm=["head"]), ValueError, "2 layers need as many qk_norms"),
    "encoder": (
        build(encoding=ALiBi(4, slopes="authors")),
        ValueError,
        "ALiBi was made for heads = 4",
    ),
    "list": (call([[1, 2]]), TypeError, "tokens must be a torch.Tensor, got list"),
    "floats": (call(SOME.float()), TypeError, "integers, got torch.float32"),
    "bool": (call(SOME > 3), TypeError, "integers, got torch.bool"),
    "one sequence": (call(SOME[0]), ValueError, r"\[batch, tokens\], got shape \[4\]"),
    "too large": (call(SOME + 8), ValueError, "from 0 to 10 = vocab_size − 1, got 1"),
    "negative": (call(SOME - 20), ValueError, "from 0 to 10 = .*, got -"),
    "device": (call(SOME.to("meta")), ValueError, "tokens are on meta, the weights on"),
    "positions": (call(SOME, range(3)), ValueError, r"positions must be \[4\]"),
    "caches": (call(SOME, caches=[KVCache()]), ValueError, "as many caches, got 1"),
    "no prompt": (
        run(SOME[:, :0], 3),
        ValueError,
        r"at least one token, got shape \[2, 0\]",
    ),
    "prompt of floats": (run(SOME.double(), 3), TypeError, "integers"),
    "prompt beyond": (run(SOME + 8, 3), ValueError, "from 0 to 10"),
    "fewer": (run(SOME, -1), ValueError, "max_new_tokens must be from 0"),
    "half": (run(SOME, 1.5), TypeError, "max_new_tokens must be an integer"),
    "cold": (run(SOME, 1, temperature=-1.0), ValueError, "temperature must be finite"),
    "hot": (run(SOME, 1, temperature=math.inf), ValueError, "temperature must be fin"),
    "text": (run(SOME, 1, temperature="1"), TypeError, "temperature must be a number"),
    "none of k": (
        run(SOME, 1, temperature=1, top_k=0),
        ValueError,
        "top_k must be a po",
    ),
    "k beyond": (
        run(SOME, 1, temperature=1, top_k=12),
        ValueError,
        "top_k must be at most vocab_size = 11, got 12",
    ),
    "greedy k": (
        run(SOME, 1, top_k=2),
        ValueError,
        "top_k is for sampling: give a tem",
    ),
    "greedy seed": (
        run(SOME, 1, generator=torch.Generator()),
        ValueError,
        "generator is for sampling",
    ),
    "seed": (
        run(SOME, 1, temperature=1, generator=3),
        TypeError,
        "generator must be a torch.Generator, got int",
    ),
    "positions of the prompt": (
        run(SOME, 3, positions=range(4)),
        ValueError,
        r"prompt and new tokens, 7 in all, got shape \[4\]",
    ),
    "positions of another": (
        run(SOME, 3, positions=torch.zeros(3, 7)),
        ValueError,
        r"positions must be \[4\] or \[2, 4\]",
    ),
    "positions as text": (
        run(SOME, 3, positions="3"),
        TypeError,
        "positions must be a",
    ),
    "no places": (
        lambda: axial().generate(SOME, 3),
        ValueError,
        r"AxialRoPE needs positions \[4, 2\]",
    ),
    "places": (
        lambda: axial().generate(SOME, 3, positions=range(7)),
        ValueError,
        "prompt and new tokens, 7 in all",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_words(name):
    wrong, error, message = BAD[name]
    with pytest.raises(error, match=message):
        wrong()


def test_a_model_says_what_it_is():
    assert "tied=True" in repr(model_of(rope(), tied=True))
    assert "tied=False" in repr(model_of(rope()))
