"""speechshard.featgen: a dataset of features, by the command `speechshard featgen`.

Making a dataset of features is a part of the command and not of a library, so this runs the command
and reads its JSON.
"""

import functools
import os
from types import SimpleNamespace

from ._command import find_command
from ._speechshard import Error, InvalidArgumentError

_USAGE = 2  # exit status after wrong arguments


class FeaturesReport(SimpleNamespace):
    """Outcome of speechshard.featgen, with the keys of `speechshard featgen --json`."""


FeaturesReport.__module__ = "speechshard"


def _words(keywords):
    """Options of the command."""
    words = []
    for name, value in keywords.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, os.fspath(value) if hasattr(value, "__fspath__") else str(value)]
    return words


def _run(words):
    """Standard output and messages of the command. Ctrl-C ends it first, and is raised then."""
    import signal
    import subprocess

    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, messages = child.communicate()
    except BaseException:
        child.send_signal(signal.SIGINT)
        child.communicate()
        raise
    lines = messages.decode("utf-8", "replace").splitlines()
    return child.returncode, out, [line.partition("speechshard: ")[2] or line for line in lines]


def _suggests(function):
    """Suggest the closest keyword for an unknown one, as the functions in C do."""
    known = list(function.__kwdefaults__)

    @functools.wraps(function)
    def call(*args, **keywords):
        for name in keywords:
            if name not in known and name not in ("dataset", "output"):
                import difflib

                near = difflib.get_close_matches(name, known, 1)
                meant = f"; did you mean '{near[0]}'?" if near else ""
                raise TypeError(f"{function.__name__}() has no keyword '{name}'{meant}")
        return function(*args, **keywords)

    return call


@_suggests
def featgen(
    dataset,
    output=None,
    *,
    features="kaldi-fbank",
    dtype=None,
    stats=False,
    by=None,
    skip_damaged=False,
    undecodable=None,
    jobs=None,
    part=None,
    estimate=False,
    log=None,
):
    """Make a dataset of features, or statistics of them. Returns a FeaturesReport.

        report = speechshard.featgen("corpus.spsh", "fbank.spsh", features="kaldi-fbank,mel_count=40")
        print(report.utterances, report.frames)
        speechshard.featgen("corpus.spsh", stats=True)      # writes corpus.spsh/statistics

    The keywords are the options of `speechshard featgen`; `speechshard featgen --help` describes
    them. dataset is a path or a Dataset. estimate=True writes nothing.

    This runs the command `speechshard`: $SPEECHSHARD_COMMAND, else the one in the package, next to
    the interpreter, or in $PATH. So there is no progress. Ctrl-C stops the command, which keeps the
    finished shards: the same call continues. Its messages go to log(level, text), or to the logger
    "speechshard". Its errors are raised as Error, or InvalidArgumentError for wrong arguments.
    """
    import json
    import logging

    keywords = {
        "output": output, "features": features, "dtype": dtype, "stats": stats, "by": by,
        "skip_damaged": skip_damaged, "undecodable": undecodable, "jobs": jobs, "part": part,
        "estimate": estimate, "json": True,
    }  # fmt: skip
    source = os.fspath(getattr(dataset, "path", dataset))
    words = [find_command(), "featgen", *_words(keywords), "--", source]
    status, out, messages = _run(words)
    if status != 0:
        problem = "; ".join(messages) or f"{words[0]} ended with status {status}"
        raise (InvalidArgumentError if status == _USAGE else Error)(problem)
    for message in messages:
        (log or logging.getLogger("speechshard").log)(logging.INFO, message)
    return FeaturesReport(**json.loads(out))
