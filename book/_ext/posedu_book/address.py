"""Set the public address everywhere that needs it: ``make address URL=https://…``.

Everywhere is: ``_config.yml`` (buttons), the set-up cell of every notebook,
``CITATION.cff``, the badges of ``README.md``. An empty address takes it out again.
"""

import re
import sys

from posedu_book import notebooks
from posedu_book.notebooks import ROOT

VALID = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+")
BADGES = re.compile(r"(<!-- badges -->\n).*?(<!-- /badges -->)", re.S)
COLAB = "https://colab.research.google.com"


def set_address(url):
    """Write the address, or its absence, into every file that states it."""
    if url and not VALID.fullmatch(url):
        raise ValueError(
            f"the address must be https://github.com/OWNER/NAME, got {url}"
        )
    config = ROOT / "_config.yml"
    _rewrite(config, r'^  url: ".*"$', f'  url: "{url}"')
    citation = ROOT / "CITATION.cff"
    kept = [
        line
        for line in citation.read_text(encoding="utf-8").splitlines()
        if not line.startswith("repository-code:")
    ]
    if url:
        kept.append(f'repository-code: "{url}"')
    citation.write_text("\n".join(kept) + "\n", encoding="utf-8")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text(
        BADGES.sub(lambda m: m[1] + badges(url) + m[2], text), encoding="utf-8"
    )
    for path, content in notebooks.wanted():
        path.write_text(content, encoding="utf-8")


def badges(url):
    """The badges of the README, or nothing."""
    if not url:
        return ""
    repository = url.removeprefix("https://github.com/")
    test = f"{url}/actions/workflows/book.yml"
    colab = f"{COLAB}/github/{repository}/blob/main/notebooks/exercises/rope.ipynb"
    return (
        f"[![tests]({test}/badge.svg)]({test})\n"
        f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({colab})\n"
    )


def stated():
    """Every file that states an address, with the address it states."""
    found = {"_config.yml": notebooks.address()}
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    match = re.search(r'^repository-code: "(.*)"$', citation, re.M)
    found["CITATION.cff"] = match[1] if match else ""
    readme = BADGES.search((ROOT / "README.md").read_text(encoding="utf-8"))
    match = VALID.search(readme[0])
    found["README.md"] = match[0] if match else ""
    for path, _ in notebooks.wanted():
        match = re.search(r'ADDRESS = \\"(.*?)\\"', path.read_text(encoding="utf-8"))
        found[str(path.relative_to(ROOT))] = match[1] if match else "no set-up cell"
    return found


def _rewrite(path, pattern, line):
    text, count = re.subn(pattern, line, path.read_text(encoding="utf-8"), flags=re.M)
    if count != 1:
        raise ValueError(f"{path.name} has {count} lines that match {pattern}")
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    set_address(sys.argv[1] if len(sys.argv) > 1 else "")
