"""train_test.py COMMAND MAKE_SPEECH: train, eval, transcribe, report, and env, as users see them.

A model of a few hundred weights is trained on made speech for moments. Its quality does not matter; all commands
must report the same about it, in the forms that docs/reference/TRAINING.md promises.
"""
import contextlib
import fcntl
import json
import math
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import wave

from cli_kit import COMMAND, check, check_head, environment, equal, read_page, run, run_tests, speech

TREE = pathlib.Path(__file__).parents[2]
TEXTS = ["one two", "two", "three one", "two three four", "four", "one"]
ELEMENTS = {"html", "head", "meta", "title", "style", "body", "main", "section", "div", "h1", "h2", "p", "b", "i", "span",
            "code", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "bdi", "details", "summary",
            "svg", "rect", "line", "text", "path", "circle"}
TINY = ["model.hidden=8", "model.layers=1", "model.conv_channels=2", "train.threads=1",
        "train.backend=cpu"]
CONFIG = """vocabulary: words.vocabulary
features: kaldi-fbank,sample_rate_hz=8000,mel_count=16
data:
  train: ["speech.spsh:train"]
  dev: ["speech.spsh:test", "speech.spsh:train"]
  max_padded_seconds: 8
model:
  preset: ds2-tiny
train:
  rate: 1e-3
  epochs: 3
"""


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def failed(done, status, *words):
    """The command fails with this status, one line with these words on standard error, and no standard output."""
    equal(done.returncode, status, f"status: {done.stderr}")
    equal(done.stdout, "", "standard output of what is refused")
    for word in words:
        check(word in done.stderr, f"'{word}' is not in: {done.stderr}")


def make_corpus(work):
    rows = ["path\tid\ttext\tsplit\tdomain"]
    for number, text in enumerate(TEXTS * 3):
        speech(work / f"clips/{number}.wav", f"{number + 1}:0:{1 + number % 3 / 2}")
        split = "test" if number % 6 == 5 else "train"
        rows.append(f"clips/{number}.wav\tu{number}\t{text}\t{split}\t{'even' if number % 2 == 0 else 'odd'}")
    (work / "corpus.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    done = run("pack", "corpus.tsv", "-o", "speech.spsh", cwd=work)
    equal(done.returncode, 0, f"pack: {done.stderr}")
    (work / "tiny.yaml").write_text(CONFIG, encoding="utf-8")
    done = run("train", "tiny.yaml", "--make-vocab", cwd=work)
    equal(done.returncode, 0, f"--make-vocab: {done.stderr}")


def train(work, name, *more):
    return run("train", "tiny.yaml", "-o", name, *TINY, *more, cwd=work)


# ---- train ----

def test_train(work):
    done = train(work, "run", "--json")
    equal(done.returncode, 0, f"train: {done.stderr}")
    result = json.loads(done.stdout)
    lines = lines_of(work / "run/metrics.jsonl")
    steps = [line for line in lines if line["kind"] == "step"]
    equal(lines[0]["kind"], "start", "the first line")
    equal(result["steps"], len(steps), "steps")
    equal(result["epochs"], 3, "epochs")
    equal(result["utterances"], 45, "utterances")
    equal([line["step"] for line in steps], list(range(1, len(steps) + 1)), "steps in order")
    equal(steps[-1]["samples"], 45, "utterances served")
    check(abs(result["loss"] - steps[-1]["loss"]) < 1e-9 * abs(result["loss"]), "the last loss")
    evaluations = [line for line in lines if line["kind"] == "evaluation"]
    equal([line["set"] for line in evaluations], ["speech.spsh:test", "speech.spsh:train"] * 3, "sets")
    equal(result["wer"], evaluations[-2]["wer"], "WER of the first set")
    for name in ("config.yaml", "report.html", "latest", "checkpoints"):
        check(os.path.lexists(work / "run" / name), f"run/{name} is missing")
    check("epoch 3" in done.stderr and "WER" in done.stderr, f"messages: {done.stderr}")


def test_metrics_are_documented(work):
    """Each member of each kind of line has its row in the document, and each row its member."""
    text = (TREE / "docs/reference/TRAINING.md").read_text(encoding="utf-8")
    for kind in ("start", "step", "evaluation"):
        found = re.search(rf"^\| `{kind}` \|.*?\n\n", text + "\n\n", re.S | re.M)
        check(found is not None, f"docs/reference/TRAINING.md has no table of `{kind}`")
        rows = set(re.findall(r"^\| `(\w+)`", found.group(0), re.M)) - {kind} if found else set()
        line = next(line for line in lines_of(work / "run/metrics.jsonl") if line["kind"] == kind)
        common = {"kind", "samples", "step", "time"}
        equal(rows, set(line) - common, f"members of `{kind}`")


def test_refused(work):
    failed(run("train", cwd=work), 2, "-o RUN")
    failed(run("train", "-o", "x", cwd=work), 2, "configuration")
    failed(run("train", "no.yaml", "-o", "x", cwd=work), 1, "no.yaml")
    failed(train(work, "x", "train.rat=1"), 1, "train.rat: unknown key", "'train.rate'")
    failed(train(work, "x", "train.rate=fast"), 1, "train.rate", "'fast'")
    failed(train(work, "x", "--vocab-kind", "pieces"), 2, "--make-vocab")
    failed(train(work, "x", "--resume", "always"), 2, "--resume")
    failed(train(work, "x", "vocabulary=no.vocabulary"), 1, "no.vocabulary")
    failed(run("train", "-o", "x", "--resume", "auto", cwd=work), 1, "x: no checkpoint to resume from")
    failed(run("train", "tiny.yaml", "tiny.yaml", "-o", "x", cwd=work), 2, "one configuration")
    failed(train(work, "x", "data.train=no.spsh"), 1, "no.spsh")
    failed(train(work, "x", "data.dev=no.spsh"), 1, "no.spsh")
    failed(train(work, "x", "data.train=speech.spsh:tran"), 2, '"tran"', "train")
    check(not (work / "x").exists(), "what is refused before the first step leaves nothing behind")
    failed(train(work, "run"), 1, "run: the folder already has checkpoints", "set resume to continue")


def test_unknown_split(work):
    """A split that the data lack is a wrong argument, in every command that takes a split."""
    for words in (["pack", "corpus.tsv", "-o", "wrong.spsh", "--split", "tset"],
                  ["ls", "speech.spsh", "--split", "tset"],
                  ["export", "speech.spsh", "--to", "wav", "-o", "wrong", "--split", "tset"],
                  ["plan", "speech.spsh", "--split", "tset"],
                  ["bench", "speech.spsh", "--split", "tset"],
                  ["pack", "corpus.tsv", "-o", "wrong.spsh", "--split", "train,tset"],
                  ["plan", "speech.spsh", "--split", "train,tset"],
                  ["bench", "speech.spsh", "--split", "train,tset"],
                  ["dedupe", "speech.spsh:train,tset", "-o", "wrong.jsonl"],
                  ["dedupe", "speech.spsh", "-o", "wrong.jsonl", "--drop-from", "train,tset"],
                  ["train", "tiny.yaml", "--estimate", "data.train=speech.spsh:train,tset"],
                  ["dedupe", "speech.spsh:tset", "-o", "wrong.jsonl"],
                  ["dedupe", "speech.spsh", "-o", "wrong.jsonl", "--drop-from", "tset"],
                  ["audit", "--train", "speech.spsh:tset", "--test", "speech.spsh:test", "-o", "wrong"],
                  ["audit", "--train", "speech.spsh:train", "--test", "speech.spsh:tset", "-o", "wrong"],
                  ["train", "tiny.yaml", "--make-vocab", "vocabulary=wrong.vocabulary", "data.train=speech.spsh:tset"],
                  ["train", "tiny.yaml", "--estimate", "data.train=speech.spsh:tset"],
                  ["train", "tiny.yaml", "-o", "wrong", "data.dev=speech.spsh:tset"],
                  ["eval", "run", "speech.spsh:tset"],
                  ["transcribe", "run", "speech.spsh", "--split", "tset"]):
        done = run(*words, cwd=work)
        equal((done.returncode, done.stdout), (2, ""), f"{words}: {done.stderr}")
        check("tset" in done.stderr, f"{words}: {done.stderr}")
    check(not (work / "wrong/checkpoints").exists(), "nothing was begun")


def test_no_run(work):
    """A path that is not a run is described."""
    for name, said in (("no", "no: no such run or checkpoint; a run is the folder that train -o writes"),
                       ("corpus.tsv", "corpus.tsv: neither a checkpoint nor the folder of a run"),
                       ("clips", "clips: not the folder of a run, or the run has no checkpoint yet"),
                       ("speech.spsh", "speech.spsh: a dataset, not a run")):
        for command in ("eval", "transcribe"):
            failed(run(command, name, "speech.spsh", cwd=work), 1, said)
    failed(run("report", "no", cwd=work), 1, "a run is the folder that train -o writes")


def test_strategy(work):
    """--strategy sets train.strategy. An unknown name is an error that suggests the closest one."""
    equal(train(work, "named", "--strategy", "dpsgd-ring", "train.epochs=1").returncode, 0, "a run")
    check(re.search("strategy: .?dpsgd-ring", (work / "named/config.yaml").read_text(encoding="utf-8")), "what it was")
    failed(run("train", "tiny.yaml", "-o", "no", "--strategy", "adpsgd-randon", cwd=work), 1, "did you mean 'adpsgd-random'")
    failed(run("train", "tiny.yaml", "-o", "no", "--strategy", "d" * 300, cwd=work), 1, "unknown value")
    failed(run("train", "--simulate", "learners=2,step=1ms,weights=1M", "--strategy", "allreduce", cwd=work), 2, "strategy=NAME")
    check(not (work / "no").exists(), "nothing is left")


def test_resume(work):
    done = run("train", "-o", "run", "--resume", "auto", "train.epochs=4", "--json", cwd=work)
    equal(done.returncode, 0, f"resume: {done.stderr}")
    lines = lines_of(work / "run/metrics.jsonl")
    equal([line["samples"] for line in lines if line["kind"] == "start"], [0, 45], "starts")
    steps = [line["step"] for line in lines if line["kind"] == "step"]
    equal(steps, list(range(1, len(steps) + 1)), "each step once")
    equal(json.loads(done.stdout)["utterances"], 60, "utterances")
    check("resuming after step" in done.stderr, done.stderr)
    again = run("train", "-o", "run", "--resume", "auto", cwd=work)
    equal(again.returncode, 0, f"a run that is done: {again.stderr}")
    equal([line["step"] for line in lines_of(work / "run/metrics.jsonl") if line["kind"] == "step"], steps,
          "steps of a run that is done")


def test_stopped(work):
    process = subprocess.Popen([COMMAND, "train", "tiny.yaml", "-o", "stopped", *TINY, "train.epochs=100000", "data.dev=[]"],
                               cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, encoding="utf-8")
    metrics = work / "stopped/metrics.jsonl"
    while process.poll() is None and (not metrics.exists() or metrics.read_text().count('"step"') < 3):
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output, messages = process.communicate()
    equal(process.returncode, 75, f"after SIGTERM: {messages}")
    equal(output, "", "standard output")
    check("--resume auto continues" in messages, messages)
    check((work / "stopped/report.html").exists(), "no page")
    last = [line["step"] for line in lines_of(metrics)][-1]
    done = run("eval", "stopped", "speech.spsh:test", "--json", cwd=work)
    equal(done.returncode, 0, f"eval of a stopped run: {done.stderr}")
    newest = sorted(path.name for path in (work / "stopped/checkpoints").glob("*-*.spsh"))[-1]
    equal(json.loads(run("report", "stopped", "--json", cwd=work).stdout)["steps"], last, "steps")
    check(newest, "no checkpoint")


def test_terminal(work):
    """On a terminal a status line is updated: epoch, loss, rate, speed, waiting, time left."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    process = subprocess.Popen([COMMAND, "train", "tiny.yaml", "-o", "shown", *TINY, "train.epochs=40", "data.dev=[]",
                                "data.max_padded_seconds=3"], cwd=work, env={**environment, "TERM": "xterm"},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):
        while data := os.read(master, 65536):
            shown += data
    equal(process.wait(), 0, f"train on a terminal: {shown[-300:]!r}")
    process.stdout.close()
    os.close(master)
    check(re.search(rb"train: [\d,]+ steps, [\d,]+/s, epoch \d+ of 40, loss [\d.]+, rate [\d.e-]+, \d+ utterances/s, "
                    rb"waited [\d.]+ %, ETA 0:00:\d\d", shown), f"the line: {shown[-300:]!r}")


# ---- TensorBoard ----

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """TFRecord: length, its checksum, data, its checksum."""
    at = 0
    while at < len(data):
        length, head = struct.unpack_from("<QI", data, at)
        body = data[at + 12:at + 12 + length]
        tail, = struct.unpack_from("<I", data, at + 12 + length)
        check(head == crc32c(data[at:at + 8]) and tail == crc32c(body), f"checksums of the record at {at}")
        yield body
        at += 16 + length


def fields(data):
    """Fields of a protocol buffer: (number, value); bytes for fields with a length."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                return value, at
    at = 0
    while at < len(data):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif key & 7 == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            length, at = varint(at)
            value, at = data[at:at + length], at + length
        yield key >> 3, value


def test_event_files(work):
    """The same losses as in metrics.jsonl, by the definitions of TFRecord and of Event."""
    found = {}
    files = sorted((work / "run").glob("events.out.tfevents.*"))
    starts = [line["step"] for line in lines_of(work / "run/metrics.jsonl") if line["kind"] == "start"]
    equal(len(files), len(starts), f"a file a start: {files}")
    for path in files:
        for number, body in enumerate(records(path.read_bytes())):
            event = dict(fields(body))
            if number == 0:
                equal(event[3], b"brain.Event:2", "the first record")
            if number == 1:  # readers drop the values of earlier files from this step on
                equal((event.get(2, 0), 7 in event), (0 if path == files[0] else starts[files.index(path)] + 1, True),
                      "where a file begins")
            for _, value in fields(event.get(5, b"")):
                scalar = dict(fields(value))
                found.setdefault(scalar[1].decode(), {})[event.get(2, 0)] = scalar[2]
    steps = {line["step"]: line["loss"] for line in lines_of(work / "run/metrics.jsonl") if line["kind"] == "step"}
    equal(set(found.get("train/loss", {})), set(steps), "steps of train/loss")
    for step, loss in steps.items():
        check(math.isclose(found["train/loss"][step], loss, rel_tol=1e-6), f"loss of step {step}")
    for tag in ("train/rate", "speed/wait_share", "domain/even", "evaluation_wer/speech.spsh:test"):
        check(tag in found, f"no {tag} among {sorted(found)}")


# ---- eval ----

def test_eval(work):
    done = run("eval", "run", "speech.spsh:test", cwd=work)
    equal(done.returncode, 0, done.stderr)
    check(re.match(r"WER [\d.]+ %  CER [\d.]+ % \(without blanks [\d.]+ %\)  loss [\d.]+\n3 utterances, 3 words; ",
                   done.stdout), done.stdout)
    both = run("eval", "run", "speech.spsh:test", "speech.spsh:train", "--json", cwd=work)
    rates = [json.loads(line) for line in both.stdout.splitlines()]
    equal([(rate["dataset"], rate["utterances"]) for rate in rates], [("speech.spsh:test", 3), ("speech.spsh:train", 15)],
          "datasets")
    last = [line for line in lines_of(work / "run/metrics.jsonl") if line["kind"] == "evaluation"][-2]
    equal((rates[0]["wer"], rates[0]["words"]), (last["wer"], last["words"]), "WER as in training")
    plain = run("eval", "run", "speech.spsh:test", "--transcripts", cwd=work)
    equal(sorted(line.split("\t")[:2] for line in plain.stdout.splitlines()), [["u11", "one"], ["u17", "one"], ["u5", "one"]],
          "ids and references")
    lines = run("eval", "run", "speech.spsh:test", "--transcripts", "--json", cwd=work).stdout.splitlines()
    equal(["\t".join(json.loads(line).values()) for line in lines], plain.stdout.splitlines(), "the same as JSON")
    newest = next((work / "run/checkpoints").glob("*-*.spsh"))
    equal(run("eval", newest, "speech.spsh:test", "--beam", "4", cwd=work).returncode, 0, "eval of a checkpoint, by beam")
    failed(run("eval", "run", cwd=work), 2, "DATASET")
    failed(run("eval", "no", "speech.spsh", cwd=work), 1, "no")
    failed(run("eval", "run", "speech.spsh:no", cwd=work), 2, '"no"')
    failed(run("eval", "run", "no.spsh", cwd=work), 1, "no.spsh")
    (work / "silent").mkdir()
    shutil.copy(work / "clips/1.wav", work / "silent/u1.wav")
    equal(run("pack", "silent", "-o", "silent.spsh", cwd=work).returncode, 0, "pack without transcripts")
    failed(run("eval", "run", "silent.spsh", cwd=work), 1, "silent.spsh: no utterance has a transcript",
           "`speechshard overlay`")
    failed(train(work, "deaf", "data.dev=[silent.spsh]"), 1, "silent.spsh: no utterance has a transcript")
    (work / "heard.tsv").write_text("u1\tone two\n")
    equal(run("overlay", "silent.spsh", "add", "heard", "--transcript", "heard.tsv", cwd=work).returncode, 0, "overlay")
    equal(run("eval", "run", "silent.spsh", cwd=work).returncode, 0, "eval once an overlay has transcripts")


# ---- transcribe ----

def wav(path, rate, channels, frames):
    with wave.open(str(path), "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(frames)


def test_transcribe_dataset(work):
    for beam in ([], ["--beam", "3"]): # an evaluation decodes a batch after it began the next one
        lines = run("eval", "run", "speech.spsh", "--transcripts", "--json", *beam, cwd=work).stdout.splitlines()
        heard = {line["id"]: line["text"] for line in map(json.loads, lines)}
        done = run("transcribe", "run", "speech.spsh", *beam, cwd=work)
        equal(done.returncode, 0, done.stderr)
        equal(dict(line.split("\t") for line in done.stdout.splitlines()), heard, f"what eval hears, {beam}")
    ids = [json.loads(line)["id"] for line in run("ls", "speech.spsh", "--json", cwd=work).stdout.splitlines()]
    equal([line.split("\t")[0] for line in done.stdout.splitlines()], ids, "the dataset's order")
    split = run("transcribe", "run", "speech.spsh:test", "--json", cwd=work)
    equal({json.loads(line)["id"] for line in split.stdout.splitlines()}, {"u5", "u11", "u17"}, "a split")
    equal(run("transcribe", "run", "speech.spsh", "--split", "test", "--json", cwd=work).stdout, split.stdout, "--split")
    few = run("transcribe", "run", "speech.spsh:test,train", "--limit", "2", cwd=work)
    equal(len(few.stdout.splitlines()), 4, "two of each split")
    equal(run("transcribe", "run", "speech.spsh", "--threads", "1", cwd=work).returncode, 0, "by one thread")
    failed(run("transcribe", "run", "speech.spsh:no", cwd=work), 2, "'no'", "test")
    failed(run("transcribe", "run", "speech.spsh:test", "--split", "test", cwd=work), 2, "--split")


def test_transcribe_files(work):
    clip = work / "clips/3.wav"
    text = run("transcribe", "run", clip, cwd=work).stdout.split("\t")[1]
    with wave.open(str(clip)) as source:
        frames, rate = source.readframes(source.getnframes()), source.getframerate()
    samples = struct.unpack(f"<{len(frames) // 2}h", frames)
    wav(work / "stereo.wav", rate, 2, b"".join(struct.pack("<hh", sample, sample) for sample in samples))
    wav(work / "short.wav", rate, 1, frames[:100])
    wav(work / "none.wav", rate, 1, b"")
    for name in ("clip.flac", "clip.mp3", "clip.opus"):
        speech(work / name, "4:0:1")
    (work / "text.wav").write_text("no audio", encoding="utf-8")
    done = run("transcribe", "run", "stereo.wav", "no.wav", "short.wav", "none.wav", "text.wav", "clip.flac", "clip.mp3",
               "clip.opus", cwd=work)
    equal(done.returncode, 1, "some cannot be read")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    equal([line[0] for line in lines], ["stereo.wav", "short.wav", "none.wav", "clip.flac", "clip.mp3", "clip.opus"], "files")
    equal(lines[0][1] + "\n", text, "stereo of twice the same")
    equal(lines[1][1:] + lines[2][1:], ["", ""], "too short for a frame")
    messages = done.stderr.splitlines()
    equal(len(messages), 2, f"messages: {messages}")
    check("no.wav: cannot open" in messages[0] and messages[0].count("no.wav") == 1 and "text.wav" in messages[1], messages)
    piped = subprocess.run([COMMAND, "transcribe", "run", "-"], input=clip.read_bytes(), capture_output=True,
                           env=environment, cwd=work, check=False)
    equal(piped.stdout.decode(), "-\t" + text, "standard input")
    failed(run("transcribe", "run", cwd=work), 2, "INPUT")


def test_transcribe_long(work):
    """Recordings over a minute are transcribed in parts, cut at the quietest point between 30 and 60 s, as one line."""
    with wave.open(str(work / "clips/3.wav")) as source:
        frames, rate = source.readframes(source.getnframes()), source.getframerate()
    loud = frames * (40 * rate * 2 // len(frames) + 1)
    samples = loud + bytes(2 * rate) + loud
    window = rate // 10 + 1
    cut = 30 * rate
    while cut < len(loud) // 2:
        cut += window // 4 + 1
    cut += window // 2
    wav(work / "long.wav", rate, 1, samples)
    wav(work / "first.wav", rate, 1, samples[:2 * cut])
    wav(work / "second.wav", rate, 1, samples[2 * cut:])
    done = run("transcribe", "run", "first.wav", "second.wav", "long.wav", "--json", cwd=work)
    equal(done.returncode, 0, done.stderr)
    first, second, whole = (json.loads(line) for line in done.stdout.splitlines())
    equal(whole["seconds"], len(samples) / 2 / rate, "seconds")
    check(first["text"] and second["text"], f"nothing is heard: {done.stdout}")
    equal(whole["text"], first["text"] + " " + second["text"], "the parts' texts")


def test_transcribe_damage(work):
    """One utterance is damaged: the others are transcribed."""
    shutil.copytree(work / "speech.spsh", work / "damaged.spsh")
    shard = max((work / "damaged.spsh/shards").glob("*.spsh"), key=lambda path: path.stat().st_size)
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shard.write_bytes(content)
    done = run("transcribe", "run", "damaged.spsh", cwd=work)
    equal(done.returncode, 1, "status")
    equal(len(done.stdout.splitlines()), len(TEXTS) * 3 - 1, "utterances")
    equal(len(done.stderr.splitlines()), 1, f"messages: {done.stderr}")
    check(done.stderr.count("damaged.spsh: ") == 1, done.stderr)


def test_damaged_checkpoint(work):
    """The newest checkpoint is damaged: the previous one is used, and this is reported."""
    shutil.copytree(work / "run", work / "hurt", symlinks=True)
    newest = sorted((work / "hurt/checkpoints").glob("*-*.spsh"), key=lambda path: path.name.split("-")[1])[-1]
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    newest.write_bytes(content)
    for done in (run("eval", "hurt", "speech.spsh:test", cwd=work), run("transcribe", "hurt", "clips/1.wav", cwd=work)):
        equal(done.returncode, 0, done.stderr)
        check(newest.name in done.stderr, f"{newest.name} is not told: {done.stderr}")
    failed(run("transcribe", newest, "clips/1.wav", cwd=work), 1, newest.name)
    failed(run("transcribe", "speech.spsh", "clips/1.wav", cwd=work), 1, "a dataset, not a run")


# ---- report ----

def test_report(work):
    done = run("report", "run", "-o", "page.html", cwd=work)
    equal((done.returncode, done.stdout), (0, "page.html\n"), f"report: {done.stderr}")
    root = read_page(work / "page.html", ELEMENTS, "page")
    rows = {name: "".join(value.itertext()) for name, value in check_head(root, "page").items()}
    equal((rows["training data"], rows["command"]), ('["speech.spsh:train"]', "speechshard report run"), "head of the page")
    text = "".join(root.itertext())
    for word in ("Word error rate", "Character error rate", "Learning rate", "Gradients", "Throughput",
                 "Loss of each domain", "train.epochs", "Recognized text", "speech.spsh:test", "Dashed lines"):
        check(word in text, f"the page lacks '{word}'")
    read_page(work / "run/report.html", ELEMENTS, "the run's own page")
    summary = json.loads(run("report", "run", "--json", cwd=work).stdout)
    equal((summary["samples"], summary["starts"], summary["damaged_lines"]), (60, 3, 0), "summary")
    equal([one["set"] for one in summary["evaluations"]], ["speech.spsh:test", "speech.spsh:train"], "sets")
    failed(run("report", "no", cwd=work), 1, "no/metrics.jsonl")
    failed(run("report", "run", "-o", "no/page.html", cwd=work), 1, "no/page.html")
    failed(run("report", cwd=work), 2, "RUN")


def test_report_of_a_run_that_goes_on(work):
    (work / "torn").mkdir()
    text = (work / "run/metrics.jsonl").read_text(encoding="utf-8")
    (work / "torn/metrics.jsonl").write_text("no JSON\n" + text + '{"kind":"step","sam', encoding="utf-8")
    done = run("report", "torn", cwd=work)
    equal((done.returncode, done.stdout), (0, "torn/report.html\n"), f"report: {done.stderr}")
    page = "".join(read_page(work / "torn/report.html", ELEMENTS, "page").itertext())
    check("1 invalid lines in metrics.jsonl" in page and "line 1" in page, "the damaged line is reported")


def test_report_of_costs(work):
    """Four processes keep 1.5 hours and lose half an hour. Nothing runs for an hour. Two processes run one more hour."""
    lines = [
        {"kind": "start", "samples": 0, "step": 0, "time": 10000, "world_size": 4},
        {"kind": "step", "samples": 8, "step": 1, "time": 15400, "step_s": 4860, "save_s": 270},
        {"kind": "start", "samples": 8, "step": 1, "time": 20800, "world_size": 2, "before_time": 17200, "lost_samples": 3,
         "lost_starts": 0, "lost_s": 1800, "lost_process_s": 7200, "stopped_s": 0},
        {"kind": "step", "samples": 16, "step": 2, "time": 24400, "step_s": 3600, "save_s": 0},
    ]
    (work / "costs").mkdir()
    (work / "costs/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    rates = "--rate", "preemptible=2", "--rate", "on-demand=10.5"
    done = run("report", "costs", *rates, cwd=work)
    equal((done.returncode, done.stdout.splitlines()), (0, [
        "wall clock           4.00 h",
        "kept work            2.50 h, of processes 8.00 h",
        "parts of it          steps 94.00 %, evaluations 0.00 %, checkpoints 3.00 %, other 3.00 %",
        "restarts             1",
        "lost work            0.50 h, of processes 2.00 h, 20.00 % of all; 3 utterances",
        "stopped              1.00 h, of processes 2.00 h",
        "price, preemptible   20.00 for the kept and the lost work",
        "at most              24.00 if you also paid for the machines while the run was stopped",
        "price, on demand     84.00 for the kept work only, as if nothing had stopped the run",
    ]), f"costs: {done.stderr}")
    page = "".join(read_page(work / "costs/report.html", ELEMENTS, "page").itertext())
    check("84.00 for the kept work" in page, "the page lacks the price")
    cost = json.loads(run("report", "costs", "--json", *rates, "--processes-per-node", 4, cwd=work).stdout)["cost"]
    equal([cost[key] for key in ("lost_s", "stopped_process_s", "price_preemptible", "price_preemptible_max",
                                 "price_on_demand")], [1800, 7200, 5, 6, 21], "costs of nodes of four")
    cost = json.loads(run("report", "run", "--json", cwd=work).stdout)["cost"]
    equal((cost["restarts"], cost["lost_samples"], "price_on_demand" in cost), (1, 0, False), "costs of a real run")
    check(0 < cost["kept_s"] < cost["wall_s"] < 3600, f"{cost}")
    check(run("report", "run", "--cost", cwd=work).stdout.startswith("wall clock "), "--cost")
    with open(work / "costs/metrics.jsonl", "a", encoding="utf-8") as file:
        file.write("not a line\n")
    check("line 5" in run("report", "costs", "--cost", cwd=work).stderr, "a damaged line is told")
    for wrong in ("preemptible", "spot=3", "on-demand=", "on-demand=-1", "on-demand=3x", "on-demand=inf"):
        failed(run("report", "costs", "--rate", wrong, cwd=work), 2, f"--rate {wrong}", "on-demand=PRICE")


# ---- env ----

def env_of(*options, **variables):
    return subprocess.run([COMMAND, "env", *options], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                          env={**environment, **variables}, check=False)


TORCHRUN = {"TORCHELASTIC_RUN_ID": "job", "RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2",
            "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "host", "MASTER_PORT": "29500"}


def test_env(_work):
    alone = env_of().stdout.splitlines()
    equal(alone[0], "no launcher found in the environment; one process", "alone")
    check(re.fullmatch("messages: self; built with (mpi, )?tcp", alone[1]), f"alone: {alone}")
    equal(alone[2], "part: no variables of a job array or of a launcher are set: give the part as I/N", "alone")
    array = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "16"}
    equal(env_of(**array).stdout.splitlines()[2], "part: 3/16 (Slurm array)", "an array")
    part = json.loads(env_of("--json", **array).stdout)
    equal((part["part"], part["part_count"], part["part_source"], part["part_error"]), (3, 16, "Slurm array", None), "an array")
    check("auto/N" in env_of(JOB_COMPLETION_INDEX="2").stdout, "an Indexed Job")
    part = json.loads(env_of("--json", **array, JOB_COMPLETION_INDEX="2").stdout)
    check("part" not in part and "JOB_COMPLETION_INDEX is 2" in part["part_error"], f"two arrays: {part}")
    world = json.loads(env_of("--json", **TORCHRUN).stdout)
    equal(world["comm"], "tcp", "messages of torchrun's processes")
    equal(json.loads(env_of("--json", OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2").stdout)["comm"], "mpi", "of mpirun's")
    equal(json.loads(env_of("--json", SPEECHSHARD_COMM="tcp", **TORCHRUN).stdout)["comm"], "tcp", "of those that say so")
    failed(env_of(SPEECHSHARD_COMM="udp", **TORCHRUN), 1, "SPEECHSHARD_COMM is 'udp', expected auto, mpi, or tcp")
    failed(env_of(SPEECHSHARD_COMM="gloo", **TORCHRUN), 1, "Gloo has been removed: set it to tcp, or unset it")
    equal((world["launcher"], world["rank"], world["world_size"], world["node_count"], world["master"], world["master_port"]),
          ("torchrun", 1, 4, 2, "host", 29500), "torchrun")
    world = json.loads(env_of("--json", SLURM_PROCID="3", SLURM_STEP_ID="0", SLURM_NTASKS="4", SLURM_LOCALID="1",
                              SLURM_NODEID="1", SLURM_NNODES="2", SLURM_TASKS_PER_NODE="2(x2)", SLURM_JOB_ID="77").stdout)
    equal((world["launcher"], world["rank"], world["local_size"], world["node"], world["run_id"]), ("srun", 3, 2, 1, "77"),
          "srun")
    check("rank 1 of 2" in env_of(OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2").stdout, "mpirun")
    failed(env_of(RANK="1"), 1, "RANK is set, but WORLD_SIZE is not")
    failed(env_of(RANK="1", WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2"), 1, "rank 0 of 2",
           "rank 1 of 2")
    failed(env_of("x"), 2, "'x'")


def test_rendezvous_is_refused(work):
    """An invalid address, and a folder that does not exist. tests/mpi uses valid ones."""
    for where, text in [("ftp://host", "file://FOLDER, or tcp://HOST:PORT"), ("tcp://host:0", "tcp://HOST:PORT"),
                        ("file://none/there", "none/there")]:
        done = subprocess.run([COMMAND, "train", "tiny.yaml", "-o", "torch", "--rendezvous", where, *TINY],
                              stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                              env={**environment, **TORCHRUN, "RANK": "0", "LOCAL_RANK": "0"}, cwd=work, check=False)
        failed(done, 1, text)
    failed_alike = set()
    for rank in ("1", "0"):  # rank 1 does not wait for rank 0
        done = subprocess.run([COMMAND, "train", "tiny.yaml", "-o", "torch", "--rendezvous", "file://none", *TINY],
                              stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                              env={**environment, **TORCHRUN, "RANK": rank, "LOCAL_RANK": rank}, cwd=work, check=False)
        failed(done, 1, "the rendezvous folder none: No such file or directory: name an existing folder")
        failed_alike.add(done.stderr)
    equal(len(failed_alike), 1, f"all ranks give the same reason: {failed_alike}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        make_corpus(work)
        run_tests([test_train, test_metrics_are_documented, test_refused, test_unknown_split,
                   test_no_run, test_strategy, test_resume, test_stopped, test_terminal,
                   test_event_files, test_eval, test_transcribe_dataset, test_transcribe_files, test_transcribe_long,
                   test_transcribe_damage, test_damaged_checkpoint, test_report, test_report_of_a_run_that_goes_on, test_report_of_costs, test_env,
                   test_rendezvous_is_refused], work)


if __name__ == "__main__":
    main()
