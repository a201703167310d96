"""Reference pages: at a glance, special cases, notation, timings."""
