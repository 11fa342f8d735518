"""explain_test.py COMMAND MAKE_SPEECH: pairs of each class, and the answer of `explain`."""
import json
import pathlib
import shutil
import struct
import tempfile
import wave
import xml.etree.ElementTree as ElementTree

from cli_kit import check, check_head, check_tables, equal, finish, run, speech

# file -> (pieces, rate in its header, text); 16 kHz unless said otherwise
CLIPS = {
    "whole.wav": (["1:0:6"], 16000, "the whole story"),
    "lossless.flac": (["1:0:6"], 16000, "the whole story"),
    "lossy.mp3": (["1:0:6"], 16000, "The whole story!"),
    "part.flac": (["1:2:3"], 16000, "story"),
    "odd.flac": (["1:2.0003126:3"], 16000, ""),  # begins with sample 32,005: between two samples at 8 kHz
    "shared.flac": (["2:0:4", "1:1:2"], 16000, "another, with a piece of it"),
    "faster.flac": (["1:0:6"], 17600, ""),
    "other.flac": (["3:0:6"], 16000, "<b>other</b> \u202e words"),
    "short.flac": (["4:0:0.3"], 16000, "hm"),
}


def pack(work, name, clips):
    folder = work / f"{name}-files"
    folder.mkdir()
    rows = ["path\ttext\tsplit\tspeaker"]
    for clip, (pieces, rate, text) in clips.items():
        speech(folder / clip, *pieces, rate=rate)
        rows.append(f"{clip}\t{text}\ttrain\tA")
    (folder / "table.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    dataset = work / f"{name}.spsh"
    done = run("pack", folder / "table.tsv", "-o", dataset, "--layout", "table-raw", "--dedupe", "none")
    check(done.returncode == 0, done.stderr)
    return dataset


def explain(*words):
    done = run("explain", *words, "--json")
    check(done.returncode == 0, f"{words}: {done.stderr}")
    return json.loads(done.stdout)


def check_classes(dataset):
    found = explain(dataset, "whole", "lossless")
    equal((found["class"], found["tier"], found["may_drop"]), ("same_recording", "pcm", True), "lossless copy")
    equal(found["exact"]["samples"], True, "equal samples")
    equal(found["texts"], {"profile": "default-1", "equal": True, "similarity": 1.0}, "equal texts")

    found = explain(dataset, "whole", "lossy")
    equal((found["class"], found["tier"], found["may_drop"]), ("same_recording", "acoustic", True), "lossy copy")
    equal(found["texts"]["equal"], True, "texts that differ in case and punctuation")
    equal([check_["what"] for check_ in found["checks"] if not check_["passed"]], [], "failed checks of a copy")
    check(any(check_["decides"] for check_ in found["checks"]), "nothing decides that it is a copy")
    check(abs(found["gain_db"]) < 1, f"gain of {found['gain_db']} dB")

    found = explain(dataset, "whole", "part")
    match = found["matches"][0]
    equal(found["class"], "contained", "a part")
    check(abs(match["lag_ms"] + 2000) < 1, f"a part that begins at 2 s: lag {match['lag_ms']} ms")
    turned = explain(dataset, "part", "whole")
    check(abs(turned["matches"][0]["lag_ms"] - 2000) < 1, f"the same turned: {turned['matches'][0]['lag_ms']} ms")
    equal((turned["matches"][0]["coverage_a"], turned["a"]["id"]), (match["coverage_b"], "part"), "turned")
    for words, want in (("whole", "odd"), -2000.3125), (("odd", "whole"), 2000.3125):
        lag_ms = explain(dataset, *words)["matches"][0]["lag_ms"]
        check(abs(lag_ms - want) < 0.03, f"{words}: lag of {lag_ms} ms, want {want}")
    check(found["exact"]["pieces"] > 3, "equal pieces of PCM")

    found = explain(dataset, "whole", "shared")
    equal((found["class"], found["may_drop"]), ("shared_segment", False), "a shared stretch")
    failed = [check_["what"] for check_ in found["checks"] if not check_["passed"]]
    equal(failed, ["share of a's active speech", "share of b's active speech"], "what keeps it from being a copy")

    found = explain(dataset, "whole", "faster")
    equal((found["class"], found["may_drop"]), ("time_scaled", False), "a faster one")
    check(abs(found["matches"][0]["scale"] - 1.1) < 0.001, f"speed {found['matches'][0]['scale']}")
    equal(found["texts"], {"profile": "default-1", "equal": None, "similarity": None}, "no text to compare")

    for other in ("other", "short"):
        found = explain(dataset, "whole", other)
        check(found["class"] in ("none", "reread"), f"{other}: {found['class']}")
        equal(found["may_drop"], False, other)
        check(found["verdict"].startswith(("No copy", "Not a copy")), found["verdict"])


def check_people(dataset):
    done = run("explain", dataset, "whole", "lossy")
    for wanted in ("a  whole", "b  lossy", "same_recording (acoustic): one of them may be dropped",
                   "The whole story!", "bit error rate", "<- decisive", "samples  differ", "texts    equal"):
        check(wanted in done.stdout, f"no {wanted!r} in {done.stdout}")
    equal(run("explain", dataset, "whole", "lossy").stdout, done.stdout, "the same again")
    done = run("explain", dataset, "whole", "other")
    check("\u202e" not in done.stdout, "a mark of direction is on the terminal")
    check("neither is dropped" in done.stdout, done.stdout)


def check_files(work, dataset):
    plot, page, cut = work / "pair.svg", work / "pair.html", work / "pair.wav"
    done = run("explain", dataset, "part", "whole", "--plot", plot, "--listen", cut)
    equal((done.returncode, done.stderr), (0, ""), "plot and cut")
    root = ElementTree.parse(plot).getroot()
    equal(root.tag, "{http://www.w3.org/2000/svg}svg", "the picture")
    check("contained (acoustic)" in "".join(root.itertext()), "no numbers beneath the picture")
    with wave.open(str(cut)) as sound:
        equal((sound.getnchannels(), sound.getframerate(), sound.getsampwidth()), (2, 16000, 2), "the cut")
        values = struct.unpack(f"<{2 * sound.getnframes()}h", sound.readframes(sound.getnframes()))
    both = [n for n in range(0, len(values), 2) if values[n] != 0]
    check(len(both) > 32000, f"{len(both)} samples of a in the cut")
    wrong = sum(values[n] != values[n + 1] for n in both)
    equal(wrong, 0, "samples in which the ears differ, of a cut out of the same samples")
    # other words and no match at all: still a picture, and a page that holds hostile text as text
    done = run("explain", dataset, "whole", "other", "--plot", page)
    equal(done.returncode, 0, "a page of no copy")
    root = ElementTree.fromstring(page.read_bytes())
    rows = check_head(root, "the page")
    check_tables(root, "the page")
    equal("".join(rows["command"].itertext()), f"speechshard explain {dataset} whole other --plot {page}", "command")
    check(pathlib.Path(dataset).name in "".join(rows["dataset"].itertext()), "the dataset's name")
    check("<b>other</b>" in "".join(root.itertext()), "the text is not on the page as it is written")
    done = run("explain", dataset, "whole", "other", "--plot", work / "no" / "such" / "folder.svg")
    equal((done.returncode, done.stdout), (1, ""), "a picture that cannot be written")


def check_wrong(work, dataset):
    for words, wanted in (
            ((dataset, "whole", "whloe"), "did you mean 'whole'?"),
            ((dataset, "nothing-like-it", "whole"), "has no utterance 'nothing-like-it' ('speechshard ls'"),
            ((work / "no.spsh", "whole", "part"), "no.spsh")):
        done = run("explain", *words)
        equal((done.returncode, done.stdout), (1, ""), f"{words}")
        check(wanted in done.stderr, f"{words}: {done.stderr}")
    for words, wanted in (((dataset, "whole"), "ID is missing"), ((dataset, "whole", "whole"), "given twice"),
                          ((dataset, "a", dataset, "b", "c"), "unexpected argument")):
        done = run("explain", *words)
        equal((done.returncode, done.stdout), (2, ""), f"{words}")
        check(wanted in done.stderr, f"{words}: {done.stderr}")


def check_two(work, dataset):
    """Segments are made by explain itself; the order of the two datasets is the order in the
    answer."""
    second = pack(work, "second", {"clip.flac": CLIPS["part.flac"]})
    check(not (second / "fingerprints").exists(), "segments before they were asked for")
    for first in (True, False):
        words = (dataset, "whole", second, "clip") if first else (second, "clip", dataset, "whole")
        found = explain(*words)
        equal((found["class"], found["a"]["id"], found["b"]["id"]),
              ("contained", "whole", "clip") if first else ("contained", "clip", "whole"), "two datasets")
    check((second / "fingerprints").exists(), "segments are not kept")


def check_broken(work, dataset):
    """A damaged payload is an error, not a verdict."""
    broken = work / "broken.spsh"
    shutil.copytree(dataset, broken)
    shard = next((broken / "shards").iterdir())
    content = bytearray(shard.read_bytes())
    for at in range(8192, len(content) // 2, 4096):
        content[at] ^= 0x55
    shard.write_bytes(content)
    done = run("explain", broken, "whole", "lossy")
    equal((done.returncode, done.stdout), (1, ""), "damaged audio")
    check(f"'speechshard verify {broken}' lists the damage" in done.stderr, f"damaged audio: {done.stderr}")


with tempfile.TemporaryDirectory() as folder:
    work = pathlib.Path(folder)
    dataset = pack(work, "first", CLIPS)
    check_classes(dataset)
    check_people(dataset)
    check_files(work, dataset)
    check_wrong(work, dataset)
    check_two(work, dataset)
    check_broken(work, dataset)
finish()
