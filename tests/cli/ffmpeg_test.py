"""ffmpeg_test.py COMMAND PLUGIN: pack --decoder ffmpeg, with a file of each kind that the ffmpeg
command makes.

Skipped without the plug-in or without the ffmpeg command.
"""
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from cli_kit import COMMAND, check, environment, equal, run_tests

RATE = 44100
SAMPLES = 61703  # not a multiple of any codec's frame size
LOSSLESS = {  # name -> (options of ffmpeg, codec under keep, bits)
    "alac.m4a": (["-c:a", "alac"], "flac", 16),
    "alac24.m4a": (["-c:a", "alac", "-sample_fmt", "s32p"], "flac", 24),
    "pcm.aiff": ([], "flac", 16),
    "pcm24.aiff": (["-c:a", "pcm_s24be"], "flac", 24),
    "float.aiff": (["-c:a", "pcm_f32be"], "wav", 32),
    "pcm.caf": (["-c:a", "pcm_s16le"], "flac", 16),
    "alac.caf": (["-c:a", "alac"], "flac", 16),
    "flac.mka": (["-c:a", "flac"], "flac", 16),
    "shorten.sph": (None, "flac", 16),
}
# name -> (options, rate, samples; None: as the encoder likes)
LOSSY = {
    "aac.m4a": (["-c:a", "aac"], RATE, SAMPLES),
    "aac.aac": (["-c:a", "aac"], RATE, None),
    "opus.webm": (["-c:a", "libopus", "-ar", "48000"], 48000, -(-SAMPLES * 48000 // RATE)),
    "opus.mka": (["-c:a", "libopus", "-ar", "48000"], 48000, -(-SAMPLES * 48000 // RATE)),
    "vorbis.webm": (["-c:a", "libvorbis"], RATE, None),
    "wma2.wma": (["-c:a", "wmav2"], RATE, None),
    "wma1.wma": (["-c:a", "wmav1"], RATE, None),
    "g722.g722": (["-c:a", "g722", "-ar", "16000", "-ac", "1"], 16000, None),
}


def run(*words, plugin=None):
    more = {} if plugin is None else {"SPEECHSHARD_FFMPEG_PLUGIN": str(plugin)}
    return subprocess.run([COMMAND, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                          env=environment | more)


def ffmpeg(*words):
    subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", *map(str, words)], check=True)


class Bits:
    """Rice codes as shorten writes them."""
    def __init__(self):
        self.bits = []

    def rice(self, value, low):
        self.bits += [0] * (value >> low) + [1] + [value >> n & 1 for n in reversed(range(low))]

    def number(self, value):
        self.rice(value.bit_length(), 2)
        self.rice(value, value.bit_length())

    def signed(self, value, low):
        self.rice(value << 1 if value >= 0 else ~value << 1 | 1, low + 1)

    def content(self):
        bits = self.bits + [0] * (-len(self.bits) % 32)
        return bytes(int("".join(map(str, bits[i:i + 8])), 2) for i in range(0, len(bits), 8))


def shorten(values, channels):
    """Shorten 2 with blocks of first differences: its functions 1 (difference), 5 (size of a
    block), and 4 (end)."""
    out, size = Bits(), 256
    for number in (5, channels, size, 0, 0, 0):  # 16 bits, little-endian; nothing predicted, averaged, or skipped
        out.number(number)
    last = [0] * channels
    for begin in range(0, len(values), 256 * channels):
        block = values[begin:begin + 256 * channels]
        if len(block) // channels != size:
            size = len(block) // channels
            out.rice(5, 2)
            out.number(size)
        for channel in range(channels):
            samples = [last[channel], *block[channel::channels]]
            last[channel] = samples[-1]
            steps = [b - a for a, b in zip(samples, samples[1:])]
            low = max(1, max(map(abs, steps)).bit_length() - 1)
            out.rice(1, 2)
            out.rice(low, 3)
            for step in steps:
                out.signed(step, low)
    out.rice(4, 2)
    return b"ajkg\2" + out.content()


def sphere(content, samples, coding):
    lines = ["NIST_1A", "   1024", "channel_count -i 2", f"sample_count -i {samples}", f"sample_rate -i {RATE}",
             "sample_n_bytes -i 2", "sample_byte_format -s2 01", f"sample_coding -s{len(coding)} {coding}", "end_head"]
    head = "\n".join(lines).encode() + b"\n"
    return head + b" " * (1024 - len(head)) + content


def make(work):
    """A chirp with noise in two channels, as WAV and as each kind."""
    (work / "made").mkdir()
    chance = random.Random(11)
    phase = 0.0
    values = []
    for n in range(SAMPLES):
        phase += 2 * 3.14159265 * (200 + n / 40) / RATE
        values += [int(9000 * ((phase % 6.283) / 3.1416 - 1)) + chance.randrange(-500, 500), chance.randrange(-3000, 3000)]
    samples = struct.pack(f"<{len(values)}h", *values)
    head = b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " + struct.pack(
        "<IHHIIHH", 16, 1, 2, RATE, 4 * RATE, 4, 16) + b"data" + struct.pack("<I", len(samples))
    (work / "source.wav").write_bytes(head + samples)
    (work / "made/shorten.sph").write_bytes(sphere(shorten(values, 2), SAMPLES, "pcm,embedded-shorten-v2.00"))
    for name, (options, *_) in (LOSSLESS | LOSSY).items():
        if options is None:
            continue
        ffmpeg("-i", work / "source.wav", "-map_metadata", "-1", "-fflags", "+bitexact", "-flags:a", "+bitexact", *options,
               work / "made" / name)
    frame = bytes([7 << 3 | 4])
    (work / "made/nb.amr").write_bytes(b"#!AMR\n" + b"".join(frame + chance.randbytes(31) for _ in range(50)))
    frame = bytes([2 << 3 | 4])
    (work / "made/wb.amr").write_bytes(b"#!AMR-WB\n" + b"".join(frame + chance.randbytes(32) for _ in range(50)))


def pack(work, name, folder, *options, plugin=None):
    done = run("pack", folder, "-o", work / name, "--max-rejects", "100%", "--dedupe", "none", *options, plugin=plugin)
    rows = [json.loads(line) for line in run("ls", "--json", work / name).stdout.splitlines()]
    rejects = work / name / "reports/rejects.jsonl"
    lines = rejects.read_text(encoding="utf-8").splitlines() if rejects.exists() else []
    return done, {row["source"]: row for row in rows}, {line["source"]: line for line in map(json.loads, lines)}


def source_row(work):
    (work / "wav").mkdir()
    shutil.copy(work / "source.wav", work / "wav/source.wav")
    return pack(work, "wav.spsh", work / "wav")[1]["source.wav"]


def test_each_kind(work, plugin):
    want = source_row(work)
    for codec in ("keep", "flac", "pcm"):
        done, rows, rejects = pack(work, f"{codec}.spsh", work / "made", "--decoder", "ffmpeg", "--codec", codec, plugin=plugin)
        equal((done.returncode, rejects), (0, {}), f"{codec}: {done.stderr}")
        equal(set(rows), {path.name for path in (work / "made").iterdir()}, f"{codec}: packed")
        for name, (_, stored, bits) in LOSSLESS.items():
            row = rows[name]
            equal((row["samples"], row["channels"], row["sample_rate_hz"], row["bits_per_sample"]), (SAMPLES, 2, RATE, bits),
                  f"{codec}: {name}")
            if codec == "keep":
                equal(row["codec"], stored, f"{name}: stored as")
            if bits == 16:
                equal(row["pcm_hash"], want["pcm_hash"], f"{codec}: samples of {name}")
        for name, (_, rate, samples) in LOSSY.items():
            row = rows[name]
            equal((row["sample_rate_hz"], row["bits_per_sample"], row["codec"]), (rate, 0, "pcm" if codec == "pcm" else "flac"),
                  f"{codec}: {name}")
            seconds = SAMPLES / RATE
            # MP4's edit list has a unit of a millisecond.
            exact = RATE // 1000 if name == "aac.m4a" else 0
            check(abs(row["samples"] - samples) <= exact if samples else abs(row["samples"] / rate - seconds) < 0.1,
                  f"{codec}: {name} has {row['samples']} samples, want {samples}")
        equal((rows["nb.amr"]["samples"], rows["nb.amr"]["sample_rate_hz"]), (8000, 8000), "AMR")
        equal((rows["wb.amr"]["samples"], rows["wb.amr"]["sample_rate_hz"]), (16000, 16000), "AMR-WB")
        equal({len(row["extras"]["source_xxh3_128"]) for row in rows.values()}, {32}, "hashes of the sources")
        equal(run("verify", "--decode", work / f"{codec}.spsh").returncode, 0, f"{codec}: verify")
    options = json.loads(run("info", "--json", work / "keep.spsh").stdout)["options"]
    check(options["ffmpeg"].startswith("libavformat-") and "libavcodec-" in options["ffmpeg"], f"options: {options}")


def test_readers_need_no_plugin(work, plugin):
    """Another process, without the plug-in, reads the dataset; pack again does nothing, and without
    it is another dataset."""
    for name in ("aac.m4a", "float.aiff"):
        row = name.rpartition(".")[0]
        ids = [json.loads(line)["id"] for line in run("ls", "--json", work / "keep.spsh").stdout.splitlines()]
        one = next(i for i in ids if i.startswith(row))
        done = run("cat", work / "keep.spsh", one, "-o", work / "one.wav")
        equal(done.returncode, 0, done.stderr)
    words = ("pack", work / "made", "-o", work / "keep.spsh", "--dedupe", "none", "--max-rejects", "100%", "--codec", "keep")
    done = run(*words, "--decoder", "ffmpeg", plugin=plugin)
    check(done.returncode == 0 and "packed already" in done.stderr, done.stderr)
    done = run(*words)
    equal(done.returncode, 1, f"without the plug-in: {done.stderr}")


def test_without(work, plugin):
    done, rows, rejects = pack(work, "without.spsh", work / "made")
    equal(rows, {}, "packed without --decoder")
    equal({line["reason"] for line in rejects.values()} - {"unsupported_codec", "not_audio"}, set(), "reasons")
    for name in ("aac.m4a", "shorten.sph"):
        check("pack --decoder ffmpeg" in rejects[name]["detail"], f"the hint: {rejects[name]}")
    check("sph2pipe" in rejects["shorten.sph"]["detail"], f"{rejects['shorten.sph']}")
    done = run("pack", work / "made", "-o", work / "no.spsh", "--decoder", "ffmpeg", plugin=work / "nothing.so")
    equal((done.returncode, done.stdout), (1, ""), "no plug-in")
    check("nothing.so: the FFmpeg plug-in was not found" in done.stderr, done.stderr)
    check(not (work / "no.spsh").exists(), "nothing was begun")
    done = run("pack", work / "made", "-o", work / "no.spsh", "--decoder", "ffmpge")
    check(done.returncode == 2 and "did you mean 'ffmpeg'?" in done.stderr, done.stderr)


def test_cuts(work, plugin):
    """A file that is cut anywhere is rejected: no recording is silently truncated."""
    (work / "cut").mkdir()
    whole = {path.name: path.read_bytes() for path in (work / "made").iterdir()}
    for name, content in whole.items():
        size = len(content)
        for number, cut in enumerate((20, 100, size // 3, size // 2, size * 9 // 10, size - 700, size - 1)):
            if name == "shorten.sph" and cut == size - 1:
                continue  # filler up to a whole word
            if 0 < cut < size and not name.endswith(".g722"):  # any bytes are G.722
                (work / "cut" / f"{number}-{name}").write_bytes(content[:cut])
    done, rows, rejects = pack(work, "cut.spsh", work / "cut", "--decoder", "ffmpeg", plugin=plugin)
    equal(sorted(rows), [], "cut files that were packed")
    reasons = {line["reason"] for line in rejects.values()}
    equal(reasons - {"truncated", "bad_container", "tiny_file", "not_audio", "unsupported_codec"}, set(), "reasons")
    check(sum(line["reason"] == "truncated" for line in rejects.values()) > len(rejects) // 2, "most are named truncated")


def test_flips(work, plugin):
    """Flipped bits never crash the packer, and never yield a longer or shorter recording than the
    headers state."""
    (work / "flip").mkdir()
    chance = random.Random(12)
    whole = {path.name: path.read_bytes() for path in (work / "made").iterdir()}
    for name, content in whole.items():
        for number in range(8):
            damaged = bytearray(content)
            reach = len(damaged) if number % 2 else min(len(damaged), 2000)
            for _ in range(1 + number % 3):
                damaged[chance.randrange(reach)] ^= 1 << chance.randrange(8)
            (work / "flip" / f"{number}-{name}").write_bytes(damaged)
    done, rows, rejects = pack(work, "flip.spsh", work / "flip", "--decoder", "ffmpeg", plugin=plugin)
    check(done.returncode in (0, 1), f"the pack: {done.returncode}: {done.stderr}")
    equal(len(rows) + len(rejects), 8 * len(whole), "each is packed or rejected")
    good = {row["source"]: row for row in map(json.loads, run("ls", "--json", work / "keep.spsh").stdout.splitlines())}
    for name, row in rows.items():
        if name[2:] in LOSSLESS and name[2:] != "alac.caf":
            check(row["samples"] == good[name[2:]]["samples"] or row["pcm_hash"] != good[name[2:]]["pcm_hash"], f"{name}: {row}")


def test_wrong_names(work, plugin):
    """The bytes decide, not the name; two audio streams are a question that pack does not
    answer."""
    (work / "names").mkdir()
    shutil.copy(work / "made/aac.m4a", work / "names/a.wav")
    shutil.copy(work / "source.wav", work / "names/b.m4a")
    shutil.copy(work / "made/opus.webm", work / "names/c.mp3")
    (work / "names/d.m4a").write_bytes(b"no audio at all, but text that is long enough to be one\n" * 20)
    ffmpeg("-i", work / "source.wav", "-i", work / "source.wav", "-map", "0:a", "-map", "1:a", "-c:a", "aac",
           work / "names/e.m4a")
    ffmpeg("-f", "lavfi", "-i", "testsrc=duration=1:size=64x64:rate=5", "-c:v", "mpeg4", work / "video.mp4")
    shutil.copy(work / "video.mp4", work / "names/f.m4a")
    done, rows, rejects = pack(work, "names.spsh", work / "names", "--decoder", "ffmpeg", plugin=plugin)
    equal(sorted(rows), ["a.wav", "b.m4a", "c.mp3"], f"packed: {rejects}")
    equal(rows["b.m4a"]["codec"], "wav", "a WAV file is kept, whatever its name")
    equal({name: line["reason"] for name, line in rejects.items()},
          {"d.m4a": "not_audio", "e.m4a": "unsupported_codec", "f.m4a": "bad_container"}, "rejected")
    check("2 audio streams" in rejects["e.m4a"]["detail"], f"{rejects['e.m4a']}")


def main():
    plugin = pathlib.Path(sys.argv[2])
    if not plugin.exists() or shutil.which("ffmpeg") is None:
        print("skipped: no FFmpeg plug-in, or no ffmpeg command")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        make(work)
        run_tests([test_each_kind, test_readers_need_no_plugin, test_without, test_cuts, test_flips, test_wrong_names],
                  work, plugin)


os.environ.pop("SPEECHSHARD_FFMPEG_PLUGIN", None)
main()
