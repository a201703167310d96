"""Install Chromium and axe-core for the browser tests."""

import os
import shutil
import subprocess

from posedu_sphinx.site import vendor


def main():
    """Fetch axe-core; install Debian's Chromium, or say that it is missing."""
    vendor.axe()
    if shutil.which("chromium"):
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "--quiet"], check=True)
        subprocess.run(
            ["apt-get", "install", "--yes", "--quiet", "chromium", "fonts-liberation"],
            check=True,
        )
    else:
        print("Chromium is not installed: the browser tests will be skipped.")


if __name__ == "__main__":
    main()
