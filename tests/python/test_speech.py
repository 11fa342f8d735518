"""Real speech, packed by the command: the same order with any settings, each utterance once at any
world size, shares as requested, damage reported and isolated."""

import hashlib
import os
import shutil
import subprocess
import sys
import unittest
from collections import Counter
from pathlib import Path

import support  # first: it skips where the package is missing
import speechshard

SOURCE = Path(os.environ.get("SPEECHSHARD_SOURCE_DIR", "."))
DATA = Path(os.environ.get("SPEECHSHARD_TEST_DATA", SOURCE / "../shared/data"))
if not DATA.is_dir():
    print(f"{DATA}: no such directory", file=sys.stderr)
    sys.exit(1 if os.environ.get("SPEECHSHARD_REQUIRE_DATA") == "1" else 77)

# Resume from each world size to each other one. FEWER omits sizes that use the same code.
WORLDS = (1, 3, 8) if support.FEWER else (1, 2, 3, 4, 7, 8)


def packed(corpus, codec="keep"):
    path = support.work_dir() / f"{corpus}-{codec}.spsh"
    if not path.exists():
        pack = [support.COMMAND, "pack", DATA / corpus, "-o", path, "--codec", codec, "--quiet"]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    return str(path)


def damaged(corpus, name, places):
    """A copy whose shards have a flipped bit at each of places, parts of their length."""
    path = support.work_dir() / f"{corpus}-{name}.spsh"
    shutil.copytree(packed(corpus), path)
    for shard in (path / "shards").iterdir():
        data = bytearray(shard.read_bytes())
        for place in places:
            data[int(len(data) * place)] ^= 16
        shard.chmod(0o644)
        shard.write_bytes(data)
    return path


def drop_from_cache(dataset):
    for shard in (Path(dataset) / "shards").iterdir():
        file = os.open(shard, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def quiet(level, text):
    """Log of the loader, kept out of the test's output."""


def served(loader):
    """[(id, hash of its samples), ...] of each batch of the epoch."""
    return [
        [(name, hashlib.sha256(batch.utterance(n)).digest()) for n, name in enumerate(batch.ids)]
        for batch in loader
    ]


class Order(unittest.TestCase):
    def check(self, dataset, **options):
        options = {"seed": 5, "max_seconds": 60, **options}
        ways = (
            {"threads": 1, "slots": 2, "engine": "pread", "cached": True},
            {"threads": 2, "engine": "io_uring", "cached": False},
            {"threads": 2, "engine": "pread", "cached": False},
            {"threads": 8, "slots": 9, "engine": "io_uring", "cached": True},
        )
        found = []
        for way in ways:
            if way["cached"] is False:
                drop_from_cache(dataset)
            with speechshard.Loader(dataset, **options, **way) as loader:
                found.append([served(loader), served(loader)])
        for other in found[1:]:
            self.assertEqual(other, found[0])
        first, second = ([name for batch in epoch for name, _ in batch] for epoch in found[0])
        self.assertEqual(sorted(first), sorted(utterance.id for utterance in speechshard.Dataset(dataset)))
        self.assertEqual(sorted(first), sorted(second))
        self.assertNotEqual(first, second)

    def test_flac_as_it_is(self):
        self.check(packed("librispeech-351"))

    def test_pcm(self):
        self.check(packed("librispeech-351", "pcm"))

    def test_opus_and_flac_resampled(self):
        self.check(packed("kerstin-pairs"), sample_rate_hz=16000)

    def test_the_codec_does_not_show(self):
        ways = [
            served(speechshard.Loader(packed("librispeech-351", codec), seed=5, shuffle=False))
            for codec in ("keep", "pcm")
        ]
        samples = [{item for batch in way for item in batch} for way in ways]
        self.assertEqual(samples[0], samples[1])


class Worlds(unittest.TestCase):
    OPTIONS = {"seed": 7, "max_seconds": 20, "threads": 1, "slots": 2, "cached": True}

    def loaders(self, world):
        return [
            speechshard.Loader(packed("fsdd", "pcm"), rank=rank, world_size=world, **self.OPTIONS)
            for rank in range(world)
        ]

    def until(self, world, steps):
        """Ids that a world serves in a number of steps, and its state after them; -1: until the end
        of the epoch."""
        ids, states = [], []
        for loader in self.loaders(world):
            for number, batch in enumerate(loader, 1):
                ids += batch.ids
                if number == steps:
                    break
            states.append(loader.state_dict())
            loader.close()
        self.assertTrue(all(state == states[0] for state in states))
        return ids, states[0]

    def test_each_utterance_once(self):
        everything = sorted(u.id for u in speechshard.Dataset(packed("fsdd", "pcm")))
        self.assertEqual(len(everything), 3000)
        for world in WORLDS:
            steps = {len(loader) for loader in self.loaders(world)}
            self.assertEqual(len(steps), 1)
            last = steps.pop()
            for point in {1, last // 2, last - 1, last}:
                before, state = self.until(world, point)
                for other in WORLDS:
                    after = []
                    for loader in self.loaders(other):
                        loader.load_state_dict(state)
                        after += [name for batch in loader for name in batch.ids]
                        loader.close()
                    self.assertEqual(sorted(before + after), everything, (world, point, other))

    def test_after_the_end_comes_the_next_epoch(self):
        _, state = self.until(3, -1)
        self.assertEqual(state["epoch"], 1)
        for other in WORLDS:
            names = Counter()
            for loader in self.loaders(other):
                loader.load_state_dict(state)
                names.update(name for batch in loader for name in batch.ids)
                loader.close()
            self.assertEqual((len(names), set(names.values())), (3000, {1}))


class Shares(unittest.TestCase):
    def seconds(self, **options):
        datasets = [packed(corpus) for corpus in ("librispeech-351", "fsdd", "yesno")]
        with speechshard.Loader(datasets, seed=1, max_seconds=30, **options) as loader:
            names = Counter(name for batch in loader for name in batch.ids)
            return names, [domain["units"] / 1e6 for domain in loader.stats["domains"]]

    def test_proportional_is_each_once(self):
        names, seconds = self.seconds(alpha=1)
        self.assertEqual((len(names), set(names.values())), (351 + 3000 + 60, {1}))
        for corpus, found in zip(("librispeech-351", "fsdd", "yesno"), seconds):
            want = speechshard.Dataset(packed(corpus)).info["seconds"]
            self.assertAlmostEqual(found, want, delta=0.01)

    def test_equal_within_an_utterance(self):
        names, seconds = self.seconds(alpha=0)
        longest = max(u.duration for u in speechshard.Dataset(packed("librispeech-351")))
        self.assertEqual(sum(names.values()), 351 + 3000 + 60)
        for found in seconds:
            self.assertLessEqual(abs(found - sum(seconds) / 3), longest)


class Damage(unittest.TestCase):
    OPTIONS = {"seed": 3, "max_seconds": 60, "log": quiet}

    def setUp(self):
        self.good = served(speechshard.Loader(packed("librispeech-351"), **self.OPTIONS))
        path = support.work_dir() / "librispeech-351-bits.spsh"
        self.bad = path if path.exists() else damaged("librispeech-351", "bits", (0.2, 0.5, 0.8))

    def test_named(self):
        names = [name for batch in self.good for name, _ in batch]
        with self.assertRaises(speechshard.CorruptError) as caught:
            served(speechshard.Loader(self.bad, **self.OPTIONS))
        self.assertIn("shards/", str(caught.exception))
        self.assertTrue(any(f'"{name}"' in str(caught.exception) for name in names))

    def test_skipped(self):
        loader = speechshard.Loader(self.bad, on_error="skip", **self.OPTIONS)
        found = served(loader)
        dataset = speechshard.Dataset(self.bad)
        lost = {dataset[record["position"]].id for record in loader.bad_records}
        self.assertEqual(len(lost), 3)
        want = [[item for item in batch if item[0] not in lost] for batch in self.good]
        self.assertEqual(found, want)

    def test_substituted(self):
        found = served(speechshard.Loader(self.bad, on_error="substitute", **self.OPTIONS))
        self.assertEqual([len(batch) for batch in found], [len(batch) for batch in self.good])
        pairs = [pair for one, other in zip(found, self.good) for pair in zip(one, other)]
        self.assertEqual(sum(one != other for one, other in pairs), 3)

    def test_too_many(self):
        with self.assertRaises(speechshard.Error):
            served(speechshard.Loader(self.bad, on_error="skip", quarantine_max=2, **self.OPTIONS))

    def test_a_shard_that_is_gone(self):
        gone = damaged("librispeech-351", "gone", ())
        said = []
        for shard in (gone / "shards").iterdir():
            shard.unlink()
        options = {**self.OPTIONS, "log": lambda level, text: said.append(text)}
        with self.assertRaises(speechshard.NotFoundError) as caught:
            served(speechshard.Loader(gone, **options))
        self.assertIn(".spsh", str(caught.exception))
        self.assertEqual(len([text for text in said if "cannot open" in text]), 1, said)


if __name__ == "__main__":
    support.main()
