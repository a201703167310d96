"""Status page: versions of packages, device and date of the build."""

import datetime
import os
import platform
from importlib import metadata

from sphinx.util.docutils import SphinxDirective

from posedu_sphinx.markup import table

PACKAGES = (
    "posedu",
    "numpy",
    "sympy",
    "torch",
    "matplotlib",
    "jupyter-book",
    "sphinx",
    "myst-nb",
)


class Status(SphinxDirective):
    """Directive ``{build-status}``: package versions, device and date of the build."""

    def run(self):
        """Return a table of the date, versions, processor and GPU."""
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        rows = [
            ["Built", today],
            ["Python", platform.python_version()],
            ["Processor", f"{platform.machine()}, {os.cpu_count()} cores"],
            ["GPU", gpu],
            *[[name, metadata.version(name)] for name in PACKAGES],
        ]
        return [table(["What", "Which"], rows)]


def setup(app):
    """Register the ``build-status`` directive."""
    app.add_directive("build-status", Status)
