"""Contents, links between a chapter and its notebooks, redirects, reading paths."""
