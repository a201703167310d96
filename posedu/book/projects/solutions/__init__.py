"""Reference solutions of the projects, and answers that do not reach their goals.

The module of each project has its name. ``ANSWERS`` are the functions of the reference
solution, in the order of the project's ``answers``; ``INSUFFICIENT`` maps a label, such
as "no-scaling", to the functions of an answer that misses a goal. ``RUBRIC`` says how
a teacher marks an answer.
"""
