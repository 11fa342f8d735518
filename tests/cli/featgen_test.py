"""featgen_test.py COMMAND: datasets of features and statistics, made in several ways.

Threads, parts in any order, and killed runs must produce the files of one plain run. The test reads
payloads and statistics by the documents only, and computes the sums again in Python.
"""
import hashlib
import json
import math
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from cli_kit import COMMAND, check, equal, finish, run


def good(*words, **variables):
    result = run(*words, **variables)
    equal(result.returncode, 0, f"{words}: {result.stderr}")
    return result


def refused(status, words, *texts):
    """The command must exit with that status and a reason, and must not crash."""
    result = run(*words)
    equal(result.returncode, status, f"{words}: {result.stderr}")
    for part in texts:
        check(part in result.stderr, f"{words}: no {part!r} in {result.stderr!r}")


def featgen(*words, **variables):
    return json.loads(good("featgen", *words, "--json", "--quiet", **variables).stdout)


# ---- a corpus ----

def write_wav(path, rate, channels, samples, seed):
    noise = random.Random(seed)
    data = bytearray()
    for i in range(samples):
        for c in range(channels):
            value = 6000 * math.sin(i * (0.02 + 0.003 * (seed % 17)) * (c + 1)) + noise.randrange(-300, 300)
            data += struct.pack("<h", int(value))
    width = 2 * channels
    path.write_bytes(struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVEfmt ", 16, 1, channels, rate, rate * width, width, 16,
                                 b"data", len(data)) + data)


def make_corpus(folder):
    folder.mkdir()
    rows = []
    for n in range(40):
        rate, channels = (8000, 1) if n % 5 == 1 else (16000, 2 if n % 5 == 2 else 1)
        samples = [1, 399, 400, 401, 560, 6000][n % 6] + 700 * n * (n % 6 == 5)
        seed = 3 if n in (21, 33) else n  # copies of one another
        if seed == 3:
            rate, channels, samples = 16000, 1, 5000
        write_wav(folder / f"clip-{n:02}.wav", rate, channels, samples, seed)
        row = {"audio_filepath": f"clip-{n:02}.wav", "duration": samples / rate, "text": f"text {n}"}
        if n % 7 != 0:
            row["speaker"] = f"speaker-{n % 4}"
        rows.append(row)
    (folder / "train_manifest.json").write_text("".join(json.dumps(r) + "\n" for r in rows))


def files(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def listed(dataset):
    return [json.loads(line) for line in good("ls", dataset, "--json").stdout.splitlines()]


# ---- reading, from docs/reference/format-features.md and FORMAT.md ----

def lz4_block(data):
    out = bytearray()
    at = 0

    def length(at, value):
        while value >= 15:
            value += data[at]
            at += 1
            if data[at - 1] != 255:
                break
        return at, value
    while True:
        token = data[at]
        at, count = length(at + 1, token >> 4)
        out += data[at:at + count]
        at += count
        if at == len(data):
            return bytes(out)
        back = struct.unpack_from("<H", data, at)[0]
        at, count = length(at + 2, token & 15)
        for _ in range(count + 4):
            out.append(out[-back])


def rows_of(payload):
    """(dim, rows as tuples)."""
    version, width, zero, dim, block, zero_too, frames = struct.unpack_from("<BBHIIIQ", payload)
    equal((version, zero, zero_too), (1, 0, 0), "head of a payload")
    blocks = -(-frames // block)
    stored = struct.unpack_from(f"<{blocks}I", payload, 40)
    at = 40 + 4 * blocks
    data = b""
    for n, size in enumerate(stored):
        whole = min(block, frames - n * block) * dim * width
        piece = payload[at:at + size]
        if size < whole:
            planes = lz4_block(piece)
            values = whole // width
            piece = bytes(planes[b * values + i] for i in range(values) for b in range(width))
        equal(len(piece), whole, "bytes of a block")
        data += piece
        at += size
    equal(at, len(payload), "end of a payload")
    values = struct.unpack(f"<{frames * dim}{'e' if width == 2 else 'f'}", data)
    return dim, [values[f * dim:(f + 1) * dim] for f in range(frames)]


def features(dataset):
    """id -> rows."""
    result = {}
    for u in listed(dataset):
        payload = subprocess.run([COMMAND, "cat", str(dataset), u["id"], "--payload"], capture_output=True, check=True).stdout
        result[u["id"]] = rows_of(payload)[1]
    return result


def statistics(path):
    """group -> (frames, sums, square sums)."""
    data = path.read_bytes()
    footer = len(data) - 4096
    equal(struct.unpack_from("<I", data, 32)[0], 6, "kind")
    sections, area = struct.unpack_from("<I", data, footer + 20)[0], struct.unpack_from("<Q", data, footer + 32)[0]
    column = {}
    for n in range(sections):
        ident, width, offset, count = struct.unpack_from("<IIQQ", data, area + 40 * n)
        column[ident] = data[offset:offset + width * count]
    version, dim = struct.unpack("<II", column[2])
    equal(version, 1, "version of statistics")
    groups = struct.unpack(f"<{len(column[32]) // 8}Q", column[32])
    frames = struct.unpack(f"<{len(groups)}Q", column[33])
    sums, squares = (struct.unpack(f"<{dim * len(groups)}d", column[c]) for c in (34, 35))
    return {g: (frames[n], sums[n * dim:(n + 1) * dim], squares[n * dim:(n + 1) * dim]) for n, g in enumerate(groups)}


# ---- the tests ----

def test_same_bytes(work, corpus):
    one = work / "one"
    facts = featgen(corpus, "-o", one, "--jobs", 1)
    shards = json.loads(good("info", corpus, "--json").stdout)["shards"]
    check(shards > 5, f"{shards} shards are too few for this test")
    equal((facts["shards"], facts["made"], facts["missing"], facts["published"]), (shards, shards, 0, True), "facts")
    want = files(one)
    featgen(corpus, "-o", work / "three", "--jobs", 3)
    equal(files(work / "three"), want, "three threads")
    for part in (2, 0, 1):
        facts = featgen(corpus, "-o", work / "parts", "--part", f"{part}/3")
        equal(facts["published"], part == 1, f"published by part {part}")
    equal(files(work / "parts"), want, "parts")
    for pod in (1, 2, 0):
        facts = featgen(corpus, "-o", work / "pods", "--part", "auto/3", JOB_COMPLETION_INDEX=str(pod))
        equal(facts["published"], pod == 0, f"published by pod {pod}")
    equal(files(work / "pods"), want, "pods")
    apart = [work / f"apart-{part}" for part in range(2)]
    for part, folder in enumerate(apart):
        featgen(corpus, "-o", folder, "--part", f"{part}/2")
    for p in (apart[1] / "shards").iterdir():
        shutil.copy(p, apart[0] / "shards")
    equal(featgen(corpus, "-o", apart[0])["made"], 0, "made when all parts are there")
    equal(files(apart[0]), want, "parts from two places")
    equal(featgen(corpus, "-o", one)["made"], 0, "made again")
    equal(files(one), want, "a second run")
    good("verify", one, "--decode")
    reader = pathlib.Path(__file__).parent.parent / "golden" / "spsh_reader.py"
    result = subprocess.run([sys.executable, str(reader), str(one)], capture_output=True, encoding="utf-8")
    check(result.returncode in (0, 77), f"the second reader: {result.stderr}")  # 77: it lacks a package
    check(result.returncode == 77 or len(result.stdout.splitlines()) == len(listed(one)), "what the second reader read")
    return one, want


def test_killed(work, corpus, want):
    rng = random.Random(5)
    took = time.monotonic()
    featgen(corpus, "-o", work / "timed", "--jobs", 1)
    took = time.monotonic() - took
    out = work / "killed"
    for n in range(12):
        process = subprocess.Popen([COMMAND, "featgen", str(corpus), "-o", str(out), "--jobs", "2", "--quiet"], stdout=subprocess.DEVNULL)
        time.sleep(rng.random() * took)
        process.send_signal(signal.SIGKILL if n % 3 else signal.SIGINT)
        process.wait()
    featgen(corpus, "-o", out)
    equal(files(out), want, "killed and gone on")


def test_same_dataset(corpus, one):
    keep = ("id", "text", "speaker", "split", "domain", "samples", "sample_rate_hz", "channels", "seconds", "source")
    source, made = listed(corpus), listed(one)
    equal([{k: u.get(k) for k in keep} for u in made], [{k: u.get(k) for k in keep} for u in source], "rows")
    equal({u["codec"] for u in made}, {"features"}, "codec")
    a, b = (json.loads(good("info", d, "--json").stdout) for d in (corpus, one))
    for k in ("utterances", "duplicates", "seconds", "samples", "speakers", "with_text", "splits", "domains", "sample_rates"):
        equal(b[k], a[k], k)
    equal(b["duplicates"], 2, "duplicates")
    check("features   float16, kind=mel,sample_rate_hz=16000" in good("info", one).stdout, "info says which features")


def test_copies_in_one_shard(work):
    good("pack", work / "files", "-o", work / "one-shard.spsh", "--quiet")
    featgen(work / "one-shard.spsh", "-o", work / "one-shard.features")
    info = json.loads(good("info", work / "one-shard.features", "--json").stdout)
    equal((info["shards"], info["duplicates"], info["payloads"]), (1, 2, 38), "shards, duplicates, payloads")


def test_values(work, corpus, one):
    wide = work / "wide"
    featgen(corpus, "-o", wide, "--dtype", "float32")
    halves, singles = features(one), features(wide)
    for u in listed(corpus):
        samples = -(-u["samples"] * 16000 // u["sample_rate_hz"])
        rows = singles[u["id"]]
        equal(len(rows), 0 if samples < 400 else 1 + (samples - 400) // 160, f"frames of {u['id']}")
        equal({len(r) for r in rows}, {80} if rows else set(), f"values of {u['id']}")
        equal([struct.pack("<80e", *r) for r in rows], [struct.pack("<80e", *r) for r in halves[u["id"]]], f"halves of {u['id']}")
    return singles


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-9)


def test_statistics(work, corpus, singles):
    featgen(corpus, "--stats", "--jobs", 1)
    folder = corpus / "statistics"
    want = files(folder)
    equal(len(want), 1, "files of statistics")
    for how in (["--jobs", 3], ["--part", "1/2"]):
        copy = work / ("stats" + how[0])
        shutil.copytree(corpus, copy)
        shutil.rmtree(copy / "statistics")
        facts = featgen(copy, "--stats", *how)
        if "--part" in how:
            equal(facts["published"], False, "half of the statistics")
            good("verify", copy)
            featgen(copy, "--stats", "--part", "0/2")
        equal(files(copy / "statistics"), want, f"statistics {how}")
    found = statistics(next(folder.iterdir()))
    names = list(dict.fromkeys(u["speaker"] for u in listed(corpus) if u["speaker"]))
    equal(sorted(found), list(range(len(names) + 2)), "groups")
    groups = {g: [] for g in found}
    for u in listed(corpus):
        groups[0] += singles[u["id"]]
        groups[names.index(u["speaker"]) + 2 if u["speaker"] else 1] += singles[u["id"]]
    for g, rows in groups.items():
        frames, sums, squares = found[g]
        equal(frames, len(rows), f"frames of group {g}")
        for d in range(80):
            check(close(sums[d], math.fsum(r[d] for r in rows)), f"sum {d} of group {g}")
            check(close(squares[d], math.fsum(r[d] * r[d] for r in rows)), f"sum of squares {d} of group {g}")
    return groups, names, want


def test_norm(work, corpus, groups, names, singles):
    out = work / "normed"
    refused(1, ["featgen", corpus, "-o", work / "other", "--features", "kaldi-mfcc,norm=dataset"], "featgen DATASET --stats")
    featgen(corpus, "-o", out, "--features", "kaldi-fbank,norm=speaker", "--dtype", "float32")
    normed = features(out)
    for u in listed(corpus):
        rows = groups[names.index(u["speaker"]) + 2 if u["speaker"] else 1]
        for d in (0, 40, 79):
            mean = math.fsum(r[d] for r in rows) / len(rows)
            deviation = math.sqrt(max(1e-10, math.fsum((r[d] - mean) ** 2 for r in rows) / len(rows)))
            for got, plain in zip(normed[u["id"]], singles[u["id"]]):
                check(abs(got[d] - (plain[d] - mean) / deviation) < 1e-4, f"norm of {u['id']}")


def test_statistics_kinds(work, corpus, want):
    copy = work / "kinds"
    shutil.copytree(corpus, copy)
    shutil.rmtree(copy / "statistics")
    featgen(copy, "--stats", "--by", "dataset")
    equal(sorted(statistics(next((copy / "statistics").iterdir()))), [0], "groups of the dataset alone")
    refused(1, ["featgen", copy, "-o", work / "nobody", "--features", "norm=speaker"], "--by speaker")
    featgen(copy, "--stats")
    equal(files(copy / "statistics"), want, "speakers added")
    path = next((copy / "statistics").iterdir())
    data = bytearray(path.read_bytes())
    for at in (20, 200, 4200, len(data) // 2, len(data) - 100):
        data[at] ^= 4
        path.write_bytes(data)
        result = run("verify", copy)
        check(result.returncode == 1 and "statistics/" in result.stdout + result.stderr, f"flipped byte {at} of statistics: {result}")
        data[at] ^= 4
    data[4200] ^= 4
    path.write_bytes(data)
    featgen(copy, "--stats")


def test_damage(work, corpus):
    copy = work / "damaged"
    shutil.copytree(corpus, copy)
    shard = sorted((copy / "shards").iterdir())[1]
    data = bytearray(shard.read_bytes())
    data[4096 + 64 + 700] ^= 1
    shard.write_bytes(data)
    named = [u["id"] for u in listed(copy)]
    result = run("featgen", copy, "-o", work / "from-damage")
    equal(result.returncode, 1, "damaged record")
    hit = [i for i in named if f'"{i}"' in result.stderr]
    equal(len(hit), 1, f"utterance named in {result.stderr!r}")
    check("--skip-damaged" in result.stderr, "what to do about it")
    facts = featgen(copy, "-o", work / "mended", "--skip-damaged")
    check(facts["left_out"] >= 1, "left out")
    left = [u["id"] for u in listed(work / "mended")]
    equal(left, [i for i in named if i in left], "order of what is left")
    check(hit[0] not in left and len(left) == len(named) - facts["left_out"], "what is left")
    equal(json.loads(good("info", work / "mended", "--json").stdout)["rejects"], facts["left_out"], "rejects")
    good("verify", work / "mended", "--decode")
    refused(1, ["featgen", copy, "-o", work / "mended"], "from other input or with other options")


def test_flipped_byte(work, one):
    copy = work / "flipped"
    shutil.copytree(one, copy)
    shard = sorted((copy / "shards").iterdir())[0]
    whole = shard.read_bytes()
    for at in (4096 + 300, 4096 + 64 + 192 + 5, len(whole) // 3):
        data = bytearray(whole)
        data[at] ^= 16
        shard.write_bytes(data)
        equal(run("verify", copy).returncode, 1, f"verify, byte {at} flipped")


def test_features_are_no_audio(work, one, corpus):
    first = listed(one)[0]["id"]
    refused(1, ["cat", one, first, "-o", work / "x.wav"], "features, not audio")
    check(not (work / "x.wav").exists(), "a WAV file of features")
    for form in ("wav", "files", "webdataset"):
        check(run("export", one, "-o", work / f"export-{form}", "--to", form).returncode in (0, 1), f"export to {form}")
    refused(1, ["fingerprint", one], "not audio")
    refused(1, ["featgen", one, "-o", work / "again"], "already holds features")
    refused(1, ["featgen", one, "--stats"], "already holds features")
    good("plan", one)
    refused(2, ["bench", one, "--seconds", "1"], "holds features")


def test_overlays(work, corpus):
    copy = work / "edited"
    shutil.copytree(corpus, copy)
    ids = [u["id"] for u in listed(copy)]
    (work / "skips").write_text(f"{ids[4]}\tnoise\n")
    (work / "texts").write_text(f"{ids[7]}\tcorrected\n")
    good("overlay", copy, "add", "skips", "--skip", work / "skips")
    good("overlay", copy, "add", "texts", "--transcript", work / "texts")
    featgen(copy, "-o", work / "of-edited")
    rows = listed(work / "of-edited")
    equal([u["id"] for u in rows], [i for i in ids if i != ids[4]], "ids without the skipped one")
    equal([u["text"] for u in rows if u["id"] == ids[7]], ["corrected"], "text as edited")
    equal(json.loads(good("info", work / "of-edited", "--json").stdout)["rejects"], 0, "rejects")


def test_arguments(work, corpus, one, want):
    refused(2, ["featgen", corpus], "-o FEATURES")
    refused(2, ["featgen", corpus, "-o", work / "x", "--features", "kaldi-fbenk"], "kaldi-fbank")
    refused(2, ["featgen", corpus, "-o", work / "x", "--part", "3/3"], "not a part")
    refused(2, ["featgen", corpus, "--stats", "-o", work / "x"], "--stats")
    refused(2, ["featgen", corpus, "-o", work / "x", "--by", "speaker"], "--stats")
    refused(2, ["featgen", corpus, "-o", work / "x", "--dtype", "int8"], "float16")
    check(not (work / "x").exists(), "a wrong argument made something")
    for words, name in (([], "float32"), (["--dtype", "float16"], "float16"), (["--dtype", "float32"], "float32")):
        result = good("featgen", corpus, "-o", work / ("power" + "".join(words)), "--features", "spectrogram", *words)
        check("were resampled to 16000 Hz, the first one from 8000 Hz; sample_rate_hz=8000" in result.stderr, "told of other rates")
        equal("cuts values" in result.stderr, words == ["--dtype", "float16"], f"told of halves of powers, {words}")
        check(f"features   {name}, " in good("info", work / ("power" + "".join(words))).stdout, f"{words} is {name}")
    refused(1, ["featgen", corpus, "-o", one, "--features", "kaldi-mfcc"], "from other input or with other options")
    refused(1, ["featgen", corpus, "-o", corpus], "from other input or with other options")
    equal(files(one), want, "after refusals")
    (work / "full").mkdir()
    (work / "full" / "letter.txt").write_text("dear")
    refused(1, ["featgen", corpus, "-o", work / "full"], "not empty")
    featgen(corpus, "-o", work / "begun", "--part", "0/2")
    refused(1, ["featgen", corpus, "-o", work / "begun", "--dtype", "float32"], "holds shards that were made from another dataset")
    facts = json.loads(good("featgen", corpus, "--estimate", "--json").stdout)
    seconds = sum(u["samples"] / u["sample_rate_hz"] for u in listed(corpus))
    check(close(facts["audio_hours"] * 3600, seconds) and facts["bytes"] > 0 and facts["core_hours"] > 0, f"estimate {facts}")


def main():
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        make_corpus(work / "files")
        corpus = work / "corpus.spsh"
        good("pack", work / "files", "-o", corpus, "--shard-size", "64K", "--quiet")
        one, want = test_same_bytes(work, corpus)
        test_killed(work, corpus, want)
        test_same_dataset(corpus, one)
        test_copies_in_one_shard(work)
        singles = test_values(work, corpus, one)
        groups, names, stats = test_statistics(work, corpus, singles)
        test_norm(work, corpus, groups, names, singles)
        test_statistics_kinds(work, corpus, stats)
        test_damage(work, corpus)
        test_flipped_byte(work, one)
        test_features_are_no_audio(work, one, corpus)
        test_overlays(work, corpus)
        test_arguments(work, corpus, one, want)
    finish()


main()
