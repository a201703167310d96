"""The exercises of the chapter liere."""

EXERCISES = ()
