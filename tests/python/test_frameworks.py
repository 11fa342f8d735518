"""speechshard.torch, speechshard.hf, and speechshard.lhotse with the real libraries."""

import itertools
import os
import pickle
import subprocess
import sys
import unittest
import warnings
from pathlib import Path

import support  # first: it skips if the package is missing
import speechshard

try:
    import datasets
    import lhotse
    import torch
    from torch.utils.data import DataLoader
    from torchdata.stateful_dataloader import StatefulDataLoader
except ImportError as error:
    print(f"skipped: {error}; tools/install-python.sh frameworks installs it", file=sys.stderr)
    sys.exit(77)

import speechshard.hf
import speechshard.lhotse
from speechshard.torch import IterableDataset, MapDataset

OPTIONS = {"seed": 3, "max_seconds": 0.6, "output": "float32"}


def ids(items):
    return [tuple(item["ids"]) for item in items]


class IterableTest(unittest.TestCase):
    def setUp(self):
        self.path = support.make_dataset("frameworks", 40)
        with speechshard.Loader(self.path, **OPTIONS) as loader:
            self.epochs = [[tuple(batch.ids) for batch in loader] for _ in range(2)]
        self.assertNotEqual(*self.epochs)

    def speech(self, **options):
        return IterableDataset(self.path, **{**OPTIONS, **options})

    def test_any_number_of_workers_gives_the_batches_of_a_loader(self):
        for workers, start in ((0, None), (1, "fork"), (2, "spawn"), (3, "fork")):
            with self.subTest(workers=workers):
                loader = DataLoader(
                    self.speech(), batch_size=None, num_workers=workers,
                    multiprocessing_context=start,
                )
                self.assertEqual(len(loader), len(self.epochs[0]))
                self.assertEqual([ids(loader), ids(loader)], self.epochs)
                loader.dataset.set_epoch(1)
                self.assertEqual(ids(loader), self.epochs[1])

    def test_an_epoch_ends_with_its_last_batch(self):
        for workers in (0, 2, 3):  # a Trainer does not ask for one more
            with self.subTest(workers=workers):
                loader = DataLoader(self.speech(), batch_size=None, num_workers=workers)
                count = len(loader)
                epochs = [ids(itertools.islice(loader, count)) for _ in range(2)]
                self.assertEqual(epochs, self.epochs)

    def test_items_are_tensors_of_the_batch(self):
        with speechshard.Loader(self.path, **OPTIONS) as loader:
            for batch, item in zip(loader, DataLoader(self.speech(), batch_size=None, num_workers=2)):
                self.assertTrue(torch.equal(item["audio"], torch.from_dlpack(batch.audio)))
                self.assertEqual(item["lengths"].tolist(), batch.lengths.tolist())
                self.assertEqual((item["texts"], item["speakers"]), (batch.texts, batch.speakers))
        item = next(iter(self.speech(output="int16")))
        self.assertEqual((item["audio"].dtype, item["audio"].dim()), (torch.int16, 1))
        self.assertEqual(item["offsets"].tolist()[0], 0)
        item = next(iter(self.speech(output=None, features="kaldi-fbank", sample_rate_hz=16000)))
        self.assertEqual(item["features"].shape[0], len(item["frames"]))
        lengths = self.speech(transform=lambda batch: batch.lengths.tolist())
        self.assertEqual(sum(map(len, lengths)), 40)

    def test_items_have_the_columns_of_the_batch(self):
        with speechshard.Loader(self.path, columns="source", **OPTIONS) as loader:
            want = [batch.columns for batch in loader]
        for workers, start in ((0, None), (2, "spawn")):
            speech = DataLoader(
                self.speech(columns="source"), batch_size=None, num_workers=workers,
                multiprocessing_context=start,
            )
            self.assertEqual([item["columns"] for item in speech], want)
        self.assertNotIn("columns", next(iter(self.speech())))

    def test_ranks_share_an_epoch(self):
        for world_size, workers in ((2, 0), (3, 0), (2, 2), (3, 2)):
            with self.subTest(world_size=world_size, workers=workers):
                parts = [
                    ids(DataLoader(self.speech(rank=rank, world_size=world_size), batch_size=None,
                                   num_workers=workers))
                    for rank in range(world_size)
                ]  # fmt: skip
                self.assertEqual(len(set(map(len, parts))), 1)
                self.assertEqual([b for step in zip(*parts) for b in step if b], self.epochs[0])

    def test_a_virtual_world_must_fit_the_workers(self):
        speech = self.speech(virtual_world_size=3)
        with self.assertRaisesRegex(ValueError, "virtual_world_size is 3"):
            list(DataLoader(speech, batch_size=None, num_workers=2))

    def test_a_stateful_loader_resumes(self):
        for workers in (0, 2, 3):
            for stop in (1, 2, 5):
                with self.subTest(workers=workers, stop=stop):
                    first = StatefulDataLoader(self.speech(), batch_size=None, num_workers=workers)
                    iterator = iter(first)
                    got = [tuple(next(iterator)["ids"]) for _ in range(stop)]
                    state = pickle.loads(pickle.dumps(first.state_dict()))
                    del iterator, first
                    again = StatefulDataLoader(self.speech(), batch_size=None, num_workers=workers)
                    again.load_state_dict(state)
                    self.assertEqual(got + ids(again), self.epochs[0])
                    self.assertEqual(ids(again), self.epochs[1])

    def test_a_dataset_can_be_pickled(self):
        speech = self.speech()
        next(iter(speech))
        again = pickle.loads(pickle.dumps(speech))
        again.load_state_dict(speech.state_dict())
        self.assertEqual(ids(again), self.epochs[0][1:])


class MapTest(unittest.TestCase):
    def test_utterances_by_position(self):
        path = support.make_dataset("frameworks", 40)
        dataset = speechshard.Dataset(path)
        speech = MapDataset(dataset)
        self.assertEqual(len(speech), 40)
        for item, utterance in zip(speech, dataset):
            self.assertEqual((item["id"], item["text"]), (utterance.id, utterance.text))
            want = torch.from_dlpack(utterance.audio("float32"))
            self.assertTrue(torch.equal(item["audio"], want))
        for workers in (0, 2):
            loader = DataLoader(speech, batch_size=4, num_workers=workers, collate_fn=list)
            self.assertEqual([i["id"] for b in loader for i in b], [u.id for u in dataset])

    def test_skipped_utterances_are_not_included(self):
        path = support.make_dataset("frameworks-skipped", 10)
        skipped = speechshard.Dataset(path)[3].id
        skips = Path(path).with_suffix(".txt")
        skips.write_text(skipped + "\n", encoding="utf-8")
        add = [support.COMMAND, "overlay", path, "add", "one", "--skip", skips, "--quiet"]
        subprocess.run(add, check=True)
        speech = MapDataset(path)
        self.assertEqual(len(speech), 9)
        self.assertNotIn(skipped, [item["id"] for item in speech])


class HuggingFaceTest(unittest.TestCase):
    def test_examples_are_the_utterances(self):
        path = support.make_dataset("frameworks", 40)
        dataset = speechshard.Dataset(path)
        examples = speechshard.hf.to_iterable(path, channel=1, parts=3)
        self.assertIsInstance(examples, datasets.IterableDataset)
        self.assertEqual(examples.num_shards, 3)
        found = list(examples)
        self.assertEqual(sorted(e["id"] for e in found), sorted(u.id for u in dataset))
        for example in found:
            utterance = dataset[example["id"]]
            self.assertEqual(example["text"], utterance.text)
            self.assertEqual(example["audio"]["sampling_rate"], utterance.sample_rate_hz)
            want = utterance.audio("float32").numpy().reshape(-1, utterance.channels)[:, 0]
            self.assertEqual(example["audio"]["array"], want.tolist())
        loader = DataLoader(examples.with_format("torch"), batch_size=None, num_workers=2)
        self.assertEqual(len(list(loader)), 40)

    def test_several_channels_are_refused(self):
        with self.assertRaisesRegex(ValueError, "one channel"):
            speechshard.hf.to_iterable("x.spsh", channel="all")


class LhotseTest(unittest.TestCase):
    def test_there_and_back(self):
        path = support.make_dataset("frameworks", 40)
        dataset = speechshard.Dataset(path)
        cuts = speechshard.lhotse.to_lhotse(dataset)
        self.assertIsInstance(cuts, lhotse.CutSet)
        self.assertEqual(len(cuts), 40)
        output = str(support.work_dir() / "from-lhotse.spsh")
        speechshard.lhotse.from_lhotse(cuts, output, "--codec", "pcm", "--quiet")
        packed = speechshard.Dataset(output)
        self.assertEqual(len(packed), 40)
        for old in dataset:
            new = packed[old.id]
            for name in ("text", "speaker", "language", "domain", "split", "sample_rate_hz"):
                self.assertEqual(getattr(new, name), getattr(old, name))
            self.assertEqual(new.audio().tolist(), old.audio().tolist())

    def test_a_cut_without_audio_is_a_reject(self):
        cuts = list(speechshard.lhotse.to_lhotse(support.make_dataset("frameworks", 40)))[:3]
        cuts[1].recording.sources[0] = lhotse.AudioSource("file", [0], "/nonexistent.wav")
        output = support.work_dir() / "rejected.spsh"
        speechshard.lhotse.from_lhotse(cuts, output, "--quiet", "--max-rejects", "100%")
        self.assertEqual(len(speechshard.Dataset(output)), 2)
        rejects = (output / "reports" / "rejects.jsonl").read_text(encoding="utf-8")
        self.assertIn("unreadable", rejects)
        self.assertIn(cuts[1].id, rejects)

    def test_a_failure_of_pack_is_an_exception(self):
        cuts = speechshard.lhotse.to_lhotse(support.make_dataset("frameworks", 40))
        with self.assertRaisesRegex(speechshard.Error, "exit status"):
            speechshard.lhotse.from_lhotse(cuts, "/nonexistent/x.spsh", "--quiet")


if __name__ == "__main__":
    command = Path(support.COMMAND).resolve()
    os.environ["PATH"] = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    warnings.filterwarnings("ignore", module="torch|torchdata")
    support.main()
