"""nearest_id_test.py COMMAND: an id without its first folders is found in a dataset with too many
ids to read one by one.

The ids are segments of one recording, and the ids of the requested folder come last.
"""
import pathlib
import struct
import tempfile
import wave

from cli_kit import check, equal, run, run_tests

READ_ONE_BY_ONE = 200000
SEGMENT_S = 0.001


def make(work):
    count = READ_ONE_BY_ONE + 4000
    with wave.open(str(work / "long.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", None))
        file.writeframes(struct.pack("<8h", *range(8)) * (count + 8))
    with open(work / "corpus.tsv", "w", encoding="utf-8") as file:
        file.write("path\tid\tstart\tend\n")
        for n in range(count):
            folder = "first" if n < READ_ONE_BY_ONE else "last/deep"
            file.write(f"long.wav\t{folder}/{n}\t{n * SEGMENT_S:.3f}\t{(n + 1) * SEGMENT_S:.3f}\n")
    done = run("pack", work / "corpus.tsv", "-o", work / "d.spsh", "--order", "source", "--quiet")
    equal(done.returncode, 0, done.stderr)


def test_folders(work):
    for typed, nearest in ((f"deep/{READ_ONE_BY_ONE + 3999}", f"last/deep/{READ_ONE_BY_ONE + 3999}"),
                           (f"{READ_ONE_BY_ONE + 100}", f"last/deep/{READ_ONE_BY_ONE + 100}"),
                           ("77", "first/77"),
                           ("frist/77", "first/77")):
        done = run("cat", work / "d.spsh", typed, "-o", work / "no.wav")
        equal(done.returncode, 1, f"{typed}: {done.stderr}")
        check(f"has no utterance '{typed}'; did you mean '{nearest}'?" in done.stderr, f"{typed}: {done.stderr}")
    done = run("cat", work / "d.spsh", "something-else", "-o", work / "no.wav")
    check("('speechshard ls' lists them)" in done.stderr, done.stderr)


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    make(work)
    run_tests([test_folders], work)
