"""speechshard.Loader: epochs, batches, lifetimes of borrowed memory."""

import array
import gc
import locale
import random
import sys
import threading
import unittest
from collections import Counter

import support  # first: it skips where the package is missing
import speechshard


def pcm(utterance):
    """int16 values of an Array, flat."""
    return memoryview(utterance).cast("B").cast("h").tolist()


def mixed_down(utterance):
    """The samples that channel="mix" serves for a Dataset's utterance."""
    values, channels = pcm(utterance.audio()), utterance.channels
    if channels == 1:
        return values
    return [(a + b) / 2 for a, b in zip(values[::2], values[1::2])]


class LoaderTest(unittest.TestCase):
    def setUp(self):
        self.path = support.make_dataset("plain", 40)
        self.dataset = speechshard.Dataset(self.path)
        self.ids = sorted(u.id for u in self.dataset)

    def loader(self, **options):
        return speechshard.Loader(self.dataset, **{"max_seconds": 2, "seed": 7, **options})

    def test_an_epoch_is_every_utterance_once(self):
        with self.loader() as loader:
            orders = []
            for epoch in range(3):
                self.assertEqual(loader.epoch, epoch)
                length, batches, ids = len(loader), 0, []
                for batch in loader:
                    self.assertEqual((batch.epoch, batch.step), (epoch, batches))
                    self.assertFalse(batch.empty)
                    self.assertTrue(batch.step_end)
                    ids += batch.ids
                    batches += 1
                self.assertEqual(batches, length)
                self.assertEqual(sorted(ids), self.ids)
                orders.append(ids)
            self.assertNotEqual(orders[0], orders[1])
            self.assertNotEqual(orders[1], orders[2])

    def test_order_does_not_depend_on_what_is_no_order(self):
        bound = {"max_padded_seconds": 3}
        want = [batch.ids for batch in self.loader(**bound)]
        for options in ({"threads": 1}, {"threads": 8}, {"slots": 2}, {"slots": 20},
                        {"engine": "pread"}, {"cached": True}, {"output": "float32"}):
            self.assertEqual([batch.ids for batch in self.loader(**bound, **options)], want)
        other = speechshard.Loader(self.path, max_seconds=2, seed=7, **bound)
        self.assertEqual([batch.ids for batch in other], want)
        self.assertNotEqual([batch.ids for batch in self.loader(seed=8, **bound)], want)

    def test_shuffle(self):
        in_order = [u.id for u in self.dataset]
        ids = [i for b in self.loader(shuffle=False, sample_rate_hz=16000) for i in b.ids]
        self.assertEqual(ids, in_order)
        for shuffle in (True, 1, 8):
            ids = [i for b in self.loader(shuffle=shuffle) for i in b.ids]
            self.assertEqual(sorted(ids), self.ids)

    def test_next_goes_by_epochs_too(self):
        loader = self.loader()
        iterator = iter(loader)
        first = [next(iterator) for _ in range(len(loader))]
        self.assertEqual(len(first), len(loader))
        for _ in range(2):
            with self.assertRaises(StopIteration):
                next(iterator)
        self.assertEqual(next(iter(loader)).epoch, 1)

    def test_a_break_is_continued(self):
        want = [batch.ids for batch in self.loader()]
        loader, got = self.loader(), []
        for batch in loader:
            got.append(batch.ids)
            if len(got) == 2:
                break
        got += [batch.ids for batch in loader]
        self.assertEqual(got, want)
        self.assertEqual(loader.epoch, 1)

    def test_text_and_numbers(self):
        for batch in self.loader():
            for i, id in enumerate(batch.ids):
                want = self.dataset[id]
                self.assertEqual(batch.texts[i], want.text)
                self.assertEqual(batch.speakers[i], want.speaker)
                self.assertEqual(batch.languages[i], want.language)
                self.assertEqual(batch.domains[i], want.domain)
                self.assertEqual(batch.lengths[i], want.samples)
                self.assertEqual(batch.positions[i], want.position)
                self.assertEqual(batch.sample_rate_hz, want.sample_rate_hz)
                self.assertEqual((batch.starts[i], batch.datasets[i]), (0, 0))
            self.assertEqual(len(batch), len(batch.ids))
            self.assertIs(batch.ids, batch.ids)
            self.assertIn(f"utterances={len(batch)}", repr(batch))

    def test_int16_is_ragged(self):
        for batch in self.loader():
            self.assertEqual((batch.audio.dtype, len(batch.audio.shape)), ("int16", 1))
            self.assertEqual(batch.channels, 1)
            at = 0
            for i, id in enumerate(batch.ids):
                self.assertEqual(batch.offsets[i], at)
                got = batch.utterance(i)
                self.assertEqual(got.shape, (batch.lengths[i],))
                self.assertEqual(got.tolist(), batch.audio[at : at + len(got)].tolist())
                for a, b in zip(got.tolist(), mixed_down(self.dataset[id])):
                    self.assertLess(abs(a - b), 1)
                at += len(got)
            self.assertEqual(batch.audio.shape, (at,))
            self.assertEqual(batch.utterance(-1).tolist(), batch.utterance(len(batch) - 1).tolist())
            for index in (len(batch), -len(batch) - 1):
                with self.assertRaises(IndexError):
                    batch.utterance(index)

    def test_float32_is_padded(self):
        for batch in self.loader(output="float32"):
            longest = max(batch.lengths)
            self.assertEqual(batch.audio.shape, (len(batch), longest))
            self.assertEqual(batch.audio.dtype, "float32")
            for i, id in enumerate(batch.ids):
                row, length = batch.audio[i].tolist(), batch.lengths[i]
                self.assertEqual(row[length:], [0.0] * (longest - length))
                self.assertEqual(batch.utterance(i).tolist(), row[:length])
                want = [value / 32768 for value in mixed_down(self.dataset[id])]
                for a, b in zip(row, want):
                    self.assertLess(abs(a - b), 1e-4)

    def test_all_channels(self):
        seen = set()
        for batch in self.loader(channel="all"):
            seen.add(batch.channels)
            for i, id in enumerate(batch.ids):
                utterance = self.dataset[id]
                self.assertEqual(batch.channels, utterance.channels)
                self.assertEqual(batch.utterance(i).shape, utterance.audio().shape)
                self.assertEqual(batch.utterance(i).tolist(), utterance.audio().tolist())
        self.assertEqual(seen, {1, 2})
        for batch in self.loader(channel="all", output="float32"):
            shape = (len(batch), max(batch.lengths))
            self.assertEqual(batch.audio.shape, shape if batch.channels == 1 else (*shape, 2))
            utterance = self.dataset[batch.ids[0]]
            want = utterance.audio("float32").tolist()
            self.assertEqual(batch.utterance(0).tolist(), want)

    def test_one_channel(self):
        for batch in self.loader(channel=1):
            for i, id in enumerate(batch.ids):
                utterance = self.dataset[id]
                want = pcm(utterance.audio())[:: utterance.channels]
                self.assertEqual(batch.utterance(i).tolist(), want)

    def test_resampled(self):
        for batch in self.loader(sample_rate_hz=24000):
            self.assertEqual(batch.sample_rate_hz, 24000)
            for i, id in enumerate(batch.ids):
                want = self.dataset[id].duration * 24000
                self.assertLess(abs(batch.lengths[i] - want), 2)

    def test_list_keeps_all_batches(self):
        want = [(b.ids, pcm(b.audio)) for b in self.loader()]
        for slots in (2, 3, 8):
            batches = list(self.loader(slots=slots, max_utterances=3))
            self.assertGreater(len(batches), slots)
            self.assertEqual(sorted(i for b in batches for i in b.ids), self.ids)
        batches = list(self.loader(slots=2))
        gc.collect()
        self.assertEqual([(b.ids, pcm(b.audio)) for b in batches], want)

    def test_several_epochs_in_a_list(self):
        loader = self.loader(slots=2, max_utterances=2)
        batches = [batch for _ in range(5) for batch in loader]
        self.assertEqual(sorted(i for b in batches for i in b.ids), sorted(self.ids * 5))

    def test_views_outlive_batch_and_loader(self):
        rng = random.Random(3)
        loader = self.loader(max_utterances=4, slots=4)
        kept = []
        for batch in loader:
            view = rng.choice((batch.audio, batch.utterance(0), memoryview(batch.audio),
                               batch.audio[1:], batch.utterance(0)[::2]))
            kept.append((view, view.tolist()))
            if rng.random() < 0.3:
                kept.pop(rng.randrange(len(kept)))
        del loader, batch, view
        gc.collect()
        rng.shuffle(kept)
        while kept:
            view, want = kept.pop()
            self.assertEqual(view.tolist(), want)

    def test_views_are_let_go_in_other_threads(self):
        loader = self.loader(max_utterances=2, slots=5)
        lock, kept, wrong = threading.Lock(), [], []

        def let_go():
            while True:
                with lock:
                    item = kept.pop() if kept else None
                if item is None:
                    if done.is_set():
                        return
                    continue
                if item != "done" and item[0].tolist() != item[1]:
                    wrong.append(item)
                del item

        done = threading.Event()
        threads = [threading.Thread(target=let_go) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            for batch in loader:
                with lock:
                    kept.append((batch.audio, batch.audio.tolist()))
        done.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_dlpack_of_a_batch(self):
        numpy = support.numpy_or_skip(self)
        loader = self.loader(output="float32")
        got = [(numpy.from_dlpack(b.audio), b.audio.tolist()) for b in loader]
        del loader
        gc.collect()
        for view, want in got:
            self.assertEqual(view.tolist(), want)

    def test_torch_dataset(self):
        try:
            import torch
            from torch.utils.data import DataLoader, IterableDataset
        except ImportError:
            self.skipTest("there is no torch")

        class Speech(IterableDataset):
            def __init__(self, loader):
                self.loader = loader

            def __iter__(self):
                for batch in self.loader:
                    yield torch.from_dlpack(batch.audio), batch.ids

            def __len__(self):
                return len(self.loader)

        loader = self.loader(output="float32")
        source = DataLoader(Speech(loader), batch_size=None)
        for _ in range(2):
            got = list(source)
            self.assertEqual(sorted(i for _, ids in got for i in ids), self.ids)
            self.assertEqual(got[0][0].dtype, torch.float32)

    def test_batches_may_be_written_to(self):
        want = [pcm(b.audio) for b in self.loader()]
        loader = self.loader(slots=2)
        got = []
        for batch in loader:
            got.append(pcm(batch.audio))
            view = memoryview(batch.audio)
            for at in range(0, len(view), 10):
                view[at] = -1
        self.assertEqual(got, want)

    def test_close(self):
        loader = self.loader()
        iterator = iter(loader)
        batch = next(iterator)
        want = batch.audio.tolist()
        loader.close()
        loader.close()
        self.assertEqual(batch.audio.tolist(), want)
        self.assertEqual(len(batch.ids), len(batch))
        uses = (loader.state_dict, lambda: next(iterator), lambda: iter(loader), loader.__enter__,
                lambda: len(loader), lambda: loader.stats, lambda: loader.plan,
                lambda: loader.epoch, lambda: loader.seek(0), lambda: loader.bad_records)
        for use in uses:
            with self.assertRaisesRegex(ValueError, "closed"):
                use()

    def test_the_dataset_may_be_closed_or_gone(self):
        loader = speechshard.Loader([self.dataset], max_seconds=2)
        self.dataset.close()
        del self.dataset
        gc.collect()
        self.assertEqual(sorted(i for b in loader for i in b.ids), self.ids)
        with self.assertRaisesRegex(ValueError, "closed"):
            closed = speechshard.Dataset(self.path)
            closed.close()
            speechshard.Loader(closed)

    def test_seek_and_set_epoch(self):
        loader = self.loader(max_utterances=3)
        epochs = [[b.ids for b in loader] for _ in range(3)]
        loader.seek(1, 4)
        self.assertEqual([b.ids for b in loader], epochs[1][4:])
        loader.seek(epoch=0, step=2)
        self.assertEqual(next(iter(loader)).ids, epochs[0][2])
        loader.set_epoch(0)
        self.assertEqual(next(iter(loader)).ids, epochs[0][3])
        loader.set_epoch(2)
        self.assertEqual([b.ids for b in loader], epochs[2])
        for wrong in ((-1,), (0, -1)):
            with self.assertRaises(ValueError):
                loader.seek(*wrong)
        with self.assertRaises(speechshard.Error):
            loader.seek(0, 10**6)

    def test_reports(self):
        locale.setlocale(locale.LC_ALL, "")  # as some programs do; stats are passed as JSON
        loader = self.loader()
        for _ in loader:
            pass
        plan, stats = loader.plan, loader.stats
        self.assertEqual(plan["utterances"], len(self.ids))
        self.assertAlmostEqual(plan["seconds"], self.dataset.info["seconds"], 3)
        self.assertEqual([d["name"] for d in plan["domains"]], ["default"])
        self.assertEqual(stats["utterances"], len(self.ids))
        self.assertEqual(stats["batches"], len(loader))
        self.assertIn(stats["engine"], ("io_uring", "pread"))
        self.assertEqual(loader.bad_records, [])
        self.assertTrue(loader)

    def test_log(self):
        said = []
        loader = self.loader(
            slots=256, memory_bytes=8 << 20, log=lambda level, text: said.append((level, text))
        )
        self.assertLess(loader.stats["slots"], 256)
        self.assertTrue(any("slots" in text for _, text in said), said)
        for level, text in said:
            self.assertIn(level, (20, 30, 40))
            self.assertIsInstance(text, str)

    def test_an_interrupt_in_the_log_is_raised_by_the_call(self):
        options = {"slots": 256, "memory_bytes": 8 << 20}  # which logs fewer slots

        def interrupted(level, text):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.loader(**options, log=interrupted)
        self.loader(**options, log=lambda level, text: None).close()

    def test_log_that_raises_or_refers_to_the_loader(self):
        raised = []
        old, sys.unraisablehook = sys.unraisablehook, lambda info: raised.append(info.exc_value)
        try:
            loader = self.loader(log=lambda level, text: 1 / 0)
            self.assertEqual(sorted(i for b in loader for i in b.ids), self.ids)
        finally:
            sys.unraisablehook = old
        self.assertTrue(all(isinstance(error, ZeroDivisionError) for error in raised))
        before = sys.getrefcount(speechshard.Loader)
        for _ in range(3):
            box = []
            box.append(self.loader(log=lambda level, text, box=box: None))
            box.append(iter(box[0]))
            next(box[1])
        del box
        gc.collect()
        self.assertEqual(sys.getrefcount(speechshard.Loader), before)


class ColumnsTest(unittest.TestCase):
    COUNT = 200  # more than the utterances whose extras are sampled

    def setUp(self):
        rows = [
            {
                "text": f"text {n}", "speaker": "ann" if n % 2 else "", "accent": f"ü {n}",
                "level": n, "note": "missing",
            }
            for n in range(self.COUNT)
        ]  # fmt: skip
        rows[self.COUNT - 2]["räre"] = [1, None]
        self.path = support.make_table("columns", rows)
        self.plain = support.make_dataset("plain", 40)

    def loader(self, columns, datasets=None, **options):
        return speechshard.Loader(
            datasets or self.path, max_seconds=2, seed=3, columns=columns, **options
        )

    def test_columns_have_a_value_for_each_utterance(self):
        names = ["speaker", "language", "text", "samples", "source", "accent", "level", "räre"]
        datasets = [speechshard.Dataset(self.path), speechshard.Dataset(self.plain)]
        loader = self.loader(names, datasets)
        for dataset in datasets:
            dataset.close()
        again = [speechshard.Dataset(self.path), speechshard.Dataset(self.plain)]
        served, batches = 0, list(loader)
        loader.close()
        for batch in batches:
            self.assertEqual(list(batch.columns), names)
            for i, (number, position) in enumerate(zip(batch.datasets, batch.positions)):
                utterance = again[number][position]
                got = {name: values[i] for name, values in batch.columns.items()}
                want = {name: getattr(utterance, name) or None for name in names[:5]}
                want.update((name, utterance.extras.get(name)) for name in names[5:])
                self.assertEqual(got, want)
                self.assertEqual(batch.ids[i], utterance.id)
                served += 1
            self.assertTrue(all(len(values) == len(batch) for values in batch.columns.values()))
        self.assertEqual(served, self.COUNT + 40)
        self.assertEqual(sum(v is not None for b in batches for v in b.columns["räre"]), 1)
        self.assertIn(None, [v for b in batches for v in b.columns["speaker"]])

    def test_columns_are_not_part_of_the_order(self):
        loader = self.loader(None)
        iterator = iter(loader)
        self.assertEqual(next(iterator).columns, {})
        state, want = loader.state_dict(), next(iterator).ids
        resumed = self.loader("id")
        resumed.load_state_dict(state)
        batch = next(iter(resumed))
        self.assertEqual((batch.ids, batch.columns), (want, {"id": want}))

    def test_an_unknown_column_is_refused(self):
        for columns, message in (
            (["speakr"], r"no column 'speakr'; did you mean 'speaker'\? .*\(columns: id, .*level"),
            (["id", "acent"], "no column 'acent'; did you mean 'accent'"),
            ("missing", r"no column 'missing' .*\(columns: id,"),  # the value of another column
        ):
            with self.assertRaisesRegex(speechshard.InvalidArgumentError, message):
                self.loader(columns)
        with self.assertRaisesRegex(TypeError, "columns must be a str or a sequence of them"):
            self.loader([1])
        with self.assertRaisesRegex(speechshard.InvalidArgumentError, "no column 'räre'"):
            self.loader("räre", self.plain)


class MixingTest(unittest.TestCase):
    def setUp(self):
        self.path = support.make_mixed("mixed", {"big": 60, "small": 10})

    def test_filters(self):
        dataset = speechshard.Dataset(self.path)
        some = [u for u in dataset if u.split == "dev" and u.domain == "big"]
        loader = speechshard.Loader(dataset, splits="dev", domains=["big"], languages=("en",))
        self.assertEqual(sorted(i for b in loader for i in b.ids), sorted(u.id for u in some))
        loader = speechshard.Loader(dataset, min_duration=0.1, max_duration=0.15)
        want = sorted(u.id for u in dataset if 0.1 <= u.duration <= 0.15)
        self.assertEqual(sorted(i for b in loader for i in b.ids), want)
        loader = speechshard.Loader(dataset, max_per_speaker=2)
        speakers = Counter(s for b in loader for s in b.speakers)
        self.assertEqual(set(speakers.values()), {2})
        loader = speechshard.Loader(dataset, duplicates="once")
        self.assertEqual(loader.plan["utterances"], 70 - dataset.info["duplicates"])
        with self.assertRaisesRegex(speechshard.InvalidArgumentError, "big"):
            speechshard.Loader(dataset, domains=["nowhere"])
        with self.assertRaises(speechshard.NotFoundError):
            speechshard.Loader(dataset, min_duration=1000)

    def test_shares(self):
        loader = speechshard.Loader(self.path, alpha=0, unit="utterances", max_utterances=7)
        domains = Counter(d for b in loader for d in b.domains)
        self.assertEqual(sum(domains.values()), 70)
        self.assertLessEqual(abs(domains["big"] - domains["small"]), 1)
        loader = speechshard.Loader(
            self.path, weights={"big": 1, "small": 3}, unit="utterances", max_utterances=7
        )
        domains = Counter(d for b in loader for d in b.domains)
        self.assertLessEqual(abs(3 * domains["big"] - domains["small"]), 4)
        shares = {d["name"]: d["share"] for d in loader.plan["domains"]}
        self.assertAlmostEqual(shares["small"], 0.75, delta=1 / 70)  # whole utterances

    def test_several_datasets(self):
        other = support.make_dataset("plain", 40)
        loader = speechshard.Loader([self.path, speechshard.Dataset(other)], max_seconds=2)
        count = Counter(d for b in loader for d in b.datasets)
        self.assertEqual(count, {0: 70, 1: 40})
        loader = speechshard.Loader(
            [self.path, other], weights={(0, "small"): 1, (1, "default"): 1}, unit="utterances"
        )
        count = Counter(d for b in loader for d in b.domains)
        self.assertEqual(count, {"small": 25, "default": 25})

    def test_texts(self):
        dataset = speechshard.Dataset(self.path)
        for batch in speechshard.Loader(dataset, max_seconds=2):
            for id, text, speaker, language, domain in zip(
                batch.ids, batch.texts, batch.speakers, batch.languages, batch.domains
            ):
                want = dataset[id]
                self.assertEqual(text, want.text)
                self.assertIn("ü", text)
                self.assertEqual((speaker, language, domain),
                                 (want.speaker, want.language, want.domain))

    def test_long_utterances(self):
        bound = {"max_seconds": 0.1}
        with self.assertRaises(speechshard.Error) as caught:
            speechshard.Loader(self.path, **bound)
        self.assertEqual(caught.exception.status, "SPSH_E_LIMIT")
        loader = speechshard.Loader(self.path, long="drop", **bound)
        self.assertEqual(
            loader.plan["utterances"] + loader.plan["too_long"], 70
        )
        parts = {}
        dataset = speechshard.Dataset(self.path)
        for batch in speechshard.Loader(dataset, long="split", channel=1, **bound):
            for i, id in enumerate(batch.ids):
                parts.setdefault(id, []).append((batch.starts[i], batch.utterance(i).tolist()))
        self.assertEqual(len(parts), 70)
        self.assertTrue(any(len(pieces) > 1 for pieces in parts.values()))
        for id, pieces in parts.items():
            want = pcm(dataset[id].audio())[:: dataset[id].channels]
            joined = [value for _, piece in sorted(pieces) for value in piece]
            self.assertEqual(joined, want)


class ArgumentsTest(unittest.TestCase):
    def setUp(self):
        self.path = support.make_dataset("plain", 40)

    def test_wrong_ones(self):
        wrong = {
            TypeError: [{"sede": 1}, {"seed": "1"}, {"seed": 1.5}, {"max_seconds": "ten"},
                        {"weights": ["a"]}, {"weights": {3: 1}}, {"splits": 7}, {"splits": [7]},
                        {"log": 7}, {"cache_dir": 7}, {"weights": {"default": "x"}}],
            ValueError: [{"seed": -1}, {"seed": 2**64}, {"rank": 2**32}, {"unit": "hours"},
                         {"output": "int8"}, {"channel": "left"}, {"channel": 0}, {"channel": -3},
                         {"engine": "aio"}, {"on_error": None or "panic"}, {"long": "cut"},
                         {"duplicates": 3}, {"shuffle": 0}, {"shuffle": -1}, {"threads": -1},
                         {"rank": 2, "world_size": 2}, {"max_padded_seconds": -1.0},
                         {"alpha": float("nan")}, {"domains": ["a\0b"]}, {"slots": 1}],
        }  # fmt: skip
        for kind, cases in wrong.items():
            for options in cases:
                with self.assertRaises(kind, msg=options) as caught:
                    speechshard.Loader(self.path, **options)
                self.assertTrue(str(caught.exception), options)
        for datasets in ((), 7, None, [7], object()):
            with self.assertRaises((TypeError, ValueError)):
                speechshard.Loader(datasets)
        with self.assertRaises(TypeError):
            speechshard.Loader()
        with self.assertRaisesRegex(TypeError, "'sede'"):
            speechshard.Loader(self.path, sede=1)
        with self.assertRaisesRegex(ValueError, '"seconds", "utterances" or "tokens"'):
            speechshard.Loader(self.path, unit="hours")
        with self.assertRaises(speechshard.NotFoundError):
            speechshard.Loader([self.path, support.work_dir() / "missing"])

    def test_none_is_the_default(self):
        names = ["seed", "rank", "world_size", "max_seconds", "max_padded_seconds",
                 "max_utterances", "alpha", "weights", "unit", "splits", "domains", "languages",
                 "min_duration", "max_duration", "max_per_speaker", "duplicates", "long", "output",
                 "sample_rate_hz", "channel", "shuffle", "window", "virtual_world_size",
                 "drop_last", "threads", "slots", "memory_bytes", "engine", "cached", "on_error",
                 "quarantine_max", "cache_dir", "log"]  # fmt: skip
        want = [b.ids for b in speechshard.Loader(self.path)]
        got = [b.ids for b in speechshard.Loader(self.path, **dict.fromkeys(names))]
        self.assertEqual(got, want)
        for name in names:
            self.assertRegex(speechshard.Loader.__doc__, rf"\b{name}\b")

    def test_cache_dir(self):
        cache = support.work_dir() / "cache"
        cache.mkdir()
        want = [b.ids for b in speechshard.Loader(self.path)]
        for _ in range(2):
            got = [b.ids for b in speechshard.Loader(self.path, cache_dir=cache)]
            self.assertEqual(got, want)
        self.assertTrue(list(cache.iterdir()))

    def test_init_twice(self):
        loader = speechshard.Loader(self.path)
        with self.assertRaises(RuntimeError):
            loader.__init__(self.path)
        self.assertEqual(len(loader), 2)

    def test_subclass(self):
        class Mine(speechshard.Loader):
            def __iter__(self):
                for batch in super().__iter__():
                    yield array.array("h", batch.audio.tolist())

        loader = Mine(self.path)
        loader.note = loader
        self.assertEqual(len(list(loader)), len(loader))


if __name__ == "__main__":
    support.main()
