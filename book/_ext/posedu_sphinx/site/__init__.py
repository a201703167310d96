"""Build of the website: runs of pages, home page, meta tags, scripts, licenses."""
