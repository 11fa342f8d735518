"""Find the command `speechshard`, which some functions of the package run."""

import os
import shutil
import sys

from ._speechshard import Error

BUNDLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "speechshard")


class NoCommand(Error):
    """The command was not found."""


def find_command(given=None):
    """Return the path of the command.

    It is `given`, else $SPEECHSHARD_COMMAND. Without both, the first that exists: in the package (a
    wheel contains it, a build folder does not), next to the interpreter, in $PATH.
    """
    chosen = given or os.environ.get("SPEECHSHARD_COMMAND")
    beside = os.path.join(os.path.dirname(sys.executable), "speechshard")
    for name in [chosen] if chosen else [BUNDLED, beside, "speechshard"]:
        path = shutil.which(name)
        if path is not None:
            return path
    if given:
        raise NoCommand(f"{given}: no such command")
    if chosen:
        raise NoCommand(f"{chosen}: no such command; SPEECHSHARD_COMMAND names it")
    raise NoCommand(
        "the command `speechshard` is not in $PATH; install it, or name it in the environment "
        "variable SPEECHSHARD_COMMAND"
    )
