"""What a chapter's text may hold: sliders, folded code, terms lit up in the source."""
