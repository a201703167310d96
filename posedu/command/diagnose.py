"""Part of the command that measures models: ``posedu diagnose``."""

from typing import Annotated

import typer

from posedu.command.output import (
    CANNOT,
    FINE,
    WRONG,
    refuse,
    show,
    show_json,
    uncollected,
)


def diagnose(
    target: Annotated[
        str,
        typer.Argument(
            help="package.module:function or FILE.py:function that returns a model; or "
            "a file or folder with a configuration of transformers, of which a small "
            "random model is made."
        ),
    ],
    config: Annotated[
        str | None,
        typer.Option(help="The configuration to compare with; default: the model's."),
    ] = None,
    weights: Annotated[
        bool, typer.Option("--weights", help="Load the weights in the folder, too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Status 1 for what was not tried, too.")
    ] = False,
) -> None:
    """Measure what a model does with positions.

    The rotations are compared with those of its configuration. Texts are shifted,
    padded, cached and packed, and outputs compared.
    """
    with uncollected():
        from posedu.tools.diagnose import Refused, as_json
        from posedu.tools.diagnose import diagnose as measure
        from posedu.tools.diagnose.loading import load

    try:
        diagnosis = measure(load(target, weights=weights), config=config)
    except Refused as error:
        refuse(target, error)
    if json:
        show_json("posedu.diagnose/1", target, as_json(diagnosis))
    else:
        show(diagnosis.caption(), diagnosis, *diagnosis.lines())
    if diagnosis.faults or (strict and diagnosis.untried):
        raise typer.Exit(WRONG)
    raise typer.Exit(FINE if diagnosis.ok else CANNOT)
