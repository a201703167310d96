"""Contents of the book, links from chapters to notebooks, redirects, reading paths."""
