"""Reference pages: table of encodings, map of special cases, notation, timings."""
