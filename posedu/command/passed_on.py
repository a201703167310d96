"""Parts that hand their arguments on: ``posedu time`` and ``posedu run``."""

from importlib import import_module
from typing import Annotated

import typer

from posedu.command.output import refuse

EXPERIMENTS = (
    "characters",
    "context_extension",
    "digits",
    "needles",
    "new_angles",
    "sequences",
)
Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[OPTIONS]...", help="See --help.")
]


def time(arguments: Arguments = None) -> None:
    """Time an encoding; posedu time --help lists the options."""
    module = import_module("posedu.book.timing.__main__")
    raise typer.Exit(module.main(arguments or []))


def run(
    experiment: Annotated[
        str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}.")
    ],
    arguments: Arguments = None,
) -> None:
    """Run an experiment of the book."""
    if experiment not in EXPERIMENTS:
        refuse(experiment, f"the experiments are {', '.join(EXPERIMENTS)}")
    module = import_module(f"posedu.book.experiments.{experiment}")
    raise typer.Exit(module.main(arguments or []))
