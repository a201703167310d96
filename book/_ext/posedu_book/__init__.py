"""The book's own tooling: a Sphinx extension, and the commands behind the Makefile."""

PARTS = (
    *("beside", "catalog", "claims", "exercises", "folds", "home", "in_code"),
    *("light", "notation", "pages", "questions", "reading", "served", "sliders"),
    *("status", "tags", "timings", "ways"),
)


def setup(app):
    """Register every part of the extension."""
    from importlib import import_module

    for part in PARTS:
        import_module(f"posedu_book.{part}").setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
