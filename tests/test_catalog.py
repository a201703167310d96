"""Every record of the catalog: its faces load and take its variants."""

import inspect
import subprocess
import sys
from itertools import chain

import numpy as np
import pytest
import sympy as sp
import torch

from posedu.catalog import ATTENTION, CATALOG
from posedu.torch import Attention, Encoding

HEADS = 2
ON_FEATURES = [e for e in CATALOG.values() if not e.inputs]
INSIDE = [e for e in CATALOG.values() if e.inputs]
RECORDS = pytest.mark.parametrize("encoding", CATALOG.values(), ids=CATALOG)


def variants_of(encodings):
    return pytest.mark.parametrize(
        "encoding, options",
        [(e, dict(v)) for e in encodings for v in e.variants],
        ids=lambda v: " ".join(map(str, v.values())) if isinstance(v, dict) else v.name,
    )


VARIANTS = variants_of(CATALOG.values())


def value_of(formula, **sizes):
    """One of the catalog's formulas in d, b, N, h and npos."""
    symbols = {name: sp.Symbol(name) for name in ("d", "b", "N", "h", "npos")}
    return int(sp.sympify(formula, locals=symbols).subs(sizes))


def head_dimension(encoding, options, units):
    block, axes = options.get("block", 2), encoding.axes or 1
    return units * value_of(encoding.unit, b=block, N=axes)


def make(encoding, d, options):
    """A module in float64, with parameters of each head where it may have them."""
    torch.manual_seed(0)
    face = encoding.face("torch")
    own = {"heads": HEADS} if "heads" in inspect.signature(face).parameters else {}
    options = {**options, **encoding.module_options}
    if encoding.name == "stickbreaking":
        own = {}  # its heads are for the sink, a remainder with parameters
    if encoding.inputs:
        return face(**encoding.sizes(d, HEADS) | own, **options).double()
    return face(d, **options, **own).double()


def parameters_of(module):
    named = module.named_parameters()
    return {name.replace(".", "_"): p.detach().numpy() for name, p in named}


def tokens(encoding, d):
    """Two heads of two tokens, and their positions."""
    axes = () if encoding.axes is None else (encoding.axes,)
    rng = np.random.default_rng(1)
    return rng.normal(size=(HEADS, 2, d)), rng.integers(-5, 5, size=(2, *axes))


@variants_of(ON_FEATURES)
def test_three_faces_take_each_variant_and_agree(encoding, options):
    d = head_dimension(encoding, options, 2)
    module, (x, positions) = make(encoding, d, options), tokens(encoding, d)
    parameters = parameters_of(module)
    reference = encoding.face("numpy")(x, positions, **options, **parameters)
    fast = module(torch.tensor(x), torch.tensor(positions)).detach()
    np.testing.assert_allclose(fast.numpy(), reference, rtol=0, atol=1e-13)
    if options.get("block", 2) > 4:
        return  # no closed form: the matrix exponential is not known to the exact face
    rational = np.vectorize(sp.Rational, otypes=[object])
    exact = [
        encoding.face("sympy")(
            sp.Matrix(rational(x[head, token])),
            rational(positions[token]).tolist(),
            **options,
            **{n: rational(p[head]).tolist() for n, p in parameters.items()},
        ).evalf(20)
        for head in range(HEADS)
        for token in range(2)
    ]
    exact = np.array(exact, dtype=float).reshape(x.shape)
    np.testing.assert_allclose(exact, reference, rtol=0, atol=1e-13)


@RECORDS
def test_variants_differ(encoding):
    d = 48  # a multiple of what any variant needs
    rng = np.random.default_rng(1)
    if encoding.inputs:
        given = [rng.normal(size=(HEADS, 4, d)) for _ in encoding.inputs]
        if encoding.inputs[-1] == "x":
            given[-1] = rng.normal(size=(4, HEADS * d))
    else:
        given = tokens(encoding, d)
    results = []
    for options in encoding.variants:
        parameters = parameters_of(make(encoding, d, options))
        if "table" in parameters:  # which starts at 0
            shape = parameters["table"].shape
            parameters["table"] = np.random.default_rng(2).normal(size=shape)
        results.append(encoding.face("numpy")(*given, **options, **parameters))
    for n, left in enumerate(results):
        for right in results[:n]:
            assert np.abs(left - right).max() > 1e-3


@RECORDS
def test_doors_are_those_that_the_module_opens(encoding):
    module = make(encoding, 48, encoding.variants[0])
    if isinstance(module, Attention):  # a whole block
        module = module.encoding
    assert isinstance(module, Encoding)
    doors = ("embed", "rotate", "bias", "weigh", "mix")
    assert encoding.doors == tuple(filter(module.opens, doors))


@VARIANTS
def test_claims_about_parameters_are_true(encoding, options):
    d, block, axes = 48, options.get("block", 2), encoding.axes or 1
    module = make(encoding, d, options)
    trained = sum(p.numel() for p in module.parameters() if p.requires_grad)
    npos = encoding.module_options.get("npos", 0)
    sizes = {"d": d, "b": block, "N": axes, "h": HEADS, "npos": npos}
    assert value_of(encoding.parameters, **sizes) == trained
    assert encoding.learned == ("yes" if trained else "no")


@variants_of(ON_FEATURES)
def test_the_unit_is_what_the_head_dimension_is_a_multiple_of(encoding, options):
    unit = head_dimension(encoding, options, 1)
    for d in (unit, 3 * unit):
        make(encoding, d, options)
    for d in (unit - 1, unit + 1):
        with pytest.raises(ValueError, match="must be a positive multiple"):
            make(encoding, d, options)


@RECORDS
def test_records_are_filled_and_named_after_their_family(encoding):
    assert CATALOG[encoding.name] is encoding
    may_be_empty = {"special_cases", "adopters", "axes", "inputs", "module_options"}
    for name in encoding.__dataclass_fields__.keys() - may_be_empty:
        assert getattr(encoding, name), name
    for face in ("numpy", "torch", "sympy"):
        module = encoding.face(face).__module__
        assert f"{module}.".startswith(f"posedu.{face}.{encoding.family}.")
    folder, family, chapter = encoding.chapter.split("/")
    assert (folder, family) == ("book", encoding.family)
    assert encoding.lab.startswith("notebooks/")
    assert encoding.exercises in (
        f"notebooks/exercises/{family}",
        f"notebooks/exercises/{chapter}",
    )
    assert str(encoding.year)[2:] == encoding.arxiv[:2]
    assert encoding.paper.endswith(str(encoding.year))


@RECORDS
def test_special_cases_point_at_encodings(encoding):
    for case in encoding.special_cases:
        assert case.of in CATALOG or case.of == ATTENTION
        assert case.of != encoding.name
        assert case.proof.startswith("eq-") and case.when


def test_a_record_cannot_be_changed():
    with pytest.raises(TypeError):
        CATALOG["rope"].variants[0]["layout"] = "half"
    with pytest.raises(TypeError):
        CATALOG["fope"].module_options["coefficients"] = "code"


@pytest.mark.parametrize("module", ["posedu", "posedu.catalog", "posedu.numpy.rotary"])
def test_importing_is_cheap(module):
    heavy = "{'torch', 'sympy', 'matplotlib', 'IPython'}"
    code = f"import sys, {module}; print({heavy} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "face, others",
    [
        ("numpy", {"torch", "sympy", "posedu.torch", "posedu.sympy"}),
        ("sympy", {"torch", "posedu.torch", "posedu.numpy"}),
        ("torch", {"posedu.numpy", "posedu.sympy"}),
    ],
)
@pytest.mark.parametrize("family", sorted({e.family for e in CATALOG.values()}))
def test_faces_know_nothing_of_each_other(family, face, others):
    module = f"posedu.{face}.{family}"
    code = f"import sys, {module}; print(*sorted({others!r} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == []


@pytest.mark.parametrize("name", CATALOG)
def test_the_papers_base_is_every_face_s_default(name):
    paper = {"axial": 100, "mixed": 10}
    faces = (CATALOG[name].face(face) for face in ("numpy", "torch", "sympy"))
    for parameter in chain(*(inspect.signature(f).parameters.values() for f in faces)):
        if parameter.name == "base":
            assert parameter.default == paper.get(name, 10000)
