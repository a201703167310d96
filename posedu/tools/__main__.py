"""What a configuration says of rotations: ``python -m posedu.tools config.json``."""

import argparse
import json
import sys
from collections.abc import Sequence

from posedu.tools.configs.read import read_rope
from posedu.tools.configs.rotary_config import ConfigError, as_json


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what a configuration says; 2 if it cannot be read, 1 if it warns."""
    parser = argparse.ArgumentParser(
        prog="python -m posedu.tools",
        description="Print what a model's configuration says of its rotations.",
    )
    parser.add_argument("config", help="a JSON file, or a folder with a config.json")
    parser.add_argument("--json", action="store_true", help="for machines")
    options = parser.parse_args(arguments)
    try:
        reading = read_rope(options.config)
        said = json.dumps(as_json(reading)) if options.json else str(reading)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        why = "there is no such file" if missing else error.strerror
        return _refuse(f"{error.filename or options.config}: {why or error}")
    except ConfigError as error:
        return _refuse(f"{options.config}: {error}")
    print(_printable(said))
    if not options.json:
        for remark in reading.remarks:
            print(_printable(str(remark)))
    return 1 if reading.warnings else 0


def _refuse(text: str) -> int:
    print(_printable(text), file=sys.stderr)
    return 2


def _printable(text: str) -> str:
    """The text without what a terminal would obey or refuse."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


if __name__ == "__main__":
    sys.exit(main())
