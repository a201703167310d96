"""Write the repository's address into every file that states it.

``make address URL=https://…`` writes the address into ``_config.yml`` (buttons), the
set-up cell of every notebook, ``CITATION.cff`` and the badges of ``README.md``. An
empty address removes the old one.
"""

import os
import re

from posedu_sphinx import ROOT
from posedu_sphinx.exercises import notebooks
from posedu_sphinx.exercises.notebooks import VALID

COLAB = "https://colab.research.google.com"
TESTS = "{url}/actions/workflows/book.yml"
LAB = f"{COLAB}/github/{{repository}}/blob/main/notebooks/exercises/rope.ipynb"
BADGES = f"""\
[![tests]({TESTS}/badge.svg)]({TESTS})
[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({LAB})
"""

# For each file: the place of the address, its text, and the text without an address.
PLACES = {
    "_config.yml": (r'(?m)^  url: ".*"$', '  url: "{url}"', '  url: ""'),
    "CITATION.cff": (
        r"(?m)^(repository-code: .*\n)?\Z",
        "repository-code: {url}\n",
        "",
    ),
    "README.md": (r"(?s)(?<=<!-- badges -->\n).*?(?=<!-- /badges -->)", BADGES, ""),
}


def set_address(url):
    """Write the repository's address into every file that has it; "" removes it.

    ``url`` must be ``https://github.com/OWNER/NAME`` or empty, else ValueError.
    """
    valid = VALID.fullmatch(url)
    if url and not valid:
        raise ValueError(
            f"the address must be https://github.com/OWNER/NAME, got {url!r}"
        )
    for name, (place, stated, absent) in PLACES.items():
        path = ROOT / name
        new = stated.format(url=url, repository=valid[1]) if valid else absent
        text = path.read_text(encoding="utf-8")
        text, count = re.subn(place, lambda _, new=new: new, text, count=1)
        if not count:
            raise ValueError(f"{name} must have a place for the address: see PLACES")
        path.write_text(text, encoding="utf-8")
    for path in notebooks.paths():
        path.write_text(notebooks.expected_text(path), encoding="utf-8")


if __name__ == "__main__":
    set_address(os.environ.get("URL", ""))
