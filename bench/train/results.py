"""results.py: arguments and output of the programs that take turns with a peer. The output names
the machine, then has one row per line.

    options = parser_of(serve, 7).parse_args()
    print_rows({"machine": machine(), "command": command}, rows)
"""

import argparse
import json
import os
import platform
import sys


def parser_of(serve, rounds):
    """Parser for PROGRAM [--rounds N], to which the caller adds arguments. A process that was
    started as the peer (--serve WORD...) serves instead, and exits."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2:])
        raise SystemExit
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return f"{platform.machine()}, {os.cpu_count()} cores, {model}, {platform.system()} {platform.release()}"


def print_rows(head, rows):
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    print(json.dumps(head, indent=2)[:-2] + ',\n  "rows": [\n' + lines + "\n  ]\n}")
