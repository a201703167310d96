"""Every record of the catalog: its implementations load and take its variants."""

import inspect
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from itertools import chain
from typing import get_args

import numpy as np
import pytest
import sympy as sp
import torch

import posedu
from posedu import _arguments
from posedu.catalog import (
    ATTENTION,
    CATALOG,
    FAMILIES,
    IMPLEMENTATIONS,
    ROPE_SCALINGS,
    TOKENS,
    SpecialCase,
)
from posedu.crosscheck import features
from posedu.crosscheck.common import parameters_of, to_numpy
from posedu.crosscheck.layers import run_layers
from posedu.numpy.attention import attend, steps
from posedu.torch import Attention, Encoding
from posedu.torch.encoding import LAYER_HOOKS, MODEL_HOOKS

HEADS = 2
RECORDS = pytest.mark.parametrize("encoding", CATALOG.values(), ids=CATALOG)
MAPS = ROPE_SCALINGS.values()
KINDS = ("features", "positions", "hooks", "layers", "block")


def variants_of(*kinds):
    return pytest.mark.parametrize(
        "encoding, variant",
        [(e, v) for e in CATALOG.values() if e.kind in kinds for v in e.variants],
        ids=lambda v: getattr(v, "name", "") or " ".join(map(str, v.keywords.values())),
    )


def make(encoding, variant, d, heads=HEADS):
    """A module in float64, with random parameters where it starts with equal ones."""
    torch.manual_seed(0)
    module = encoding.make(variant, d=d, heads=heads).double()
    with torch.no_grad():
        for p in module.parameters():
            if p.requires_grad and p.unique().numel() == 1:
                p.normal_()
    return module


def arrays(module):
    return {name: to_numpy(p) for name, p in parameters_of(module).items()}


def draws(module, tokens):
    """Random numbers for the positions of two sequences."""
    return {n: t.numpy() for n, t in module.draw(2, tokens).items()}


def tokens(encoding, variant, d):
    """Two heads of two tokens, and their positions."""
    axes = () if encoding.axes is None else (encoding.axes,)
    rng = np.random.default_rng(1)
    x, positions = rng.normal(size=(HEADS, 2, d)), rng.integers(-5, 5, size=(2, *axes))
    rows = encoding.rows(variant)
    return x, positions if rows is None else positions % rows


def reference(encoding, variant, d, heads):
    """The NumPy implementation's result for random inputs."""
    rng = np.random.default_rng(1)
    module = make(encoding, variant, d, heads)
    implementation, keywords = encoding.implementation("numpy"), arrays(module)
    keywords |= encoding.keywords(variant, d=d, heads=heads)
    if encoding.kind == "features":
        return implementation(*tokens(encoding, variant, d), **keywords)
    if encoding.kind == "positions":
        return implementation(np.arange(4), **draws(module, 4), **keywords)
    q, k, v = rng.normal(size=(3, heads, 4, d))
    x = rng.normal(size=(4, heads * d))
    if encoding.kind == "block":
        return implementation(x, **keywords)
    if encoding.kind == "layers":
        return run_layers(steps, implementation(**keywords), q, k, v, x, np.arange(4))
    at = np.arange(4) if encoding.axes is None else rng.normal(size=(4, encoding.axes))
    options = dict(x=x, causal=module.needs_causal, positions=at)
    return attend(q, k, v, implementation(**keywords), **options)


@pytest.mark.usefixtures("unchecked")
@variants_of("hooks", "layers")
def test_wrong_options_are_refused_when_hooks_are_made(encoding, variant):
    """And not only when attention calls the hooks."""
    implementation = encoding.implementation("numpy")
    module = make(encoding, variant, 8)
    given = arrays(module) | encoding.keywords(variant, d=8, heads=HEADS)
    implementation(**given)
    parameters = inspect.signature(implementation).parameters.values()
    options = {p.name: p.default for p in parameters} | given
    if options.get("rows") == "paper" or options.get("relative", ()) is None:
        del options["distance"]  # the end of a scale that the variant does not have
    for name, option in options.items():
        if isinstance(option, str | float | int):
            with pytest.raises((TypeError, ValueError)):
                implementation(**given | {name: [option]})


@variants_of("features")
def test_three_implementations_take_each_variant_and_agree(encoding, variant):
    d = 2 * encoding.divisor(variant)
    pair = features.Pair(encoding, variant, d, 0)
    x, positions = tokens(encoding, variant, d)
    x = x if pair.heads else x[0]
    expected = pair.forward(x, positions)
    fast = pair.module.double()(torch.tensor(x), torch.tensor(positions)).detach()
    np.testing.assert_allclose(fast.numpy(), expected, rtol=0, atol=1e-13)
    if variant.has_symbolic:
        exact, _ = pair.exact(x, positions, x)
        np.testing.assert_allclose(exact, expected, rtol=0, atol=1e-13)


@variants_of("positions")
def test_three_implementations_return_the_same_positions(encoding, variant):
    module = make(encoding, variant, 2)
    draws = module.draw(2, 4)
    given = {name: t.numpy() for name, t in draws.items()}
    options = encoding.keywords(variant, d=2, heads=1)
    expected = encoding.implementation("numpy")(np.arange(4), **given, **options)
    places = module.place(range(4), **draws)
    np.testing.assert_allclose(places.numpy(), expected, rtol=1e-14)
    for n, row in enumerate(expected):
        own = {name: t[n % len(t)].tolist() for name, t in given.items()}
        exact = encoding.implementation("sympy")(range(4), **own, **options)
        np.testing.assert_allclose([float(e) for e in exact], row, rtol=1e-13)


@RECORDS
def test_variants_differ(encoding):
    heads = max(v.heads for v in encoding.variants)
    results = [reference(encoding, v, 48, heads) for v in encoding.variants]
    for n, left in enumerate(results):
        for right in results[:n]:
            assert left.shape != right.shape or np.abs(left - right).max() > 1e-3


def modules_of_posedu():
    for found in pkgutil.walk_packages(posedu.__path__, "posedu."):
        if found.name.split(".")[1] in ("numpy", "torch", "sympy"):
            yield import_module(found.name)


def test_every_choice_of_every_option_is_in_some_variant(monkeypatch):
    offered, used = {}, {}

    def noting(name, value, choices):
        offered.setdefault(name, set()).update(get_args(choices) or choices)
        used.setdefault(name, set()).add(value)
        return require_choice(name, value, choices)

    require_choice = _arguments.require_choice
    for module in modules_of_posedu():
        if hasattr(module, "require_choice"):
            monkeypatch.setattr(module, "require_choice", noting)
    for encoding in CATALOG.values():
        for variant in encoding.variants:
            reference(encoding, variant, 48, variant.heads)
    assert {"layout", "series", "coefficients", "gate", "form"} <= offered.keys()
    assert {"gates", "scaling", "remainder", "slopes", "sides"} <= offered.keys()
    missing = {name: offered[name] - used[name] for name in offered}
    assert {name: values for name, values in missing.items() if values} == {}


@RECORDS
def test_hooks_are_those_that_the_module_uses(encoding):
    module = make(encoding, encoding.variants[0], 48)
    if isinstance(module, Attention):  # a whole block
        module = module.encoding
    assert isinstance(module, Encoding)
    assert encoding.hooks == tuple(filter(module.uses, (*MODEL_HOOKS, *LAYER_HOOKS)))


def evaluate(formula, encoding, variant, d):
    """The value of a displayed formula, with the letters that the records document."""
    own = {"heads", "gate_heads"} & {*encoding.sizes, *variant.sizes}
    letters = {"d": d, "h": HEADS if own else 1, "D": HEADS * d, "n": TOKENS}
    letters |= {"N": encoding.axes, "b": variant.keywords.get("block")}
    numbers = {**variant.keywords, **letters}
    known = {n: sp.Integer(v) for n, v in numbers.items() if isinstance(v, int)}
    return sp.sympify(formula, locals=known)


@variants_of(*KINDS)
def test_the_displayed_number_of_parameters_is_the_module_s(encoding, variant):
    trained = encoding.trained(variant, d=48, heads=HEADS)
    formula = variant.parameters or encoding.parameters
    assert evaluate(formula, encoding, variant, 48) == trained
    if variant is encoding.variants[0]:
        assert encoding.learned == (trained > 0)


def test_trained_parameters_are_those_that_require_a_gradient():
    encoding = CATALOG["learned"]
    [module, *_] = (encoding.make(v, d=48, heads=HEADS) for v in encoding.variants)
    assert encoding.trained(encoding.variants[0], d=48, heads=HEADS) == 64 * 96
    assert sum(p.numel() for p in module.parameters()) == 64 * 96
    frozen = CATALOG["random"]
    assert frozen.trained(frozen.variants[0], d=48, heads=HEADS) == 0


@variants_of("features")
def test_the_unit_is_what_the_head_dimension_is_a_multiple_of(encoding, variant):
    unit = encoding.divisor(variant)
    for d in (unit, 3 * unit):
        make(encoding, variant, d, 1)
    wrong, message = {unit - 1, unit + 1 if unit > 1 else 0}, "must be a positive mult"
    if encoding.any_wider:
        make(encoding, variant, unit + 1, 1)
        wrong, message = {unit - 1}, f"must be at least {unit}, the width of the code"
    for d in wrong:
        with pytest.raises(ValueError, match=message):
            make(encoding, variant, d, 1)


EVERY = {**CATALOG, **ROPE_SCALINGS}
EVERY_RECORD = pytest.mark.parametrize("record", EVERY.values(), ids=EVERY)


@EVERY_RECORD
def test_records_are_filled(record):
    may_be_empty = {"function", "special_cases", "adopters", "axes", "sizes", "reach"}
    may_be_empty |= {"any_wider", "crosses"}
    may_be_empty |= {"treated", "arxiv", "url", "published", "attention_factor"}
    pages = {"chapter", "lab"}
    for name in record.__dataclass_fields__.keys() - may_be_empty - pages:
        assert getattr(record, name) or name == "implementation_sizes", name
    assert bool(record.lab) == bool(record.chapter)
    assert bool(record.arxiv) != bool(record.url and record.published)
    published = int(re.search(r"\d{4}", record.paper)[0])
    assert published - record.year in (0, 1)


def test_a_name_is_one_record_s():
    assert EVERY.keys() == {record.name for record in EVERY.values()}
    assert len(EVERY) == len(CATALOG) + len(ROPE_SCALINGS)


@EVERY_RECORD
def test_a_record_and_its_file_are_named_alike(record):
    """The file has the record's name; the part after a hyphen names a variant of it."""
    folder, _, file = record.file.partition(".")
    named = record.name.partition("-")[0], record.name.replace("-", "_")
    shared = sum(other.file == record.file for other in EVERY.values()) > 1
    assert file in named or record.name == folder or shared
    assert record in chain(*(vars(f).get("ENCODINGS", ()) for f in FAMILIES), MAPS)
    assert record.function in ("", *vars(import_module(f"posedu.numpy.{record.file}")))


@RECORDS
def test_kinds_and_implementations(encoding):
    assert encoding.kind in KINDS
    for implementation in IMPLEMENTATIONS:
        assert (
            encoding.implementation(implementation).__module__
            == f"posedu.{implementation}.{encoding.file}"
        )


@RECORDS
def test_special_cases_point_at_encodings(encoding):
    for case in encoding.special_cases:
        assert case.of in CATALOG or case.of == ATTENTION
        assert case.of != encoding.name
        assert case.proof.startswith("eq-") and case.when


def test_a_special_case_is_of_a_known_kind(unchecked):
    with pytest.raises(ValueError, match=r"kind must be 'is' or .* got 'almost'"):
        SpecialCase("rope", "something holds", "eq-x", kind="almost")


def test_a_record_cannot_be_changed():
    with pytest.raises(TypeError):
        CATALOG["rope"].variants[0].options["layout"] = "half"
    with pytest.raises(TypeError):
        CATALOG["fope"].variants[0].module["coefficients"] = "code"


@pytest.mark.parametrize("module", ["posedu", "posedu.catalog", "posedu.numpy.rotary"])
def test_importing_is_cheap(module):
    heavy = "{'torch', 'sympy', 'matplotlib', 'IPython'}"
    code = f"import sys, {module}; print({heavy} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "module, others",
    [
        ("posedu.numpy", {"scipy.linalg", "tomllib"}),
        ("posedu.torch", {"scipy.linalg", "tomllib"}),
        ("posedu.book.timing.peers", {"torch._dynamo"}),
    ],
)
def test_importing_leaves_alone_what_is_not_always_used(module, others):
    code = (
        "import sys; before = set(sys.modules); "
        f"import {module}; print(*{others!r} & (set(sys.modules) - before))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == []


@pytest.mark.parametrize(
    "implementation, others",
    [
        ("numpy", {"torch", "sympy", "posedu.torch", "posedu.sympy"}),
        ("sympy", {"torch", "posedu.torch", "posedu.numpy"}),
        ("torch", {"posedu.numpy", "posedu.sympy"}),
    ],
)
def test_implementations_import_no_other_implementation(implementation, others):
    families = sorted({e.family for e in CATALOG.values()})
    modules = ", ".join(f"posedu.{implementation}.{family}" for family in families)
    code = f"import sys, {modules}; print(*sorted({others!r} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == []


@pytest.mark.parametrize("name", CATALOG)
def test_defaults_of_the_implementations_agree(name):
    reference, *others = (
        {
            parameter.name: parameter.default
            for parameter in inspect.signature(
                CATALOG[name].implementation(implementation)
            ).parameters.values()
            if isinstance(parameter.default, int | float | sp.Number)
            and not isinstance(parameter.default, bool)
        }
        for implementation in ("numpy", "torch", "sympy")
    )
    for other in others:
        for parameter in reference.keys() & other.keys():
            assert abs(other[parameter] - reference[parameter]) < 1e-15, parameter


DEFAULTS = {  # of modules alone
    "learned": {"std": 0.02},  # BERT
    "random": {"std": 1.0},
    "t5": {"buckets": 32},
    "fire": {"width": 32, "c": 0.1},  # arXiv 2310.04418, its listing
    "dape": {"width": 32},  # arXiv 2405.14722
    "inkling": {"table_length": 1024, "d_rel": 16},  # transformers 5.23.0
    "tupe": {"buckets": 32, "distance": 128},  # arXiv 2006.15595, its code
    "fope": {"sigma": 0.3},  # arXiv 2412.17739, its code
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_of_modules_are_the_published_ones(name):
    parameters = inspect.signature(CATALOG[name].implementation("torch")).parameters
    assert {p: parameters[p].default for p in DEFAULTS[name]} == DEFAULTS[name]


@pytest.mark.parametrize("implementation", ["numpy", "torch", "sympy"])
def test_the_papers_base_is_every_function_s_default(implementation):
    """100 of axial RoPE, 10 of its mixed form (arXiv 2403.13298), 10,000 of most."""
    package = import_module(f"posedu.{implementation}")
    paper = {f"{package.__name__}.rotary.axial": 100, "posedu.torch.rotary.mixed": 10}
    paper[f"{package.__name__}.path.selective_rope"] = 500000  # the authors' code
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for call in vars(import_module(module.name)).values():
            if not inspect.isfunction(call) and not inspect.isclass(call):
                continue
            if call.__module__.startswith(package.__name__):
                base = inspect.signature(call).parameters.get("base")
                if base is not None and base.default is not base.empty:
                    assert base.default == paper.get(call.__module__, 10000), call
