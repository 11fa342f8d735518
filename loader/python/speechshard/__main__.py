"""The command `speechshard`: replaces this process by the executable in the package."""

import os
import signal
import sys

from ._command import BUNDLED


def main():
    # Python ignores these signals, and a program keeps ignoring what its parent ignored.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execv(BUNDLED, ["speechshard", *sys.argv[1:]])
    except OSError as error:
        return f"speechshard: cannot run {BUNDLED}: {error.strerror}; reinstall the package"


if __name__ == "__main__":
    sys.exit(main())
