"""Every record of the catalog: its faces load and take its variants."""

import importlib
import inspect
import subprocess
import sys

import numpy as np
import pytest
import sympy as sp
import torch

from posedu.catalog import ATTENTION, CATALOG
from posedu.torch import Encoding

RECORDS = pytest.mark.parametrize("encoding", CATALOG.values(), ids=CATALOG)
VARIANTS = pytest.mark.parametrize(
    "encoding, options",
    [(e, dict(v)) for e in CATALOG.values() for v in e.variants],
    ids=lambda v: " ".join(v.values()) if isinstance(v, dict) else v.name,
)


@VARIANTS
def test_three_faces_take_each_variant_and_agree(encoding, options):
    x, positions = np.array([[0.5, -1.0, 2.0, 0.25], [1.0, 3.0, -2.0, 0.75]]), [3, -5]
    reference = encoding.face("numpy")(x, positions, **options)
    fast = encoding.face("torch")(4, **options)(
        torch.tensor(x), torch.tensor(positions)
    )
    exact = [
        encoding.face("sympy")(sp.Matrix(row), i, **options).evalf(20)
        for row, i in zip(x, positions, strict=True)
    ]
    np.testing.assert_allclose(fast.numpy(), reference, rtol=0, atol=1e-13)
    exact = np.array(exact, dtype=float).reshape(x.shape)
    np.testing.assert_allclose(exact, reference, rtol=0, atol=1e-13)


@RECORDS
def test_variants_differ(encoding):
    x, positions = np.arange(12.0).reshape(2, 6), [3, 5]
    results = [encoding.face("numpy")(x, positions, **v) for v in encoding.variants]
    for n, left in enumerate(results):
        for right in results[:n]:
            assert np.abs(left - right).max() > 1e-3


@RECORDS
def test_doors_are_those_that_the_module_opens(encoding):
    module = encoding.face("torch")
    assert issubclass(module, Encoding)
    doors = ("embed", "rotate", "bias", "weigh", "mix")
    opened = tuple(d for d in doors if getattr(module, d) is not getattr(Encoding, d))
    assert encoding.doors == opened


@RECORDS
def test_claims_about_parameters_are_true(encoding):
    module = encoding.face("torch")(8, **encoding.variants[0])
    trained = sum(p.numel() for p in module.parameters())
    assert encoding.parameters == str(trained)
    assert encoding.learned == "no" if trained == 0 else "yes"


@RECORDS
def test_records_are_filled_and_named_after_their_family(encoding):
    assert CATALOG[encoding.name] is encoding
    assert all(
        bool(getattr(encoding, f))
        for f in encoding.__dataclass_fields__
        if f != "special_cases"
    )
    for face in ("numpy", "torch", "sympy"):
        module = encoding.face(face).__module__
        assert module == f"posedu.{face}.{encoding.family}"
    assert encoding.chapter.startswith(f"book/{encoding.family}/")
    assert encoding.lab == f"notebooks/{encoding.family}"
    assert encoding.exercises == f"notebooks/exercises/{encoding.family}"
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
@RECORDS
def test_faces_know_nothing_of_each_other(encoding, face, others):
    module = f"posedu.{face}.{encoding.family}"
    code = f"import sys, {module}; print(*sorted({others!r} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == []


CONVENTIONS = {"layout", "spacing", "base", "rotary_dim", "source", "target"}


@pytest.mark.parametrize(
    "module",
    [f"posedu.{f}.{m}" for f in ("numpy", "torch") for m in ("absolute", "rotary")],
)
def test_conventions_are_keywords_and_a_layout_has_no_default(module):
    names = vars(importlib.import_module(module))
    public = [v for n, v in names.items() if n[0] != "_" and callable(v)]
    own = [v for v in public if getattr(v, "__module__", "") == module]
    assert own
    for function in own:
        for name, parameter in inspect.signature(function).parameters.items():
            if name in CONVENTIONS:
                assert parameter.kind is parameter.KEYWORD_ONLY, (function, name)
            if name == "layout":
                assert parameter.default is parameter.empty, function


@pytest.mark.parametrize("name", CATALOG)
def test_the_papers_base_is_every_face_s_default(name):
    for face in ("numpy", "torch", "sympy"):
        parameters = inspect.signature(CATALOG[name].face(face)).parameters
        assert parameters["base"].default == 10000
