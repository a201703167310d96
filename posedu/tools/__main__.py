"""Command that prints a model's rotary embeddings: ``python -m posedu.tools FILE``."""

import argparse
import json
import sys
from collections.abc import Sequence

from posedu.tools.configs.read import read_rope
from posedu.tools.configs.rotary_config import ConfigError, as_json


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a configuration's rotary embeddings; return 1 on warnings, 2 on errors.

    ``arguments`` are the command's, by default those of the command line. Without
    warnings or errors the result is 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m posedu.tools",
        description="Print the rotary embeddings of a model's configuration, and warn "
        "of parameters that are ignored, contradictory or often misread.",
        epilog="Exit status: 0, or 1 if there are warnings, or 2 if the configuration "
        "cannot be read. See also python -m posedu.tools.diagnose, which measures a "
        "model, and python -m posedu.tools.kernels.check, which tests a kernel.",
    )
    parser.add_argument(
        "config", help="JSON file, or folder with a config.json or params.json"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON, with all frequencies"
    )
    options = parser.parse_args(arguments)
    try:
        reading = read_rope(options.config)
        text = json.dumps(as_json(reading)) if options.json else str(reading)
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        reason = "there is no such file" if is_missing else error.strerror
        return _fail(f"{error.filename or options.config}: {reason or error}")
    except ConfigError as error:
        return _fail(f"{options.config}: {error}")
    print(_printable(text))
    if not options.json:
        for remark in reading.remarks:
            print(_printable(str(remark)))
    return 1 if reading.warnings else 0


def _fail(text: str) -> int:
    print(_printable(text), file=sys.stderr)
    return 2


def _printable(text: str) -> str:
    """Escape the characters of ``text`` that control or break a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


if __name__ == "__main__":
    sys.exit(main())
