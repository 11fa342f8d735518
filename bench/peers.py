#!/usr/bin/python3
"""The loader beside loose files read from Python: soundfile and a pool of threads.

    PYTHONPATH=BUILD/python bench/peers.py CORPUS KEEP.spsh PCM.spsh [ROUNDS [SECONDS]] > bench/results/peers.json

CORPUS is a folder of FLAC files, of which KEEP.spsh and PCM.spsh were packed with --codec keep and --codec pcm and --dedupe
none. All ways give ragged int16 batches of at most 600 seconds, in a shuffled order, page cache warm. The pool
has two batches in work ahead of the one that is taken; pools of 1, 2 and 4 threads are tried. First each way goes through
the corpus once, and the audio must be the same: counts and CRC-32 of all utterances. Then the ways take turns, ROUNDS (5)
times, SECONDS (4) each, from a batch on by which what was made ahead of the first one is gone. Figures are [median, least, most].
"""
import json
import os
import platform
import random
import resource
import sys
import time
import zlib
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait

import numpy
import soundfile

import speechshard

BATCH_SECONDS = 600
AHEAD = 2    # batches, of the pool
WARM_UP = 6  # batches; the loader has as many slots


class Loose:
    """Loose files: durations are known beforehand, as from a manifest."""

    def __init__(self, corpus, threads):
        self.name, self.threads = f"soundfile, {threads} threads", threads
        paths = [os.path.join(folder, f) for folder, _, files in os.walk(corpus)
                 for f in files if f.endswith(".flac")]
        self.files = [(p, soundfile.info(p).duration) for p in sorted(paths)]
        self.pool = ThreadPoolExecutor(threads)

    def plan(self):
        files = self.files[:]
        random.Random(1).shuffle(files)
        batch, seconds = [], 0
        for path, duration in files:
            if batch and seconds + duration > BATCH_SECONDS:
                yield batch
                batch, seconds = [], 0
            batch.append(path)
            seconds += duration
        yield batch

    @staticmethod
    def read(path):
        return soundfile.read(path, dtype="int16")[0]

    def epoch(self):
        """(samples of each utterance, one array of all)"""
        ahead = deque()
        try:
            for batch in self.plan():
                ahead.append([self.pool.submit(self.read, path) for path in batch])
                if len(ahead) > AHEAD:
                    yield self.take(ahead.popleft())
            while ahead:
                yield self.take(ahead.popleft())
        finally:  # nothing goes on working in the next one's time
            futures = [f for batch in ahead for f in batch]
            wait([f for f in futures if not f.cancel()])

    @staticmethod
    def take(futures):
        parts = [f.result() for f in futures]
        return [len(p) for p in parts], numpy.concatenate(parts)


    def batches(self):
        while True:
            yield from self.epoch()


class Packed:
    def __init__(self, name, path, threads):
        self.name, self.path, self.threads = name, path, threads

    def open(self):
        return speechshard.Loader(self.path, max_seconds=BATCH_SECONDS, threads=self.threads, cached=True)

    def epoch(self):
        with self.open() as loader:
            for batch in loader:
                yield batch.lengths.numpy(), batch.audio.numpy()

    def batches(self):
        with self.open() as loader:
            while True:
                for batch in loader:
                    yield batch.lengths.numpy(), batch.audio.numpy()


def content(way):
    """What must be the same for all: lengths and checksums, whatever the order."""
    found = []
    for lengths, audio in way.epoch():
        at = 0
        for length in lengths:
            found.append((int(length), zlib.crc32(audio[at:at + length].tobytes())))
            at += length
    return sorted(found)


def measure(way, seconds, rate_hz):
    """Audio seconds a second, and CPU seconds an hour of audio; all threads count."""
    batches = way.batches()
    for _ in range(WARM_UP):
        next(batches)
    begin, used, samples = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF), 0
    while time.monotonic() - begin < seconds:
        samples += int(sum(next(batches)[0]))
    wall, now = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_SELF)
    batches.close()
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    audio = samples / rate_hz
    return audio / wall, cpu / (audio / 3600)


def figures(values):
    values = sorted(values)
    middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    return [float(f"{v:.4g}") for v in (middle, values[0], values[-1])]


def main():
    corpus, keep, pcm = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 5
    seconds = float(sys.argv[5]) if len(sys.argv) > 5 else 4
    cores = len(os.sched_getaffinity(0))
    ways = [Loose(corpus, threads) for threads in (1, 2, 4)]
    ways += [Packed("speechshard, keep", keep, cores), Packed("speechshard, pcm", pcm, cores)]
    rate_hz = soundfile.info(ways[0].files[0][0]).samplerate
    reference = content(ways[0])
    for way in ways:
        if content(way) != reference:
            sys.exit(f"{way.name}: other audio than {ways[0].name}")
    results = {way.name: [] for way in ways}
    for number in range(rounds):
        for way in ways if number % 2 == 0 else ways[::-1]:
            results[way.name].append(measure(way, seconds, rate_hz))
    print(json.dumps({
        "machine": f"{platform.machine()}, {cores} cores, Linux {platform.release()}",
        "command": f"bench/peers.py CORPUS KEEP.spsh PCM.spsh {rounds} {seconds:g}",
        "versions": f"Python {platform.python_version()}, soundfile {soundfile.__version__}, "
                    f"libsndfile {soundfile.__libsndfile_version__}",
        "utterances": len(reference),
        "audio_seconds": sum(length for length, _ in reference) / rate_hz,
        "same_audio": True,
        "real_time_factor": {name: figures([r[0] for r in rs]) for name, rs in results.items()},
        "cpu_seconds_per_audio_hour": {name: figures([r[1] for r in rs]) for name, rs in results.items()},
    }, indent=2))


if __name__ == "__main__":
    main()
