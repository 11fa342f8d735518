"""Run `speechshard pack -` on a stream that a function of this process writes."""

import contextlib
import os
import subprocess

from ._command import find_command


def pack_stream(produce, output, options=(), command=None, stdout=None):
    """Return the exit status of pack. produce(fd) writes the stream (docs/reference/STREAM.md).
    command: its path; None: find_command() finds it.
    stdout: as in subprocess.Popen, for the report of pack.

    If produce fails, this ends pack, so that pack does not take the stream for a whole one.
    """
    path = find_command(command)
    # Name the layout: the first samples may all be rejects, from which it cannot be detected.
    words = [path, "pack", "-", "--layout", "webdataset", "-o", os.fspath(output), *options]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=stdout)
    try:
        with contextlib.suppress(BrokenPipeError):  # pack has reported the reason
            produce(child.stdin.fileno())
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
    except BaseException:
        child.terminate()
        with contextlib.suppress(OSError):
            child.stdin.close()  # pack may be blocked in a read, and handles the signal after it
        child.wait()
        raise
    status = child.wait()
    return status if status >= 0 else 1
