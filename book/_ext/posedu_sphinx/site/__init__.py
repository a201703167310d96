"""Parts of the site: execution of pages, home, meta tags, scripts, notices."""
