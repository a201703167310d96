"""The proof ledger refuses to build a book with an unproved claim."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from posedu_sphinx import ROOT
from posedu_sphinx.ledger import proof_ledger

EXTENSION = ROOT / "book" / "_ext"
CONF = """\
extensions = ["myst_nb", "sphinx_proof", "posedu_sphinx.ledger.proof_ledger"]
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "force"
root_doc = "book/index"
exclude_patterns = ["_build"]
"""
HEADER = """\
---
file_format: mystnb
kernelspec: {name: python3, display_name: Python 3}
---

# Page

"""
EQUATION = "$$\na = b\n$$ (eq-one)\n"
THEOREM = "```{prf:theorem}\n:label: thm\n\nTrue.\n```\n"


def cell(*labels):
    calls = "\n".join(f'prove("{label}", 1, 1, covers="1")' for label in labels)
    code = f"from posedu.book.proof import prove\n{calls}"
    return f"```{{code-cell}} ipython3\n{code}\n```\n"


@pytest.fixture
def build(tmp_path):
    def run(*parts, unread="eq-one = 'numbers alone'"):
        (tmp_path / "book").mkdir()
        (tmp_path / "conf.py").write_text(CONF)
        (tmp_path / "book" / "data").mkdir()
        (tmp_path / proof_ledger.UNREAD).write_text(unread)
        (tmp_path / "book" / "page.md").write_text(HEADER + "\n".join(parts))
        ledger = "# Index\n\n```{toctree}\npage\n```\n\n```{proof-ledger}\n```\n"
        (tmp_path / "book" / "index.md").write_text(ledger)
        command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q"]
        done = subprocess.run(
            [*command, str(tmp_path), str(tmp_path / "_build")],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(EXTENSION)},
        )
        html = tmp_path / "_build" / "book" / "index.html"
        return done, html.read_text("utf-8") if html.exists() else ""

    return run


def test_a_claim_with_its_check_builds_and_is_listed(build):
    definition = "$$\nc = 1\n$$ (def-c)\n"
    done, ledger = build(EQUATION, definition, cell("eq-one"))
    assert done.returncode == 0, done.stderr
    assert "1 claims, each with one check" in ledger
    assert 'href="page.html#equation-eq-one"' in ledger
    assert "proved symbolically" in ledger
    assert "not read: numbers alone" in ledger


FAULTS = {
    "claim eq-one has 2 checks": EQUATION + cell("eq-one", "eq-one"),
    "check eq-two belongs to no equation": cell("eq-two"),
    "claim eq-three has 0 checks": EQUATION.replace("eq-one", "eq-three"),
    "displayed equation without an eq- or def-": "$$\na = b\n$$\n",
    "theorem without a labeled claim": THEOREM,
    "check eq-two reads no formula; say why in book/data/unread.toml": "",
    "book/data/unread.toml names eq-gone, but no check that reads no formula": "",
}


def test_every_fault_is_a_warning_and_stops_the_build(build):
    done, _ = build(*FAULTS.values(), unread="eq-gone = 'gone'")
    assert done.returncode != 0
    assert [fault for fault in FAULTS if fault not in done.stderr] == []


def test_a_failed_check_stops_the_build(build):
    done, _ = build(EQUATION, cell("eq-one").replace("1, 1,", "1, 2,"))
    assert done.returncode != 0
    assert "Executing notebook failed" in done.stderr


def test_a_check_on_another_page_than_its_claim_is_a_warning(monkeypatch):
    pages = {
        "one": {"claims": ["eq-x"], "checks": []},
        "two": {"claims": [], "checks": [{"label": "eq-x", "typeset": [1, 1]}]},
    }
    warned = []
    monkeypatch.setattr(proof_ledger, "reasons", lambda folder: {})
    monkeypatch.setattr(proof_ledger, "store", lambda env: pages)
    monkeypatch.setattr(
        proof_ledger, "warn", lambda text, page=None: warned.append(text)
    )
    proof_ledger.balance(None, SimpleNamespace(srcdir=None))
    assert warned == ["claim eq-x is checked in two, stated in one"]


def test_few_claims_are_not_read_and_each_has_a_reason():
    pages = (ROOT / "book").rglob("*.md")
    claim = re.compile(r"^\$\$ \((eq-[\w-]+)\)$", re.M)
    claims = {one for page in pages for one in claim.findall(page.read_text("utf-8"))}
    unread = proof_ledger.reasons(ROOT)
    assert unread.keys() <= claims and len(unread) <= 0.05 * len(claims)
    assert all(len(reason.split()) > 3 for reason in unread.values())
