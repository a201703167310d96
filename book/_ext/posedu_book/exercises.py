"""The exercises of a chapter, from the one notebook that holds their solutions."""

import json
import re
from pathlib import Path

from sphinx.util.docutils import SphinxDirective

from posedu_book.markup import parse

HEADING = re.compile(r"^## (?P<name>[\w-]+) · (?P<title>.+)\n+", re.M)
MARKERS = re.compile(r"^[ \t]*### (BEGIN|END) SOLUTION\n?", re.M)
DETAILS = re.compile(r"</?details>|<summary>.*?</summary>")


class ExerciseList(SphinxDirective):
    """``{exercise-list} family``: statements, folded hints and folded solutions."""

    required_arguments = 1

    def run(self):
        """Rewrite the solved notebook's cells as exercise and solution boxes."""
        family = self.arguments[0]
        path = Path("notebooks/exercises/solved") / f"{family}.ipynb"
        self.env.note_dependency(str(path))
        source = (Path(self.env.srcdir) / path).read_text(encoding="utf-8")
        parts = {}
        for cell in json.loads(source)["cells"]:
            tag = cell["metadata"].get("posedu", {})
            if "exercise" in tag:
                text = "".join(cell["source"])
                parts.setdefault(tag["exercise"], {})[tag["role"]] = text
        return [
            node
            for name, roles in parts.items()
            for node in parse(self, markdown(name, roles))
        ]


def markdown(name, roles):
    """One exercise as MyST."""
    heading = HEADING.search(roles["statement"])
    statement = HEADING.sub("", roles["statement"], count=1).strip()
    hint = DETAILS.sub("", roles["hint"]).strip()
    solution = MARKERS.sub("", roles["solution"]).strip()
    return f"""
`````{{exercise}} {heading["title"]}
:label: {name}

{statement}

````{{dropdown}} Hint
{hint}
````
`````

`````{{solution}} {name}
:class: dropdown

```python
{solution}
```
`````
"""


def setup(app):
    """Register the directive."""
    app.add_directive("exercise-list", ExerciseList)
