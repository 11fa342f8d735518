"""Summarize the runs of loader_peers.sh: peers_table.py RUNS.jsonl CHECKS.jsonl HEAD.json"""

import json
import statistics
import sys


def spread(values, digits):
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered), digits),
        "range": [round(ordered[0], digits), round(ordered[-1], digits)],
    }


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def main():
    runs, checks, head = lines(sys.argv[1]), lines(sys.argv[2]), json.load(open(sys.argv[3]))
    found = {check["hash"] for check in checks}
    if len(found) != 1:
        sys.exit(f"the peers do not serve the same audio: {checks}")
    rows = []
    for name, workers in dict.fromkeys((run["name"], run["workers"]) for run in runs):
        of = [run for run in runs if (run["name"], run["workers"]) == (name, workers)]
        rows.append({
            "name": name, "workers": workers, "runs": len(of), "epochs": of[0]["epochs"],
            "cpu_s_per_audio_hour": spread([r["cpu_s"] / r["audio_s"] * 3600 for r in of], 4),
            "audio_s_per_wall_s": spread([r["audio_s"] / r["wall_s"] for r in of], 0),
            "first_batch_s": spread([r["first_batch_s"] for r in of], 4),
        })  # fmt: skip
    head["utterances"] = checks[0]["utterances"]
    head["pcm_hash"] = found.pop()
    # One row per line.
    body = ",\n    ".join(json.dumps(row) for row in rows)
    text = json.dumps(head, indent=2)
    print(text[:-2] + ',\n  "rows": [\n    ' + body + "\n  ]\n}")
    for row in rows:
        print(
            f"{row['name']:24} {row['workers']} workers"
            f" {row['cpu_s_per_audio_hour']['median']:9.3f} CPU s / audio h"
            f" {row['audio_s_per_wall_s']['median']:9.0f} audio s / s"
            f" {row['first_batch_s']['median']:8.3f} s to the first batch",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
