"""results.py: what the programs beside it print: where it was measured, then a row a line.

    print_rows({"machine": machine(), "command": command}, rows)
"""
import json
import os
import platform


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return f"{platform.machine()}, {os.cpu_count()} cores, {model}, {platform.system()} {platform.release()}"


def print_rows(head, rows):
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    print(json.dumps(head, indent=2)[:-2] + ',\n  "rows": [\n' + lines + "\n  ]\n}")
