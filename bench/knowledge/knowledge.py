#!/usr/bin/env python3
"""Measure what a speech corpus contains: hours, copies, leaks, label errors, levels.

    knowledge.py CORPUS... -o DIR [options] [-- OPTIONS OF PACK]
    knowledge.py --summary FILE.json...

CORPUS is a packed dataset, or any input of `speechshard pack`. The program packs it, runs `dedupe`
on the dataset, and `audit` on each of its splits against those after it. It prints a table, and
writes to DIR: knowledge.json (the table for programs), knowledge.txt, dataset.spsh, plan.jsonl and
plan.html (the copies), and a report of `audit` per split. A second call reuses a complete dataset
in DIR, and repeats the rest. Progress goes to stderr.

--summary prints the results of several corpora as one table in Markdown, a row per file.
"""
import argparse
import collections
import json
import os
import posixpath
import shlex
import subprocess
import sys

SCHEMA = "speechshard-knowledge-1"
LEAKS = {"audio": ("recording", "segment", "performance"), "text": ("sentence", "sentence_near"),
         "speaker": ("speaker",), "source": ("source", "document")}
# Reject reasons of `pack` for files that exist but cannot be decoded as intact recordings.
UNDECODABLE = ("empty_file", "tiny_file", "not_audio", "bad_container", "unsupported_codec", "truncated",
               "header_mismatch", "zero_duration", "too_long", "unreadable", "not_regular", "bad_member")
TIERS = ("bytes", "pcm", "pcm_chunks", "acoustic", "acoustic_scaled")
EXAMPLES_MAX = 10
EXAMPLES_SHOWN = 3
NAMES_SHOWN = 12


class Failure(Exception):
    """A message for the user."""


def call(program, *words):
    """The stdout of the command. Its messages and its progress go to stderr."""
    command = [program, *words]
    print("knowledge:", shlex.join(command), file=sys.stderr, flush=True)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    except OSError as error:
        raise Failure(f"cannot run {program}: {error.strerror}; name the command with --speechshard") from error
    if done.returncode != 0:
        raise Failure(f"`{shlex.join(command)}` failed with exit status {done.returncode}")
    return done.stdout


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise Failure(f"cannot read {path}: {error}") from error


def is_dataset(path):
    return os.path.isfile(os.path.join(path, "manifest.spsh"))


def find_dataset(options):
    """The path of the dataset, which is packed first if it is not there."""
    packed = [path for path in options.corpus if is_dataset(path)]
    if packed and (len(options.corpus) > 1 or options.pack):
        raise Failure(f"{packed[0]} is packed already: name only this dataset, without options of pack")
    if packed:
        return packed[0]
    dataset = os.path.join(options.output, "dataset.spsh")
    if is_dataset(dataset):
        print(f"knowledge: using {dataset} of an earlier call; remove it to pack again", file=sys.stderr)
    else:
        call(options.speechshard, "pack", *options.corpus, "-o", dataset, "--max-rejects", "100%", "--json", *options.pack)
    return dataset


def read_plan(path):
    """The first line of a copy plan, and its pairs and members."""
    with open(path, encoding="utf-8") as file:
        head = json.loads(next(file))
        rows = [row for row in map(json.loads, file) if row.get("type") in ("pair", "member")]
    return head, [row for row in rows if row["type"] == "pair"], [row for row in rows if row["type"] == "member"]


def count_pairs(pairs):
    """Pairs by tier and class, each pair once: by its strongest common stretch."""
    counts = collections.Counter((pair["tier"], pair["class"]) for pair in pairs)
    return {tier: {kind: number for (of, kind), number in counts.most_common() if of == tier}
            for tier in sorted({tier for tier, _ in counts}, key=TIERS.index)}


def read_rows(program, dataset, wanted):
    """Utterances and seconds of each language; and of the wanted ids, the language and text."""
    languages, rows = collections.defaultdict(lambda: [0, 0.0]), {}
    command = [program, "ls", dataset, "--json"]
    print("knowledge:", shlex.join(command), file=sys.stderr, flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as listing:
        for row in map(json.loads, listing.stdout):
            total = languages[row["language"] or ""]
            total[0] += 1
            total[1] += row["seconds"]
            if row["id"] in wanted:
                rows[row["id"]] = (row["language"], row["text"])
    if listing.returncode != 0:
        raise Failure(f"`{shlex.join(command)}` failed with exit status {listing.returncode}")
    ordered = sorted(languages.items(), key=lambda item: (-item[1][1], item[0]))
    return {name: {"utterances": count, "seconds": round(seconds, 3)} for name, (count, seconds) in ordered}, rows


def prompt_of(name):
    """The last part of an id without the extension of its file."""
    return posixpath.splitext(posixpath.basename(name))[0]


def find_conflicts(pairs, rows):
    """Pairs of one recording with different labels. File names count only without texts."""
    found = {name: {"pairs": 0, "clusters": set(), "ids": set(), "examples": []}
             for name in ("text", "name", "language", "speaker", "split")}
    for pair in pairs:
        if pair["class"] != "same_recording":
            continue
        a, b = pair["a"]["id"], pair["b"]["id"]
        is_different = {
            "text": pair["equal"]["text"] is False,
            "name": pair["equal"]["text"] is None and prompt_of(a) != prompt_of(b),
            "language": None not in (rows[a][0], rows[b][0]) and rows[a][0] != rows[b][0],
            "speaker": pair["equal"]["speaker"] is False,
            "split": pair["a"]["split"] != pair["b"]["split"]}
        for name, conflict in found.items():
            if not is_different[name]:
                continue
            if pair["cluster"] not in conflict["clusters"] and len(conflict["examples"]) < EXAMPLES_MAX:
                conflict["examples"].append({"ids": [a, b], "texts": [rows[a][1], rows[b][1]], "tier": pair["tier"]})
            conflict["pairs"] += 1
            conflict["clusters"].add(pair["cluster"])
            conflict["ids"] |= {a, b}
    return {name: {"pairs": conflict["pairs"], "clusters": len(conflict["clusters"] - {None}),
                   "utterances": len(conflict["ids"]), "examples": conflict["examples"]}
            for name, conflict in found.items()}


def count_leaks(path):
    """Utterances per test split and group of kinds; one with several kinds counts once."""
    counts = collections.Counter()
    with open(path, encoding="utf-8") as file:
        for row in map(json.loads, file):
            counts.update((row["split"], group) for group, kinds in LEAKS.items() if set(kinds) & set(row["kinds"]))
    return counts


def find_leaks(options, dataset, splits):
    """Leaks from each split to those after it: training splits first, then the larger ones."""
    order = sorted((name for name in splits if name), key=lambda name: (not name.startswith("train"), -splits[name], name))
    leaks = []
    for number, train in enumerate(order[:-1]):
        report = os.path.join(options.output, f"audit-{number + 1}")
        tests = f"{dataset}:{','.join(order[number + 1:])}"
        found = json.loads(call(options.speechshard, "audit", "--train", f"{dataset}:{train}", "--test", tests, "-o", report,
                                "--fail-on", "none", "--memory", options.memory, "--json"))
        counts = count_leaks(os.path.join(report, "leaks.jsonl"))
        looked = found["looked_at"]
        is_known = {"audio": True, "text": looked["train_without_text"] < found["train"][0]["utterances"],
                    "speaker": looked["train_speakers"] > 0 and looked["test_speakers"] > 0, "source": True}
        for test in found["test"]:
            leaks.append({"train": train, "test": test["split"], "utterances": test["utterances"],
                          "groups": {group: counts[test["split"], group] if is_known[group] else None for group in LEAKS},
                          "kinds": {kind: count["utterances"] for kind, count in test["leaks"].items()}})
    return leaks


def measure(options):
    program, output = options.speechshard, options.output
    os.makedirs(output, exist_ok=True)
    dataset = find_dataset(options)
    info = json.loads(call(program, "info", dataset, "--json"))
    report_path = os.path.join(dataset, "reports", "pack.json")
    report = read_json(report_path) if os.path.exists(report_path) else {}
    plan = os.path.join(output, "plan.jsonl")
    copies = json.loads(call(program, "dedupe", dataset, "-o", plan, "--html", os.path.join(output, "plan.html"),
                             "--search", options.search, "--memory", options.memory, "--json"))
    head, pairs, members = read_plan(plan)
    languages, rows = read_rows(program, dataset, {pair[side]["id"] for pair in pairs for side in "ab"})
    levels = report.get("levels") or {}
    rejects = {name: count["rows"] for name, count in report.get("rejects", {}).items() if count["rows"]}
    return {
        "schema": SCHEMA, "name": options.name, "version": head["tool_version"], "dataset_id": info["dataset_id"],
        "layouts": sorted({source["layout"] for source in report.get("sources", [])}),
        "rows_in": info["source_rows"], "utterances": info["utterances"], "seconds": info["seconds"],
        "with_text": info["with_text"], "speakers": info["speakers"], "languages": languages, "splits": info["splits"],
        "codecs": info["codec"], "sample_rates": info["sample_rates"],
        "rejects": rejects, "undecodable": info["undecodable"] + sum(rejects.get(name, 0) for name in UNDECODABLE),
        "levels": {name: levels[name] for name in ("recordings", "silent", "clipped")} if levels else None,
        "copies": {"search": options.search, "pairs": count_pairs(pairs), "clusters": copies["clusters"],
                   "members": collections.Counter(row["decision"] for row in members),
                   "dropped": copies["drop"]["together"]["utterances"],
                   "dropped_seconds": copies["drop"]["together"]["seconds"],
                   "short_pairs": copies["short_pairs"], "boilerplate": copies["boilerplate"]},
        "conflicts": find_conflicts(pairs, rows),
        "leaks": find_leaks(options, dataset, info["splits"])}


def duration(seconds):
    return f"{seconds / 3600:,.2f} h" if seconds >= 360 else f"{seconds / 60:,.2f} min"


def share(part, whole):
    return f"{part:,} ({100 * part / whole:.1f} %)" if whole else f"{part:,}"


def table_rows(facts):
    """Pairs of a label and a value."""
    count, copies = facts["utterances"], facts["copies"]
    yield "utterances", f"{count:,} of {facts['rows_in']:,} rows, {duration(facts['seconds'])}"
    yield "with text", share(facts["with_text"], count)
    yield "speakers", f"{facts['speakers']:,}" if facts["speakers"] else "not stated"
    named = [f"{name or '(none)'} {item['utterances']:,} ({duration(item['seconds'])})" for name, item in facts["languages"].items()]
    rest = f", and {len(named) - NAMES_SHOWN} more" if len(named) > NAMES_SHOWN else ""
    yield f"languages: {len([name for name in facts['languages'] if name])}", ", ".join(named[:NAMES_SHOWN]) + rest
    yield "codecs", ", ".join(f"{name} {number:,}" for name, number in facts["codecs"].items())
    yield "undecodable", f"{facts['undecodable']:,}"
    yield "rejected rows", ", ".join(f"{name} {number:,}" for name, number in facts["rejects"].items()) or "none"
    levels = facts["levels"]
    for name in ("silent", "clipped"):
        yield name, share(levels[name], levels["recordings"]) + " of the recordings" if levels else "not measured"
    yield "copies", f"{share(copies['dropped'], count)} in {copies['clusters']:,} clusters, {duration(copies['dropped_seconds'])}"
    for tier, classes in copies["pairs"].items():
        yield f"  pairs: {tier}", ", ".join(f"{name} {number:,}" for name, number in classes.items())
    yield "  too short to prove", f"{copies['short_pairs']:,} pairs"
    yield "same recording, but", ""
    for name, conflict in facts["conflicts"].items():
        yield f"  another {name}", f"{conflict['pairs']:,} pairs in {conflict['clusters']:,} clusters"
    yield "leaks between splits", "" if facts["leaks"] else "not measured: fewer than two named splits"
    for leak in facts["leaks"]:
        found = ", ".join(f"{name} " + ("not stated" if number is None else share(number, leak["utterances"]))
                          for name, number in leak["groups"].items())
        yield f"  {leak['train']} -> {leak['test']}", found


def format_table(facts):
    lines = [facts["name"], *(f"  {name:<22}  {value}".rstrip() for name, value in table_rows(facts))]
    for example in facts["conflicts"]["text"]["examples"][:EXAMPLES_SHOWN]:
        lines.append("  e.g. " + "; ".join(f"{name}: {text!r}" for name, text in zip(example["ids"], example["texts"])))
    return "\n".join(lines) + "\n"


def summary_row(facts):
    levels, copies, conflicts = facts["levels"], facts["copies"], facts["conflicts"]
    leaks = [leak["groups"] for leak in facts["leaks"]]
    most = {name: max((leak[name] for leak in leaks if leak[name] is not None), default=None) for name in LEAKS}
    of_class = {kind: [copies["pairs"].get(tier, {}).get(kind, 0) for tier in TIERS]
                for kind in ("same_recording", "contained", "shared_segment")}
    return (facts["name"], f"{facts['utterances']:,}", f"{facts['seconds'] / 3600:.3f}",
            len([name for name in facts["languages"] if name]) or "-", share(copies["dropped"], facts["utterances"]),
            " / ".join(f"{number:,}" for number in of_class["same_recording"][:-1]),
            f"{sum(of_class['contained'])} / {sum(of_class['shared_segment'])}",
            f"{conflicts['text']['pairs']} / {conflicts['name']['pairs']}",
            f"{levels['silent']:,} / {levels['clipped']:,}" if levels else "-", f"{facts['undecodable']:,}",
            ", ".join(f"{name} {number:,}" for name, number in most.items() if number is not None) or "-")


def print_summary(paths):
    head = ("corpus", "utterances", "hours", "languages", "copies", "bytes / pcm / chunks / acoustic", "contained / shared",
            "other text / name", "silent / clipped", "undecodable", "leaks")
    for row in (head, ["---"] * len(head), *(summary_row(read_json(path)) for path in paths)):
        print("| " + " | ".join(map(str, row)) + " |")


def main():
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="*", help="a dataset, or the input of `speechshard pack`")
    parser.add_argument("-o", "--output", metavar="DIR", help="folder for the results")
    parser.add_argument("--name", help="name of the corpus in the table (default: name of the first CORPUS)")
    parser.add_argument("--search", default="auto", help="search of `dedupe` (default: auto)")
    parser.add_argument("--memory", default="4G", metavar="SIZE", help="memory of `dedupe` and `audit` (default: 4G)")
    parser.add_argument("--speechshard", default="speechshard", metavar="PROGRAM", help="default: speechshard")
    parser.add_argument("--summary", nargs="+", metavar="FILE", help="print one table of results, and measure nothing")
    options = parser.parse_args(words[:at])
    options.pack = words[at + 1:]
    if bool(options.summary) == bool(options.corpus and options.output):
        parser.error("give CORPUS... and -o DIR, or --summary FILE...")
    try:
        if options.summary:
            print_summary(options.summary)
            return 0
        options.name = options.name or os.path.basename(os.path.abspath(options.corpus[0]))
        facts = measure(options)
        text, data = format_table(facts), json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
        for name, content in (("knowledge.json", data), ("knowledge.txt", text)):
            with open(os.path.join(options.output, name), "w", encoding="utf-8") as file:
                file.write(content)
        print(text, end="")
    except (Failure, OSError) as error:
        print(f"knowledge: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
