"""Parts of the command that read configurations: ``posedu config``, ``posedu diff``."""

from dataclasses import replace
from typing import Annotated

import typer

from posedu.command.output import (
    FINE,
    WRONG,
    complain,
    refuse,
    show,
    show_json,
)
from posedu.command.targets import Source, is_function, sources
from posedu.tools.configs.differences import Differences, differences
from posedu.tools.configs.read import read_rope
from posedu.tools.configs.rotary_config import (
    CODES,
    WARNING,
    ConfigError,
    Reading,
    as_json,
)

Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET...",
        help="A file or folder with a configuration (JSON, YAML or .gguf), a .jsonl "
        "file of several, the name of a model on the Hugging Face Hub, or - for the "
        "standard input.",
    ),
]
Target = Annotated[str, typer.Argument(help="As the targets of posedu config.")]
Json = Annotated[bool, typer.Option("--json", help="Print a line of JSON for each.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Status 1 for what is not known, too.")
]
Ignored = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="CODE",
        help="Leave out warnings with this code. May be given several times.",
    ),
]


def config(
    targets: Targets,
    json: Json = False,
    strict: Strict = False,
    ignore: Ignored = None,
) -> None:
    """Print the rotary embeddings of configurations, with warnings.

    Of a model without rotation, it says where the order of tokens comes from.
    """
    unknown = [code for code in ignore or () if code not in CODES]
    if unknown:
        refuse(f"--ignore {unknown[0]}", f"the codes are {', '.join(CODES)}")
    statuses = [FINE]
    for target in targets:
        try:
            found = [*sources(target)]
        except (ConfigError, OSError) as error:
            statuses.append(complain(target, error))
            continue
        for name, load in found:
            try:
                reading = _without(read_rope(load()), ignore or ())
                content = as_json(reading) if json else {}
                list(reading.rows())  # raises if the numbers are out of reach
            except (ConfigError, OSError) as error:
                statuses.append(complain(name, error))
                continue
            if json:
                show_json("posedu.config/1", name, content)
            else:
                titled = len(targets) > 1 or name != target
                show(*[f"{name}:"] * titled, *_parts(reading))
            is_wrong = reading.warnings or (strict and _is_incomplete(reading))
            statuses.append(WRONG if is_wrong else FINE)
    raise typer.Exit(max(statuses))


def diff(
    one: Target,
    other: Annotated[
        str,
        typer.Argument(
            help="As the targets of posedu config; or module:function or "
            "FILE.py:function that returns a model."
        ),
    ],
    json: Json = False,
    strict: Strict = False,
) -> None:
    """Compare two configurations, or a configuration and a model, by their effect.

    Configurations are compared however they are written. Of a model, what it does is
    measured, as by posedu diagnose.
    """
    if is_function(other):
        result = _measured(one, other)
    else:
        readings = (_one(target)[1] for target in (one, other))
        result = differences(*readings, names=(one, other))
    if json:
        content = {
            "differences": [vars(each) for each in result.found],
            "unknown": list(result.unknown),
        }
        show_json("posedu.diff/1", f"{one} {other}", content)
    else:
        show(result.caption(), *[result] * bool(result.found))
    raise typer.Exit(WRONG if result.found or (strict and result.unknown) else FINE)


def _measured(config: str, model: str) -> Differences:
    """Return in what a model differs from a configuration; refuse what cannot be."""
    from posedu.tools.diagnose import Refused, diagnose
    from posedu.tools.diagnose.comparison import measured_differences
    from posedu.tools.diagnose.loading import load

    source, _ = _one(config)
    try:
        diagnosis = diagnose(load(model, weights=False), config=source)
    except Refused as error:
        refuse(model, error)
    return measured_differences(diagnosis, (config, model))


def _one(target: str) -> tuple[Source, Reading]:
    """Return the only configuration that a target names, or end the command.

    The result is what is read, and the reading.
    """
    try:
        loaded = [load() for _, load in sources(target)]
        found = [(source, read_rope(source)) for source in loaded]
    except (ConfigError, OSError) as error:
        refuse(target, error)
    if len(found) != 1:
        refuse(target, f"one configuration is compared, got {len(found)}")
    return found[0]


def _without(reading: Reading, codes: list[str] | tuple[()]) -> Reading:
    """Return a configuration's content without the warnings of these codes."""
    kept = (r for r in reading.remarks if r.code not in codes or r.level != WARNING)
    return replace(reading, remarks=tuple(kept))


def _is_incomplete(reading: Reading) -> bool:
    """Return whether some layout is not known, or where the order comes from."""
    has_open_layout = any(rope and not rope.layout for rope in reading.kinds.values())
    return has_open_layout or not reading.order


def _parts(reading: Reading) -> list[str | Reading]:
    """Return the warnings, then the table, then the notes of a configuration."""
    warnings = [str(r) for r in reading.remarks if r.level == WARNING]
    notes = [str(r) for r in reading.remarks if r.level != WARNING]
    return [*warnings, reading.caption(), reading, *notes]
