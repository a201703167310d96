"""Build of the website: execution of pages, home, meta tags, scripts, notices."""
