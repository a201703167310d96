"""Search of the site: entries from the built pages, aliases, files for the browser."""
