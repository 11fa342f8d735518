"""stream_test.py COMMAND MAKE_CLIP: test the promises of STREAM.md to a producer, sample by
sample."""

import io
import json
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

command, make_clip = sys.argv[1:]
work = tempfile.TemporaryDirectory()
folder = Path(work.name)


def clip(number, extension):
    path = folder / f"clip.{extension}"
    subprocess.run([make_clip, path, "0.4", "16000", "1", str(number)], check=True)
    return path.read_bytes()


class Stream:
    """A tar; each sample has a separate key and separate audio."""

    def __init__(self):
        self.data = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.data, mode="w", format=tarfile.USTAR_FORMAT)
        self.count = 0

    def member(self, name, data):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        self.tar.addfile(info, io.BytesIO(data))

    def sample(self, info, extension="flac", key=None):
        self.count += 1
        key = key or str(self.count)
        if info is not None:
            text = info if isinstance(info, bytes) else json.dumps(info, ensure_ascii=False).encode()
            self.member(f"{key}.json", text)
        if extension is not None:
            self.member(f"{key}.{extension}", clip(self.count, extension))

    def bytes(self):
        self.tar.close()
        return self.data.getvalue()


stream = Stream()
stream.sample({"id": "a.b/ü", "text": "", "speaker": "unknown", "language": "de", "domain": "d/x",
               "split": "dev", "document": "doc", "source": "s/1#2", "nominal_rate_hz": 16000, "more": 5,
               "extras": {"kind": "k", "deep": {"x": [1]}}}, "opus")  # fmt: skip
stream.sample({"extras": {}})
stream.sample({"id": None, "text": None, "speaker": "", "domain": "", "split": "", "extras": {"kind": "q"}},
              "wav")  # fmt: skip
stream.sample({"id": "four", "source": "f#4", "reject": {"reason": "remote_source", "detail": "far"}}, None)
stream.sample({"source": "f#5", "reject": {"reason": "no such reason", "rows": 3}}, None)
stream.sample({"source": "f#6", "reject": {"reason": "excluded_by_rule", "rows": 0}}, None)
stream.sample({"id": "seven", "extras": {}}, None)
stream.sample(None)
stream.sample(b"[1, 2]")
stream.sample({"id": "x\ty", "extras": {}})
stream.sample({"id": "a.b/ü", "extras": {}})
stream.sample({"extras": {}}, key="2")
data = stream.bytes()


def pack(name, *options):
    words = [command, "pack", "-", "-o", folder / name, "--json", "--max-rejects", "100%", *options]
    done = subprocess.run(words, input=data, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert options or b": recognized as webdataset because" in done.stderr, done.stderr.decode()
    listed = subprocess.run([command, "ls", "--json", folder / name], check=True, capture_output=True)
    utterances = [json.loads(line) for line in listed.stdout.split(b"\n") if line]
    return json.loads(done.stdout), {utterance["id"]: utterance for utterance in utterances}


def check(what, got, want):
    assert got == want, f"{what}: {got!r}, want {want!r}"


report, found = pack("a.spsh")
check("ids", sorted(found), ["2", "3", "8", "a.b/ü"])
first = {"text": "", "speaker": "unknown", "language": "de", "domain": "d/x", "split": "dev",
         "document": "doc", "source": "s/1#2", "nominal_sample_rate_hz": 16000, "codec": "opus",
         "extras": {"kind": "k", "deep": {"x": [1]}}}  # fmt: skip
check("the first", {key: found["a.b/ü"][key] for key in first}, first)
for name, source in (("2", "2.flac"), ("3", "3.wav"), ("8", "8.flac")):
    empty = {"text": None, "speaker": None, "domain": "default", "split": None, "source": source}
    check(name, {key: found[name][key] for key in empty}, empty)
rejects = (folder / "a.spsh" / "reports" / "rejects.jsonl").read_text(encoding="utf-8")
rejects = [json.loads(line) for line in rejects.split("\n") if line]
check("rejects", sorted((r["reason"], r["source"], r["rows"]) for r in rejects), [
    ("bad_id", "10.flac", 1), ("dup_id", "11.flac", 1), ("dup_member", "2.flac", 1),
    ("excluded_by_rule", "f#6", 0), ("missing_audio", "7.json", 1), ("remote_source", "f#4", 1),
    ("row_syntax", "9.json", 1), ("row_syntax", "f#5", 3)])  # fmt: skip
four = next(reject for reject in rejects if reject["source"] == "f#4")
check("what is said of it", (four["id"], four["detail"]), ("four", "far"))
check("rows", (report["rows_in"], report["packed"], report["rejected"]), (13, 4, 9))

_, found = pack("b.spsh", "--domain", "column:kind")
check("domains", {n: u["domain"] for n, u in found.items()},
      {"2": "default", "3": "q", "8": "default", "a.b/ü": "k"})  # fmt: skip
report, found = pack("c.spsh", "--domain", "dir:1", "--split", "dev")
check("of one split", {n: u["domain"] for n, u in found.items()}, {"a.b/ü": "s"})
check("rows", report["rows_in"], report["packed"] + report["rejected"] + report["excluded"])

# The stream as a file, packed under its name, produces the same dataset.
(folder / "stream.tar").write_bytes(data)
words = [command, "pack", folder / "stream.tar", "-o", folder / "d.spsh", "--quiet", "--max-rejects", "100%"]
subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
for path in sorted((folder / "a.spsh").rglob("*.spsh")):
    other = folder / "d.spsh" / path.relative_to(folder / "a.spsh")
    check(path.name, path.is_dir() or path.read_bytes() == other.read_bytes(), True)



def check_cut(what, cut):
    """An archive without its end publishes nothing, on standard input and by name."""
    (folder / "cut.tar").write_bytes(cut)
    for source in ("-", folder / "cut.tar"):
        words = [command, "pack", source, "--layout", "webdataset", "-o", folder / "cut.spsh", "--quiet"]
        done = subprocess.run(words, input=cut, capture_output=True)
        check(f"exit status of {source}, {what}", done.returncode, 1)
        check(f"an output of {source}, {what}", (folder / "cut.spsh").exists(), False)


check_cut("without end", data[:-(-len(data.rstrip(b"\0")) // 512) * 512])
check_cut("nothing", b"")

# Clips that end in zeros, after a name that begins like a zip.
zeros = Stream()
zeros.member("PK000.json", b'{"extras": {}}')
boundaries = []
for number in range(4):
    zeros.member(f"{number}.wav", clip(number, "wav")[:-2048] + bytes(2048))
    boundaries.append(zeros.data.tell())
zeros = zeros.bytes()
check_cut("after a member", zeros[:boundaries[1]])
check_cut("in a member", zeros[:boundaries[2] - 512])
check_cut("in the end", zeros[:boundaries[3] + 512])

# A signal ends pack even if the producer has stopped writing.
words = [command, "pack", "-", "-o", folder / "stopped.spsh", "--quiet"]
waiting = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
waiting.stdin.write(data[:2048])
waiting.stdin.flush()
while not (folder / "stopped.spsh" / ".pack").exists():
    check("pack", waiting.poll(), None)
    time.sleep(0.01)
while waiting.poll() is None:  # the signal may have arrived before pack began to wait
    waiting.send_signal(signal.SIGTERM)
    time.sleep(0.05)
check("exit status", waiting.wait(), -signal.SIGTERM)
check("a message", b"canceled" in waiting.stderr.read(), True)
