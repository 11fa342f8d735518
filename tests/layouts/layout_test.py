"""layout_test.py COMMAND MAKE_CLIP NAME: a layout's fixture is made, packed and compared.

NAME_fixture.py in this folder holds

    def make(root, clip): ...    writes the tree below the existing, empty folder root
    EXPECTED = {...}

or `CASES = {"case": (make, EXPECTED), ...}` for several trees.
clip(path, seconds=0.4, rate=16000, channels=1, seed=n) writes a distinct clip in the format of the
extension and makes the folders above it. EXPECTED holds any of

    layout      the name to be detected (NAME with '-' for '_')
    root        what is packed, below root; default: root itself
    roots       several of these, each packed as a corpus
    options     more words for `pack`
    status      exit status of `pack`, default 0; other than 0: nothing but `stderr` is compared
    stderr      a piece of text among the messages
    utterances  number
    rejects     {reason: events} of all reasons; rows of a reason as {reason: (events, rows)}
    reject_details  {id: detail} of the one reject that has this id
    told        a list: pieces of text, each in the detail of some reject
    noted       a list: pieces of text, each in a line of "worth a look"; not_noted: in none
    rows_in     rows of the tables; without it only the sum is checked
    merged      rows that name an utterance of another row; default 0
    excluded    rows that were not requested; default 0
    domains     {name: utterances}, splits, languages alike
    speakers    number
    ids         {id: {field of `ls --json`: value}}, 'seconds' within 0.05; a missing id fails, {id: None}
                means that it must not be there; extras: those given must be among those found
    all_ids     a list: exactly these

    archive     False: the case cannot be delivered in archives; the fixture says why in a comment

The dataset is packed twice, with one worker and with four, and must have the same bytes. Then the
tree is put into archives (archive_form.py), and must give the same bytes again.
"""
import collections
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import archive_form  # noqa: E402

SECONDS_TOLERANCE = 0.05
# AddressSanitizer marks each allocated byte, and most of pack's default 256M stay untouched here.
LITTLE_MEMORY = ["--memory", "32M"] if os.environ.get("SPEECHSHARD_TEST_FEWER") == "1" else []


class Checks:
    def __init__(self, name):
        self.name = name
        self.failures = 0

    def fail(self, text):
        self.failures += 1
        print(f"FAILED: {self.name}: {text}")

    def equal(self, what, got, want):
        if got != want:
            self.fail(f"{what}: {got!r}, want {want!r}")


def clip_maker(program):
    def clip(path, seconds=0.4, rate=16000, channels=1, seed=0):
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Files with other extensions, or names that are not UTF-8, are made next to it and moved.
        suffix = path.suffix if path.suffix in (".wav", ".flac", ".mp3", ".opus", ".ogg") else ".wav"
        made = path.parent / f"make-clip-{os.getpid()}{suffix}"
        subprocess.run([program, str(made), str(seconds), str(rate), str(channels), str(seed)],
                       check=True)
        made.replace(path)
        return path
    return clip


def files_below(folder):
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()}


def read_lines(text):
    return [json.loads(line) for line in text.split("\n") if line]


def run(command, *words):
    return subprocess.run([command, *map(str, words)], stdin=subprocess.DEVNULL,
                          capture_output=True, encoding="utf-8", errors="surrogateescape")


def pack(command, expected, root, dataset, jobs):
    sources = [root / name for name in expected.get("roots", [expected.get("root", "")])]
    return run(command, "pack", *sources, "-o", dataset, "--json", "--max-rejects", "100%",
               "--jobs", jobs, *LITTLE_MEMORY, *expected.get("options", []))


def check_rejects(checks, want, report, rejects):
    got = {reason: count["events"] for reason, count in report["rejects"].items()}
    checks.equal("rejects", got, {reason: count[0] if isinstance(count, tuple) else count
                                  for reason, count in want.items()})
    for reason, count in want.items():
        if isinstance(count, tuple) and reason in report["rejects"]:
            checks.equal(f"rows of {reason}", report["rejects"][reason]["rows"], count[1])
    listed = collections.Counter(reject["reason"] for reject in rejects)
    checks.equal("reasons in rejects.jsonl", dict(listed), got)
    told = any("audio is not as long as their metadata say" in line for line in report["warnings"])
    checks.equal("odd durations are worth a look", told, "duration_mismatch" in got)


def check_fields(checks, name, got, want):
    for field, value in want.items():
        if field == "extras":
            for key, extra in value.items():
                checks.equal(f"{name}: extras.{key}", got["extras"].get(key), extra)
        elif field == "seconds":
            if abs(got["seconds"] - value) > SECONDS_TOLERANCE:
                checks.fail(f"{name}: {got['seconds']} seconds, want {value}")
        else:
            checks.equal(f"{name}: {field}", got.get(field), value)


def check_utterances(checks, expected, utterances):
    by_id = {utterance["id"]: utterance for utterance in utterances}
    checks.equal("different ids", len(by_id), len(utterances))
    if "all_ids" in expected:
        checks.equal("ids", sorted(by_id), sorted(expected["all_ids"]))
    for name, fields in expected.get("ids", {}).items():
        if (name in by_id) != (fields is not None):
            checks.fail(f"{name}: {'not wanted' if fields is None else 'missing'}; "
                        f"ids: {sorted(by_id)[:20]}")
        elif fields is not None:
            check_fields(checks, name, by_id[name], fields)


def check_rows(checks, expected, report):
    """Every row of every source is accounted for exactly once."""
    fates = ("packed", "rejected", "merged", "excluded")
    for fate in ("merged", "excluded"):
        checks.equal(fate, report[fate], expected.get(fate, 0))
    if "rows_in" in expected:
        checks.equal("rows in", report["rows_in"], expected["rows_in"])
    for source in [report, *report["sources"]]:
        checks.equal(f"rows in of {source.get('root', 'all sources')}", source["rows_in"],
                     sum(source[fate] for fate in fates))
    for key in ("rows_in", *fates):
        checks.equal(f"{key} of all sources", sum(source[key] for source in report["sources"]),
                     report[key])


def check_counts(checks, expected, report, info):
    if "utterances" in expected:
        checks.equal("utterances", info["utterances"], expected["utterances"])
    checks.equal("packed", report["packed"], info["utterances"])
    check_rows(checks, expected, report)
    if "domains" in expected:
        checks.equal("domains", {domain["name"]: domain["utterances"] for domain in info["domains"]},
                     expected["domains"])
    for table in ("splits", "languages", "speakers"):
        if table in expected:
            checks.equal(table, info[table], expected[table])


def same_but_evidence(dataset):
    """The files that identify a dataset. The file that identified a corpus may depend on the order
    of names in a folder."""
    files = files_below(dataset)
    files.pop("reports/pack.html")
    report = json.loads(files.pop("reports/pack.json"))
    for source in report["sources"]:
        del source["evidence"]
    return {**files, "pack.json": report}


def check_archive(checks, command, expected, root, unpacked):
    source = root / expected.get("root", "")
    form = archive_form.pack_up(source if source.is_dir() else root, checks.name,
                                source if source.is_file() else None)
    if form is None:
        return
    dataset = unpacked.with_name("archive.spsh")
    packed = pack(command, expected, root, dataset, 2)
    checks.equal(f"exit status of {form}", packed.returncode, 0)
    if packed.returncode != 0:
        print(packed.stderr)
        return
    want, got = same_but_evidence(unpacked), same_but_evidence(dataset)
    for name in sorted(want.keys() | got.keys()):
        if want.get(name) != got.get(name):
            checks.fail(f"{form}: {name} is not that of the unpacked tree")
            if name.endswith(".jsonl"):
                print(f"{want[name]!r}\n{got[name]!r}")
    if (dataset / ".pack").exists():
        checks.fail(f"{form}: .pack is left over")


def check_case(checks, command, make, expected, layout, clip):
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        root = work / "corpus"
        root.mkdir()
        make(root, clip)
        first = work / "jobs-1.spsh"
        packed = pack(command, expected, root, first, 1)
        checks.equal("exit status", packed.returncode, expected.get("status", 0))
        if expected.get("stderr", "") not in packed.stderr:
            checks.fail(f"no {expected['stderr']!r} in the messages")
        if packed.returncode == 0 and "--layout" not in expected.get("options", []):
            if f": recognized as {expected.get('layout', layout)} because " not in packed.stderr:
                checks.fail(f"layout {expected.get('layout', layout)} was not detected")
        if packed.returncode != 0:
            if checks.failures:
                print(packed.stderr)
            return
        report = json.loads(packed.stdout)
        rejects = read_lines((first / "reports" / "rejects.jsonl").read_text(encoding="utf-8"))
        check_counts(checks, expected, report, json.loads(run(command, "info", "--json", first).stdout))
        if "rejects" in expected:
            check_rejects(checks, expected["rejects"], report, rejects)
        for id, detail in expected.get("reject_details", {}).items():
            checks.equal(f"details of {id}", [reject.get("detail") for reject in rejects
                                              if reject.get("id") == id], [detail])
        for text in expected.get("told", []):
            if not any(text in reject.get("detail", "") for reject in rejects):
                checks.fail(f"no reject says {text!r}")
        for key, wanted in (("noted", True), ("not_noted", False)):
            for text in expected.get(key, []):
                if any(text in line for line in report["warnings"]) != wanted:
                    checks.fail(f"{key}: {text!r}, but the report has {report['warnings']}")
        check_utterances(checks, expected, read_lines(run(command, "ls", "--json", first).stdout))
        if checks.failures:
            print(packed.stderr)
            for reject in rejects:
                print(json.dumps(reject, ensure_ascii=False))

        second = work / "jobs-4.spsh"
        again = pack(command, expected, root, second, 4)
        checks.equal("exit status with four workers", again.returncode, 0)
        if files_below(first) != files_below(second):
            checks.fail("one worker and four made different bytes")
        if expected.get("archive", True):
            check_archive(checks, command, expected, root, first)


def load_cases(name):
    fixture = importlib.import_module(f"{name}_fixture")
    return getattr(fixture, "CASES", None) or {"": (fixture.make, fixture.EXPECTED)}


def main():
    command, make_clip, name = sys.argv[1:]
    failures = 0
    for case, (make, expected) in load_cases(name).items():
        checks = Checks(f"{name} {case}".strip())
        check_case(checks, command, make, expected, name.replace("_", "-"), clip_maker(make_clip))
        failures += checks.failures
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
