"""dedupe_data_test.py COMMAND: copies of real speech: three codecs, uncut originals of cleaned
recordings, equal files.

The names contain the truth: recordings are copies if and only if their names are equal. Exceptions
are files of `precise-community` that are equal, or equal except for their codec (seven pairs;
people said those words once).
"""
import json
import os
import pathlib
import tempfile

from cli_kit import DATA, check, equal, finish, need_data, run

CORPORA = ["ljspeech-3codecs", "kerstin-pairs", "precise-community"]


def good(*words):
    done = run(*words)
    check(done.returncode == 0, f"{words}: {done.stderr}")


need_data(*CORPORA)
with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(os.path.realpath(folder))
    for name in CORPORA:
        good("pack", DATA / name, "-o", work / f"{name}.spsh", "--layout", "folder")
    good("dedupe", *(work / f"{name}.spsh" for name in CORPORA), "-o", work / "plan.jsonl")
    lines = [json.loads(line) for line in (work / "plan.jsonl").read_text().splitlines()]
    names = [pathlib.Path(dataset["path"]).stem for dataset in lines[0]["datasets"]]
    dropped = {name: 0 for name in CORPORA}
    equal_files = 0
    for line in lines:
        if line.get("type") == "member" and line["decision"] == "drop":
            corpus = names[line["dataset"]]
            dropped[corpus] += 1
            equal(names[line["kept"]["dataset"]], corpus, f"{line['id']} and what it is a copy of")
            if corpus != "precise-community":
                stems = [pathlib.Path(i).stem if i.endswith((".wav", ".mp3", ".flac")) else pathlib.Path(i).name
                         for i in (line["id"], line["kept"]["id"])]
                equal(stems[0], stems[1], "names of copies")
            equal_files += line["tier"] == "bytes"
    equal(dropped["ljspeech-3codecs"], 64, "LJ: 32 recordings in three codecs")
    equal(dropped["kerstin-pairs"], 120, "uncut originals of cleaned recordings")
    equal(equal_files, 10, "equal files")
    equal(dropped["precise-community"] in (16, 17), True, "equal files, and those that are so but for their codec")
finish()
