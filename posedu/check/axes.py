"""The exercises of the chapter axes."""

EXERCISES = ()
