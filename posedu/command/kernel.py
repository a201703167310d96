"""Parts of the command that test kernels: ``posedu kernel`` and ``posedu oracle``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from posedu.command.output import FINE, WRONG, refuse, show, show_json, uncollected
from posedu.tools.configs.read import read_rope
from posedu.tools.configs.rotary_config import ConfigError

Options = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=VALUE...]",
        help="Options of the encoding, such as layout=half or base=5e5.",
    ),
]
HeadDim = Annotated[int | None, typer.Option("--d", help="Head dimension.")]


def kernel(
    function: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION",
            help="The kernel: package.module:function or FILE.py:function.",
        ),
    ],
    options: Options = None,
    encoding: Annotated[
        str, typer.Option(help="Name of the encoding, such as rope, alibi or t5.")
    ] = "rope",
    config: Annotated[
        str | None,
        typer.Option(
            help="Take RoPE's frequencies, attention factor and layout from this "
            "configuration."
        ),
    ] = None,
    d: HeadDim = None,
    tensors: Annotated[
        str, typer.Option(help="Type that the kernel takes: torch or numpy.")
    ] = "torch",
    dtypes: Annotated[
        list[str] | None,
        typer.Option(help="A dtype to test; may be given several times. Default: all."),
    ] = None,
    device: Annotated[str, typer.Option(help="Device of the tensors.")] = "cpu",
    angles: Annotated[
        str, typer.Option(help="Coarsest dtype of angles that is allowed.")
    ] = "float32",
    negative: Annotated[
        bool, typer.Option(help="Whether to test positions below 0.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Status 1 for what was not tried, too.")
    ] = False,
) -> None:
    """Test whether a kernel is right, and name its fault.

    A kernel takes tensors by position, and what is after * by these names:

    \b
    kernel(x, positions)
      changes features, as RoPE does:
      x [batch, heads, tokens, d], positions [batch, tokens]
    kernel(q, k, cos, sin)
      as apply_rotary_pos_emb: cos and sin [batch, tokens, d]
    kernel(q, k, v, positions, *, causal, table, ...)
      returns attention's output
    kernel(*, query_positions, key_positions, table, ...)
      returns a bias of scores, such as ALiBi or T5's:
      positions [queries] and [keys], bias [heads, queries, keys]

    It gets the parameters of the encoding by their names: T5's bias has table, [heads,
    buckets], and for a kernel that returns a bias, heads is their number.
    """  # noqa: D301 – Click keeps the lines of a paragraph that begins with \b.
    with uncollected():
        from posedu.tools.kernels.check import check_kernel, import_kernel
        from posedu.tools.kernels.oracle import OracleError, parse_options

    sys.path.insert(0, "")  # the folder of the shell, as with python -m
    own: dict[str, Any] = {
        "tensors": tensors,
        "dtypes": dtypes,
        "device": device,
        "negative": negative,
    }
    try:
        given = parse_options(options or (), (*own, "d", "angles", "name", "kernel"))
        of_config = {} if config is None else _of_config(config)
        sizes = {} if d is None else {"d": d}
        with _one_thread():
            verdict = check_kernel(
                import_kernel(function),
                encoding,
                angles=angles,
                **own,
                **of_config | sizes | given,
            )
    except (OracleError, ConfigError, RuntimeError, AssertionError, OSError) as error:
        refuse(function, error)
    if json:
        content = vars(verdict) | {"ok": verdict.ok}
        show_json("posedu.kernel/1", function, content)
    else:
        show(str(verdict))
    untried = strict and verdict.ok and verdict.untried
    raise typer.Exit(WRONG if untried else verdict.exit_status)


def oracle(
    encoding: Annotated[str, typer.Argument(help="Name of the encoding.")],
    options: Options = None,
    out: Annotated[
        str, typer.Option(help="File to write, which ends in .npz.")
    ] = "oracle.npz",
    d: HeadDim = None,
) -> None:
    """Write test cases of an encoding to a file for NumPy."""
    with uncollected():
        from posedu.tools.kernels.oracle import OracleError, parse_options, save

    try:
        given = parse_options(options or (), ("name", "path", "d"))
        made = save(encoding, out, d=d, **given)
    except OracleError as error:
        refuse(encoding, error)
    except OSError as error:
        refuse(out, error.strerror or error)
    show(f"{out}: {len(made)} cases of {encoding}")
    raise typer.Exit(FINE)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Give PyTorch one thread: several would wait for each other at small tensors."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _of_config(config: str) -> dict[str, Any]:
    """Return options of RoPE from a configuration with one kind of rotated layer.

    Raises
    ------
    ConfigError
        There is none, or there are several.
    """
    rotated = {n: rope for n, rope in read_rope(config).kinds.items() if rope}
    if len(rotated) != 1:
        kinds = ", ".join(rotated) or "none"
        raise ConfigError(f"{config} must have one kind of rotated layer, got {kinds}")
    (rope,) = rotated.values()
    layout = {"layout": rope.layout} if rope.layout else {}
    return {
        "d": rope.head_dim,
        "frequencies": rope.frequencies(),
        "attention_factor": rope.attention_factor,
        **layout,
    }
