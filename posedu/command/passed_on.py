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


def time(context: typer.Context) -> None:
    """Time an encoding; posedu time --help lists the options."""
    module = import_module("posedu.book.timing.__main__")
    raise typer.Exit(module.main(context.args))


def run(
    context: typer.Context,
    experiment: Annotated[
        str, typer.Argument(help=f"One of {', '.join(EXPERIMENTS)}.")
    ],
) -> None:
    """Run an experiment of the book."""
    if experiment not in EXPERIMENTS:
        refuse(experiment, f"the experiments are {', '.join(EXPERIMENTS)}")
    module = import_module(f"posedu.book.experiments.{experiment}")
    raise typer.Exit(module.main(context.args))
