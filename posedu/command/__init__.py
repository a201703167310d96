"""The command ``posedu``: what a configuration, a checkpoint, a kernel or a model does.

``posedu --help`` lists its parts. Every part ends with one of three exit statuses:
0, nothing is wrong; 1, something is, and the output says what; 2, there is no answer,
and a sentence says why.
"""

from collections.abc import Sequence

import typer

from posedu.command.config import config, diff
from posedu.command.convert import convert
from posedu.command.diagnose import diagnose
from posedu.command.kernel import kernel, oracle
from posedu.command.passed_on import run, time

app = typer.Typer(
    name="posedu",
    help="Read, compare, measure and convert what transformers do with positions.",
    epilog="Exit status: 0, nothing is wrong; 1, something is; 2, there is no answer.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for part in (config, diff, diagnose, kernel, convert, oracle):
    app.command()(part)
app.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)(
    time
)
app.command(context_settings={"allow_interspersed_args": False})(run)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; 130 after an interrupt.

    ``arguments`` are by default those of the command line.
    """
    try:
        app(None if arguments is None else [*arguments], prog_name="posedu")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
