"""The command ``posedu``, also as ``python -m posedu``."""

import sys

from posedu.command import main

if __name__ == "__main__":
    sys.exit(main())
