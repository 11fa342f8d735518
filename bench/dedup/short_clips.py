#!/usr/bin/env python3
"""Recall of copies by length of the clip and by codec.

    short_clips.py make OUT SEED PER_BIN FOLDER...     clips and their copies
    short_clips.py measure SPEECHSHARD SHOW_PAIRS OUT SEARCH...  > table.tsv

`make` draws PER_BIN recordings per bin of length from the folders with speech, in equal parts, cuts
a clip whose length is uniform in the bin (or takes a whole file that has such a length), and
encodes it: OUT/corpus/CODEC/ID.EXT. A clip is not a pause: half of it is active, and it has 0.3 s
(below 0.5 s: 0.15 s) of speech. Each source file is used once. AMR-NB is encoded by
libopencore-amrnb, which ffmpeg lacks, if that library is installed. G.722 and AMR-NB are stored as
decoded WAV files.

`measure` packs the corpus, runs `dedupe` with each SEARCH, and compares its plan with the judge's
opinion of every true pair: SHOW_PAIRS (bench/dedup/show_pairs.c) shows each to it. Columns: search,
bin, pair of codecs, true pairs, found (a class that may drop something), proven (by the judge),
found among proven, the 95 % Wilson interval of that share. False pairs go to stderr.
"""

import array
import collections
import concurrent.futures
import ctypes
import itertools
import os
import random
import resource
import subprocess
import sys
import time
import wave

from clips import active_blocks
from evaluate import pairs_of
from report import COPIES, wilson

BINS = ((0.3, 0.5), (0.5, 0.8), (0.8, 1.2), (1.2, 2.0), (2.0, 3.0), (3.0, 6.0))
AUDIO = (".wav", ".flac", ".ogg", ".mp3", ".opus", ".webm")
RATE = 16000
AMR_LIBRARY = "libopencore-amrnb.so.0"
AMR_12_2 = 7
# Name, extension, options of ffmpeg. The rate of a name with _8 is 8 kHz.
CODECS = (
    ("wav_16", "wav", ["-c:a", "pcm_s16le"]),
    ("wav_8", "wav", ["-ar", "8000", "-c:a", "pcm_s16le"]),
    ("gsm_8", "gsm", ["-ar", "8000", "-c:a", "libgsm"]),
    ("g722_16", "g722", ["-c:a", "g722", "-f", "g722"]),
    ("opus8_16", "ogg", ["-c:a", "libopus", "-b:a", "8k"]),
    ("opus16_16", "ogg", ["-c:a", "libopus", "-b:a", "16k"]),
    ("opus8_8", "ogg", ["-ar", "8000", "-c:a", "libopus", "-b:a", "8k"]),
    ("mp3_16", "mp3", ["-c:a", "libmp3lame", "-b:a", "32k"]),
    ("mp3_8", "mp3", ["-ar", "8000", "-c:a", "libmp3lame", "-b:a", "32k"]),
)


def ffmpeg(*arguments):
    command = ["ffmpeg", "-nostdin", "-v", "error", "-y", *arguments]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def decode(path):
    command = ["ffmpeg", "-nostdin", "-v", "error", "-i", path, "-ac", "1", "-ar", str(RATE), "-f", "s16le", "-"]
    raw = subprocess.run(command, capture_output=True, check=False).stdout
    return array.array("h", raw[: len(raw) // 2 * 2])


def bin_of(seconds):
    for number, (low, high) in enumerate(BINS):
        if low <= seconds < high:
            return number
    return None


def has_speech(samples, seconds):
    size, active = active_blocks(RATE, samples)
    spoken = sum(active) * size / RATE
    loud = max(samples, key=abs, default=0)
    return abs(loud) > 300 and spoken >= max(seconds / 2, 0.15 if seconds < 0.5 else 0.3)


def draw_clip(path, low, high, seed):
    """A clip of low to high seconds of a file, or None."""
    draw = random.Random(f"{seed} {path} {low}")
    samples = decode(path)
    seconds = len(samples) / RATE
    if low <= seconds < high:
        return samples if has_speech(samples, seconds) else None
    wanted = low + (high - low) * draw.random()
    count = int(wanted * RATE)
    for _ in range(8):
        if count >= len(samples):
            return None
        first = draw.randrange(len(samples) - count)
        clip = samples[first : first + count]
        if has_speech(clip, wanted):
            return clip
    return None


def write_wav(path, rate, samples):
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())


def encode_amr(wav_path, amr_path):
    library = ctypes.CDLL(AMR_LIBRARY)
    library.Encoder_Interface_init.restype = ctypes.c_void_p
    library.Encoder_Interface_Encode.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    library.Encoder_Interface_exit.argtypes = [ctypes.c_void_p]
    with wave.open(wav_path, "rb") as file:
        raw = file.readframes(file.getnframes())
    state = library.Encoder_Interface_init(0)
    packet = ctypes.create_string_buffer(64)
    with open(amr_path, "wb") as out:
        out.write(b"#!AMR\n")
        for at in range(0, len(raw), 320):
            frame = ctypes.create_string_buffer(raw[at : at + 320].ljust(320, b"\0"), 320)
            size = library.Encoder_Interface_Encode(state, AMR_12_2, frame, packet, 0)
            out.write(packet.raw[:size])
    library.Encoder_Interface_exit(state)


def has_amr():
    try:
        ctypes.CDLL(AMR_LIBRARY)
    except OSError:
        return False
    return True


def make_copies(out, name, clip):
    """All codecs of a clip. False if an encoder failed."""
    source = os.path.join(out, "raw", f"{name}.wav")
    write_wav(source, RATE, clip)

    def path(codec, extension):
        folder = os.path.join(out, "raw" if extension in ("g722", "amr") else os.path.join("corpus", codec))
        return os.path.join(folder, f"{name}.{extension}")

    arguments = ["-i", source]
    for codec, extension, options in CODECS:
        arguments += ["-map", "0:a", *options, path(codec, extension)]
    if not ffmpeg(*arguments):
        return False
    arguments = ["-f", "g722", "-i", path("", "g722")]
    outputs = ["-map", "0:a", path("g722_16", "wav")]
    if has_amr():
        encode_amr(path("wav_8", "wav"), path("", "amr"))
        arguments += ["-i", path("", "amr")]
        outputs += ["-map", "1:a", path("amr_8", "wav")]
    return ffmpeg(*arguments, *outputs)


def find_sources(folders, seed):
    """The audio files of each folder, in random order."""
    found = []
    for folder in folders:
        files = sorted(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names
                       if name.lower().endswith(AUDIO))
        random.Random(f"{seed} {folder}").shuffle(files)
        found.append(files)
    return found


def make(out, seed, per_bin, folders):
    for name in ["raw", *(os.path.join("corpus", codec[0]) for codec in CODECS), "corpus/amr_8"]:
        os.makedirs(os.path.join(out, name), exist_ok=True)
    sources = find_sources(folders, seed)

    def make_one(number, turn):
        """The clip of a bin from one of the folders, or from the next folder if 20 files are too short or silent."""
        low, high = BINS[number]
        for files in (sources[(turn + k) % len(sources)] for k in range(len(sources))):
            for _ in range(min(20, len(files))):
                path = files.pop(0)
                clip = draw_clip(path, low, high, seed)
                if clip is not None and make_copies(out, f"b{number}-{turn:04d}", clip):
                    return f"b{number}-{turn:04d}\t{path}\n"
                files.append(path)
        return ""

    with concurrent.futures.ThreadPoolExecutor(2) as pool, open(os.path.join(out, "list.tsv"), "w", encoding="utf-8") as listing:
        tasks = [pool.submit(make_one, number, turn) for turn in range(per_bin) for number in reversed(range(len(BINS)))]
        for task in tasks:
            listing.write(task.result())


def run_timed(command):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    result = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {result.returncode}")
    return time.monotonic() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def split_id(name):
    """(codec, name of the clip) of an utterance id."""
    codec, clip = name.split("/", 1)
    return codec, clip.split(".", 1)[0]


def pair_key(a, b):
    return tuple(sorted((a, b)))


def read_truth(dataset, show_pairs):
    """Each true pair -> its class according to the judge."""
    text = subprocess.run([show_pairs, dataset], capture_output=True, check=True, text=True).stdout
    rows = (line.split("\t") for line in text.splitlines())
    return {pair_key(a, b): kind for a, b, kind in rows}


def families(a, b):
    return "-".join(sorted(split_id(name)[0].split("_")[0].rstrip("0123456789") for name in (a, b)))


def print_cells(label, found, truth):
    cells = collections.defaultdict(lambda: [0, 0, 0, 0])
    for (a, b), kind in truth.items():
        number = int(split_id(a)[1][1])
        is_found, is_proven = pair_key(a, b) in found, kind in COPIES
        for codecs in (families(a, b), "all"):
            cell = cells[number, codecs]
            for at, value in enumerate((1, is_found, is_proven, is_found and is_proven)):
                cell[at] += value
    for (number, codecs), (count, seen, proven, both) in sorted(cells.items()):
        low, high = wilson(both, proven)
        print(f"{label}\t{BINS[number][0]}-{BINS[number][1]}\t{codecs}\t{count}\t{seen}\t{proven}\t{both}\t"
              f"{both / max(proven, 1):.4f}\t{low:.4f}\t{high:.4f}")


def measure(program, show_pairs, out, searches):
    dataset = os.path.join(out, "corpus.spsh")
    if not os.path.exists(os.path.join(dataset, "manifest.spsh")):
        run_timed([program, "pack", os.path.join(out, "corpus"), "-o", dataset, "--layout", "folder", "--dedupe", "none", "--quiet"])
    print(f"# fingerprint\t{run_timed([program, 'fingerprint', dataset, '--quiet'])[1]:.2f} s")
    truth = read_truth(dataset, show_pairs)
    print("search\tseconds\tcodecs\tpairs\tfound\tproven\tfound of proven\tshare\tlow\thigh")
    for search in searches:
        plan = os.path.join(out, f"plan-{search}.jsonl")
        wall, processor = run_timed([program, "dedupe", dataset, "-o", plan, "--search", search, "--quiet"])
        found, false = set(), 0
        for row in pairs_of(plan):
            a, b = row["a"]["id"], row["b"]["id"]
            if row["class"] not in COPIES:
                continue
            if split_id(a)[1] != split_id(b)[1]:
                false += 1
                best = row["segments"][0]
                print(f"{search}\tfalse\t{row['class']}\t{a}\t{b}\t{best.get('ncc')}\t{best.get('ncc_white')}", file=sys.stderr)
                continue
            found.add(pair_key(a, b))
        print_cells(search, found, truth)
        utterances = len(set(itertools.chain.from_iterable(truth)))
        others = utterances * (utterances - 1) // 2 - len(truth)
        print(f"# {search}\tfalse {false} of {others} other pairs\twall {wall:.2f} s\tprocessor {processor:.2f} s")


def main():
    if sys.argv[1:2] == ["make"]:
        out, seed, per_bin, *folders = sys.argv[2:]
        make(out, seed, int(per_bin), folders)
    elif sys.argv[1:2] == ["measure"]:
        program, show_pairs, out, *searches = sys.argv[2:]
        measure(program, show_pairs, out, searches)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
