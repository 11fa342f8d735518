"""pack_scale_test.py COMMAND [DIVISOR]: corpora of many archives and of one large manifest, packed
in bounded memory. pack_many_files_test.sh does the same with many files in a folder.
"""
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

RATE = 8000
ARCHIVES = 10000
MANIFEST_BYTES = 1 << 30
MANIFEST_CLIPS = 200
CLIP_SECONDS = 8
# The 256 MiB of --memory, the same again for everything else, and 64 bytes per row.
FIXED_BYTES = 512 << 20
ROW_BYTES = 64


def wav(seed, samples):
    """A distinct sawtooth."""
    step = 1 + seed % 251
    data = struct.pack(f"<{samples}h", *((i * step + seed) % 20000 - 10000 for i in range(samples)))
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, RATE,
                       2 * RATE, 2, 16, b"data", len(data))
    return head + data


def make_archives(root, count):
    for number in range(count):
        with tarfile.open(root / f"talks-{number:06}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for name, data in ((f"{number:06}.wav", wav(number, 200)),
                               (f"{number:06}.txt", f"number {number}".encode())):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return count


def make_manifest(root, size_bytes):
    for number in range(MANIFEST_CLIPS):
        (root / f"{number}.wav").write_bytes(wav(number, CLIP_SECONDS * RATE))
    rows = 0
    filler = "und so weiter " * 64
    with open(root / "train.jsonl", "w", encoding="utf-8") as manifest:
        while manifest.tell() < size_bytes:
            for _ in range(1000):
                clip, place = rows % MANIFEST_CLIPS, rows // MANIFEST_CLIPS
                line = {"audio_filepath": f"{clip}.wav", "offset": place / 1000, "duration": 0.05,
                        "text": f"{rows} {filler}"}
                manifest.write(json.dumps(line) + "\n")
                rows += 1
    assert rows // MANIFEST_CLIPS / 1000 + 0.05 < CLIP_SECONDS
    return rows


def peak_of(words):
    """Runs a command: its exit status and largest resident set."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024


def check(command, name, make, size):
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        root = work / "corpus"
        root.mkdir()
        rows = make(root, size)
        begin = time.monotonic()
        status, peak_bytes = peak_of([command, "pack", str(root), "-o", str(work / "out"), "--quiet"])
        seconds = time.monotonic() - begin
        limit_bytes = FIXED_BYTES + rows * ROW_BYTES
        print(f"{name}: {rows} rows, {seconds:.1f} s, peak memory {peak_bytes >> 20} MiB, "
              f"limit {limit_bytes >> 20} MiB")
        packed = subprocess.run([command, "info", "--json", str(work / "out")], capture_output=True,
                                check=False).stdout if status == 0 else b'{"utterances": null}'
        if status != 0 or json.loads(packed)["utterances"] != rows or peak_bytes > limit_bytes:
            print(f"FAILED: {name}: status {status}, {packed[:200]!r}")
            return False
    return True


def main():
    command = sys.argv[1]
    divisor = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    results = [check(command, "archives", make_archives, ARCHIVES // divisor),
               check(command, "manifest", make_manifest, MANIFEST_BYTES // divisor)]
    return 0 if all(results) else 1


sys.exit(main())
