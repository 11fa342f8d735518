"""Decoded batches of speech: speechshard's loader compared with Python's libraries, on the same
FLAC files.

    python_peers.py prepare CORPUS WORK                copies of the corpus in the peers' containers
    python_peers.py settings WORK                      the runs that can be made here, one per line
    python_peers.py run WORK NAME WORKERS [--check]    one run: a line of JSON

Every run serves all utterances of CORPUS, in batches of at most 600 seconds of int16 (Lhotse:
float32, its only type), and reports audio seconds, wall seconds, CPU seconds of the process and its
children, and the time to the first batch; imports are not counted. With --check it hashes the PCM
of each utterance instead; all must give the same multiset, or no number counts.

All containers hold the FLAC files' own bytes, except `speechshard pcm`. The peers decode with
libsndfile through python-soundfile. They return a list of arrays, which costs them less than one
ragged array.
"""

import hashlib
import io
import json
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
BATCH_SECONDS = 600
RATE_HZ = 16000  # rate of all utterances
SHARDS = 4


def batches(utterances):
    """(PCM, samples) in lists of at most BATCH_SECONDS."""
    batch, samples = [], 0
    for pcm in utterances:
        if samples + len(pcm) > BATCH_SECONDS * RATE_HZ and batch:
            yield batch
            batch, samples = [], 0
        batch.append(pcm)
        samples += len(pcm)
    if batch:
        yield batch


def flac_files(work):
    return [Path(line) for line in (work / "files.txt").read_text().splitlines()]


# ---- peers: generators of batches ----


def decode(source):
    import soundfile

    return soundfile.read(source, dtype="int16")[0]


def pooled(sources, workers):
    """As map(), with at most two batches' worth of files in flight."""
    if workers == 0:
        yield from map(decode, sources)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting, sources = [], iter(sources)
        for source in sources:
            waiting.append(pool.submit(decode, source))
            if len(waiting) > 64:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


def run_files(work, workers):
    files = flac_files(work)
    return lambda: batches(pooled((str(file) for file in files), workers))


def run_memory(work, workers):
    contents = [file.read_bytes() for file in flac_files(work)]
    return lambda: batches(pooled((io.BytesIO(data) for data in contents), workers))


def decode_sample(sample):
    return decode(io.BytesIO(sample["flac"]))


def run_webdataset(work, workers):
    import webdataset

    shards = sorted(str(shard) for shard in (work / "webdataset").glob("*.tar"))

    def serve():
        source = webdataset.WebDataset(shards, shardshuffle=False).map(decode_sample)
        if workers:
            source = webdataset.WebLoader(source, batch_size=None, num_workers=workers)
        return batches(numpy_of(item) for item in source)

    return serve


def numpy_of(item):
    return item if hasattr(item, "dtype") and not hasattr(item, "numpy") else item.numpy()


def run_lhotse(work, workers):
    from lhotse import CutSet
    import torch

    class Source(torch.utils.data.IterableDataset):
        def __iter__(self):
            cuts = CutSet.from_shar(in_dir=work / "shar", split_for_dataloading=workers > 0)
            for cut in cuts:
                yield cut.load_audio()[0]

    def serve():
        source = Source()
        if workers:
            source = torch.utils.data.DataLoader(source, batch_size=None, num_workers=workers)
        return batches(numpy_of(item) for item in source)

    return serve


def speechshard_of(work, name, threads):
    import speechshard

    opened = []  # as a trainer does: opened once (in the time to the first batch), then epoch after epoch

    def serve():
        if not opened:
            opened.append(
                speechshard.Loader(
                    work / f"{name}.spsh", max_seconds=BATCH_SECONDS, threads=threads, cached=True
                )
            )
        for batch in opened[0]:
            yield [batch.utterance(i) for i in range(len(batch))]

    return serve


RUNS = {
    "soundfile, loose files": (run_files, (0, 1, 2), "soundfile"),
    "soundfile, from memory": (run_memory, (0, 1, 2), "soundfile"),
    "webdataset": (run_webdataset, (0, 2), "webdataset"),
    "lhotse shar": (run_lhotse, (0, 2), "lhotse"),
    "speechshard keep": (lambda w, n: speechshard_of(w, "keep", n), (1, 2), "speechshard"),
    "speechshard pcm": (lambda w, n: speechshard_of(w, "pcm", n), (1, 2), "speechshard"),
}


# ---- making and measuring ----


def can_import(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return name != "lhotse" or can_import("torch")


def prepare(corpus, work):
    files = sorted(corpus.rglob("*.flac"))
    (work / "files.txt").write_text("".join(f"{file}\n" for file in files))
    if can_import("webdataset"):
        import webdataset

        (work / "webdataset").mkdir()
        for shard in range(SHARDS):
            with webdataset.TarWriter(str(work / "webdataset" / f"{shard}.tar")) as tar:
                for number in range(shard, len(files), SHARDS):
                    tar.write({"__key__": f"{number:06}", "flac": files[number].read_bytes()})
    if can_import("lhotse"):
        from lhotse import CutSet, Recording

        cuts = [Recording.from_file(file, recording_id=str(number)).to_cut()
                for number, file in enumerate(files)]
        (work / "shar").mkdir()
        size = (len(files) + SHARDS - 1) // SHARDS
        CutSet.from_cuts(cuts).to_shar(
            work / "shar", fields={"recording": "original"}, shard_size=size
        )


def versions():
    import numpy

    found = {"python": sys.version.split()[0], "numpy": numpy.__version__}
    for name in ("soundfile", "webdataset", "lhotse", "torch", "speechshard"):
        if can_import(name):
            found[name] = __import__(name).__version__
    if "soundfile" in found:
        found["libsndfile"] = __import__("soundfile").__libsndfile_version__
    return found


def hashes(serve):
    import numpy

    digests = []
    for batch in serve():
        for pcm in batch:
            pcm = numpy.asarray(pcm)
            if pcm.dtype != numpy.int16:
                pcm = numpy.round(pcm * 32768).astype(numpy.int16)
            digests.append(hashlib.sha256(pcm.tobytes()).hexdigest())
    return hashlib.sha256("".join(sorted(digests)).encode()).hexdigest(), len(digests)


def cpu_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(serve, seconds_min=0.8):
    """Serve whole epochs, for at least seconds_min."""
    samples, epochs, first = 0, 0, None
    cpu, start = cpu_seconds(), time.perf_counter()
    while epochs == 0 or time.perf_counter() - start < seconds_min:
        for batch in serve():
            if first is None:
                first = time.perf_counter() - start
            samples += sum(len(pcm) for pcm in batch)
        epochs += 1
    wall = time.perf_counter() - start
    return {
        "epochs": epochs, "audio_s": samples / RATE_HZ, "wall_s": wall,
        "cpu_s": cpu_seconds() - cpu, "first_batch_s": first,
    }  # fmt: skip


def run(work, name, workers, check):
    make, _, _ = RUNS[name]
    for module in ("soundfile", "numpy"):
        __import__(module)
    serve = make(work, workers)
    result = {"name": name, "workers": workers}
    if check:
        result["hash"], result["utterances"] = hashes(serve)
    else:
        result.update(measure(serve))
    print(json.dumps(result), flush=True)


def main():
    action, *rest = sys.argv[1:]
    if action == "prepare":
        prepare(Path(rest[0]).resolve(), Path(rest[1]))
    elif action == "settings":
        for name, (_, workers, module) in RUNS.items():
            if can_import(module):
                print(f"{name}\t{' '.join(map(str, workers))}")
    elif action == "versions":
        print(json.dumps(versions()))
    else:
        run(Path(rest[0]), rest[1], int(rest[2]), "--check" in rest)


if __name__ == "__main__":
    main()
