"""The book's own tooling: a Sphinx extension, and the commands behind the Makefile."""

import gc
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PARTS = (
    *("navigation.redirects", "reference.catalog", "ledger.proof_ledger"),
    *("search.index", "exercises.exercise_list", "reference.filters"),
    *("chapters.folds", "site.home", "chapters.in_code", "site.defer_scripts"),
    *("reference.notation", "navigation.downloads", "exercises.questions"),
    *("navigation.reading_time", "site.third_party_notices", "chapters.sliders"),
    *("ledger.statements", "ledger.status", "site.meta_tags", "reference.timings"),
    *("navigation.chapter_links", "reference.renamed", "site.progress"),
    *("teaching.slides", "teaching.courses", "teaching.projects"),
    *("reference.compare", "reference.sorting"),
    *("site.one_stylesheet", "site.plain_tokens", "site.generated_pages"),
    *("site.pdf_links", "site.compact"),
)


def setup(app):
    """Register every module of the Sphinx extension: its directives, roles and events.

    The garbage collector runs less often: a build keeps many large documents alive, and
    scanning them took a fifth of the build's time.
    """
    gc.set_threshold(50_000, 20, 20)
    from importlib import import_module

    for part in PARTS:
        import_module(f"posedu_sphinx.{part}").setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
