"""The book's own tooling: a Sphinx extension, and the commands behind the Makefile."""

import gc

PARTS = (
    *("beside", "catalog", "claims", "entries", "exercises", "filters", "folds"),
    *("home", "in_code", "light", "notation", "pages", "questions", "reading"),
    *("served", "sliders", "statements", "status", "tags", "timings", "ways"),
)


def setup(app):
    """Register every part of the extension.

    Documents are large and live long: to look for garbage among them took a fifth of
    the time.
    """
    gc.set_threshold(50_000, 20, 20)
    from importlib import import_module

    for part in PARTS:
        import_module(f"posedu_book.{part}").setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
