"""state_dict and load_state_dict: every utterance of an epoch once, at any world size."""

import copy
import json
import threading
import inspect
import unittest
from collections import Counter

import support  # first: it skips where the package is missing
import speechshard

WORLDS = (1, 2, 3)
OPTIONS = {"max_seconds": 1, "seed": 11, "threads": 2, "cached": True}


class Ranks:
    """All ranks of a world, each in its own thread, stepping together."""

    def __init__(self, dataset, world, **options):
        self.loaders = [
            speechshard.Loader(dataset, rank=rank, world_size=world, **{**OPTIONS, **options})
            for rank in range(world)
        ]
        self.iterators = [iter(loader) for loader in self.loaders]

    def steps(self, count):
        """At most this many steps of each rank; returns the served ids. None: until the end of the
        epoch."""
        served = [[] for _ in self.loaders]
        calls = [0 for _ in self.loaders]
        failed = []

        def work(rank):
            try:
                while count is None or calls[rank] < count:
                    batch = next(self.iterators[rank], None)
                    if batch is None:
                        self.iterators[rank] = iter(self.loaders[rank])
                        return
                    calls[rank] += 1
                    served[rank] += zip(batch.ids, batch.starts)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(served))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed
        assert len(set(calls)) == 1, "all ranks are called as often"
        return [item for rank in served for item in rank]

    def state(self):
        states = [loader.state_dict() for loader in self.loaders]
        assert all(state == states[0] for state in states), "the same on all ranks"
        return json.loads(json.dumps(states[0]))

    def load(self, state):
        for loader in self.loaders:
            loader.load_state_dict(state)

    def close(self):
        for loader in self.loaders:
            loader.close()


class StateTest(unittest.TestCase):
    def setUp(self):
        self.dataset = speechshard.Dataset(
            support.make_mixed("state", {"large": 70, "middle": 25, "one": 1})
        )
        self.ids = sorted(u.id for u in self.dataset)

    def check(self, before, after, steps, **options):
        first = Ranks(self.dataset, before, **options)
        served = first.steps(steps)
        state = first.state()
        self.assertEqual(state["version"], 1)
        self.assertEqual(state["epoch"], 0)
        with speechshard.Loader(self.dataset, **{**OPTIONS, **options}) as alone:
            self.assertEqual(state["batches"], min(steps * before, len(alone)))
        self.assertLessEqual(len(bytes.fromhex(state["cursor"])), 100)
        second = Ranks(self.dataset, after, **options)
        second.load(state)
        self.assertEqual(second.loaders[0].epoch, 0)
        served += second.steps(None)
        self.assertEqual(sorted(id for id, _ in served), self.ids)
        self.assertEqual([loader.epoch for loader in second.loaders], [1] * after)
        # The next epoch equals the next epoch of an uninterrupted run, for any world size.
        first.load({**state})
        first.steps(None)
        self.assertEqual(Counter(first.steps(None)), Counter(second.steps(None)))
        first.close()
        second.close()

    def test_matrix(self):
        for before in WORLDS:
            ranks = Ranks(self.dataset, before)
            length = len(ranks.loaders[0])
            ranks.close()
            for after in WORLDS:
                for steps in sorted({0, 1, length // 2, length - 1, length}):
                    with self.subTest(before=before, after=after, steps=steps):
                        self.check(before, after, steps)

    def test_length_is_the_same_on_all_ranks(self):
        for world in (1, 2, 3, 7):
            ranks = Ranks(self.dataset, world)
            lengths = {len(loader) for loader in ranks.loaders}
            self.assertEqual(len(lengths), 1)
            batches = [[batch.empty for batch in loader] for loader in ranks.loaders]
            self.assertEqual({len(flags) for flags in batches}, lengths)
            for flags in batches:
                self.assertNotIn(True, flags[:-1])
            ranks.close()

    def test_empty_batches(self):
        ranks = Ranks(self.dataset, 3, max_seconds=1000, sample_rate_hz=16000)
        batches = [next(iter(loader)) for loader in ranks.loaders]
        self.assertEqual([batch.empty for batch in batches], [False, True, True])
        empty = batches[1]
        self.assertEqual((len(empty), empty.ids, empty.texts, empty.domains), (0, [], [], []))
        self.assertEqual((empty.sample_rate_hz, empty.channels), (0, 0))
        self.assertEqual((empty.audio.tolist(), empty.lengths.tolist()), ([], []))
        ranks.close()

    def test_between_epochs(self):
        loader = speechshard.Loader(self.dataset, **OPTIONS)
        for _ in loader:
            pass
        state = loader.state_dict()
        self.assertEqual((state["epoch"], state["batches"]), (1, 0))
        want = [batch.ids for batch in loader]
        other = speechshard.Loader(self.dataset, **OPTIONS)
        other.load_state_dict(state)
        other.set_epoch(1)
        self.assertEqual([batch.ids for batch in other], want)

    def test_order_goes_on_as_it_would_have(self):
        loader = speechshard.Loader(self.dataset, **OPTIONS)
        want = [batch.ids for _ in range(2) for batch in loader]
        loader.seek(0)
        iterator, got = iter(loader), []
        for at in range(len(want)):
            batch = next(iterator, None)
            if batch is None:
                iterator = iter(loader)
                batch = next(iterator)
            got.append(batch.ids)
            if at % 3 == 1:
                state = loader.state_dict()
                loader = speechshard.Loader(self.dataset, **{**OPTIONS, "threads": 1 + at % 4})
                loader.load_state_dict(state)
                iterator = iter(loader)
        self.assertEqual(got, want)

    def test_with_mixing(self):
        for before, after in ((2, 3), (3, 1)):
            options = {"alpha": 0.5, "unit": "utterances", "virtual_world_size": 6}
            first = Ranks(self.dataset, before, **options)
            whole = Counter(first.steps(None))
            first.load({**Ranks(self.dataset, 1, **options).state()})
            served = first.steps(3)
            second = Ranks(self.dataset, after, **options)
            second.load(first.state())
            served += second.steps(None)
            self.assertEqual(Counter(served), whole)

    def test_what_is_no_state_of_this(self):
        loader = speechshard.Loader(self.dataset, **OPTIONS)
        next(iter(loader))
        state = loader.state_dict()
        want = copy.deepcopy(state)
        broken = state["cursor"][:60] + "7" + state["cursor"][61:]
        cases = (
            (ValueError, None), (ValueError, {}), (ValueError, []), (ValueError, {"version": 1}),
            (ValueError, {**state, "version": 2}), (ValueError, {**state, "version": 2**80}),
            (ValueError, {**state, "version": "1"}), (ValueError, {**state, "cursor": "xyz"}),
            (ValueError, {**state, "cursor": b"00"}),
            (speechshard.CorruptError, {**state, "cursor": ""}),
            (speechshard.CorruptError, {**state, "cursor": state["cursor"][:-2]}),
            (speechshard.CorruptError, {**state, "cursor": broken}),
        )  # fmt: skip
        for kind, wrong in cases:
            with self.assertRaises(kind, msg=wrong):
                loader.load_state_dict(wrong)
            self.assertEqual(loader.state_dict(), want)
        for options in ({"seed": 12}, {"max_seconds": 2}):
            other = speechshard.Loader(self.dataset, **{**OPTIONS, **options})
            with self.assertRaises(speechshard.Error) as caught:
                other.load_state_dict(state)
            self.assertEqual(caught.exception.status, "SPSH_E_MISMATCH")
        other = speechshard.Loader(support.make_dataset("plain", 40), **OPTIONS)
        with self.assertRaisesRegex(speechshard.Error, "dataset"):
            other.load_state_dict(state)


class ExplanationTest(unittest.TestCase):
    """Arguments of a loader in its repr, and in the errors of states."""

    def test_a_rejected_state_names_the_options_that_differ(self):
        path = support.make_dataset("explained", 20)
        state = speechshard.Loader(path, max_seconds=2, threads=1).state_dict()
        self.assertEqual(state["options"], {"max_seconds": "2"})
        for options, message in (
            ({"max_seconds": 3}, "the state has max_seconds=2; the loader has max_seconds=3"),
            ({"max_seconds": 2, "seed": 4}, "the state has seed=default; the loader has seed=4"),
        ):
            loader = speechshard.Loader(path, **options)
            with self.assertRaisesRegex(ValueError, message) as caught:
                loader.load_state_dict(state)
            self.assertEqual(caught.exception.status, "SPSH_E_MISMATCH")
        del state["options"]  # a state of an older version
        with self.assertRaisesRegex(ValueError, "cursor"):
            speechshard.Loader(path, max_seconds=3).load_state_dict(state)

    def test_the_repr_and_the_signature_show_the_arguments(self):
        path = support.make_dataset("explained", 20)
        loader = speechshard.Loader(path, max_seconds=2, splits=None)
        self.assertEqual(repr(loader), f"speechshard.Loader({path!r}, max_seconds=2)")
        parameters = inspect.signature(speechshard.Loader).parameters
        self.assertEqual(parameters["channel"].default, "mix")
        for name in parameters:
            if name != "datasets":
                speechshard.Loader(path, **{name: None}).close()
        with self.assertRaisesRegex(TypeError, "did you mean 'max_seconds'"):
            speechshard.Loader(path, max_second=2)


if __name__ == "__main__":
    support.main()
