"""The exercises of the chapter comrope."""

EXERCISES = ()
