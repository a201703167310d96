"""What the site is made with: execution, home, meta tags, scripts, notices."""
