"""The book's own Sphinx extension: pages made from the package, and small repairs."""

from posedu_book import catalog, claims, exercises, notation, pages, status


def setup(app):
    """Register every part."""
    for part in (catalog, claims, exercises, notation, pages, status):
        part.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
