"""Elements of a chapter: sliders, folded code, formula terms linked to code."""
