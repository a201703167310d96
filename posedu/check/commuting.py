"""The exercises of the chapter commuting."""

EXERCISES = ()
