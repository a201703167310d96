"""The exercises of the chapter fope."""

EXERCISES = ()
