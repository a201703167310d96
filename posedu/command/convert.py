"""Part of the command that converts checkpoints: ``posedu convert``."""

import re
from pathlib import Path
from typing import Annotated

import typer

from posedu._arguments import Layout
from posedu.command.output import FINE, WRONG, refuse, show
from posedu.tools.checkpoints import (
    Conversion,
    ConvertError,
    Fused,
    Pairs,
    Plan,
    convert_file,
    plan,
)
from posedu.tools.checkpoints.conversion import FusedOrder
from posedu.tools.configs.rotary_config import ConfigError

CONFIGS = ("config.json", "params.json")
"""Names of configurations that are looked for beside a checkpoint."""

SHARD = re.compile(r".*-\d+-of-\d+\.safetensors")
"""Names of files that are a part of a checkpoint, which may lack any tensor."""


def convert(
    source: Annotated[
        str,
        typer.Argument(
            help="A safetensors file, an index of shards, or a folder with one."
        ),
    ],
    to: Annotated[Layout, typer.Option(help="Layout of pairs that is wanted.")],
    target: Annotated[
        str | None, typer.Argument(help="A file, or for shards a folder.")
    ] = None,
    of: Annotated[
        Layout | None,
        typer.Option(
            "--from", help="Layout that the checkpoint has; default: its family's."
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(help="The configuration; default: the one beside the source."),
    ] = None,
    within: Annotated[
        str, typer.Option(help="Prefix of the names to convert; * stands for a part.")
    ] = "",
    fused: Annotated[
        FusedOrder | None,
        typer.Option(
            help="Order of rows in matrices of queries, keys and values together. "
            "stacked: all queries, all keys, all values, as in Phi-3; grouped: for "
            "each key its queries, the key and the value, as in GPT-NeoX and Falcon. "
            "Needs --heads."
        ),
    ] = None,
    heads: Annotated[
        int | None, typer.Option(help="Number of heads of queries, for --fused.")
    ] = None,
    kv_heads: Annotated[
        int | None,
        typer.Option(help="Number of heads of keys, for --fused; default: --heads."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, and write nothing.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files that exist.")
    ] = False,
) -> None:
    """Convert a checkpoint to another layout of pairs.

    No logit changes, in code that rotates the new pairs. Of a folder, the tensors and
    their index are written, without config.json. Status 1 if a tensor cannot be
    converted: the plan names it, and nothing is written. A warning is status 1, too.
    """
    if target is None and not dry_run:
        refuse(source, "a target must be given, or --dry-run")
    if (fused is None) != (heads is None) or (kv_heads is not None and heads is None):
        refuse(source, "--fused needs --heads, and --heads and --kv-heads need --fused")
    path = Path(source)
    if not path.exists():
        refuse(source, "there is no such file or folder")
    beside = path if path.is_dir() else path.parent
    if config is None and not any((beside / name).exists() for name in CONFIGS):
        refuse(str(beside), f"it has no {' or '.join(CONFIGS)}: give --config FILE")
    try:
        conversion = Conversion.from_config(
            config or beside,
            source=None if of is None else Pairs(layout=of),
            target=Pairs(layout=to),
            within=within,
            fused=None
            if fused is None or heads is None
            else Fused(order=fused, heads=heads, kv_heads=kv_heads or heads),
        )
        planned = plan(path, conversion)
        warnings = [] if SHARD.fullmatch(path.name) else _warnings(planned)
        if dry_run or planned.refused or target is None:
            show(*warnings, planned.caption(), planned)
        else:
            convert_file(path, target, conversion, overwrite=overwrite)
            written = f"written to {target}, the tensors alone"
            show(*warnings, planned.caption(), written)
    except FileExistsError as error:
        refuse(str(error.filename), "exists; --overwrite replaces it")
    except ConfigError as error:
        refuse(config or source, error)
    except (ConvertError, OSError, ValueError) as error:
        refuse(source, error)
    raise typer.Exit(WRONG if planned.refused or warnings else FINE)


def _warnings(planned: Plan) -> list[str]:
    """Return a sentence if fused matrices are described, and the plan has none.

    With refused tensors the table says enough.
    """
    if planned.conversion.fused is None or planned.fused or planned.refused:
        return []
    return [
        "warning: --fused and --heads describe nothing here: no tensor to permute has "
        "queries, keys and values in one matrix. Is it the right checkpoint?"
    ]
