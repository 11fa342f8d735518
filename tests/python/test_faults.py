"""Failures while a Loader runs: damage, signals, threads, forks; and memory that must not grow."""

import gc
import os
import shutil
import subprocess
import sys
import time
import unittest
import wave
from pathlib import Path

import support  # first: it skips where the package is missing
import speechshard

OPTIONS = {"max_utterances": 4, "seed": 5}


class DamageTest(unittest.TestCase):
    """One record of a copy of the dataset has a flipped bit."""

    def setUp(self):
        self.whole = speechshard.Dataset(support.make_dataset("plain", 40))
        self.path = support.work_dir() / "damaged.spsh"
        shutil.copytree(self.whole.path, self.path)
        self.addCleanup(shutil.rmtree, self.path)
        shard = next((self.path / "shards").iterdir())
        data = bytearray(shard.read_bytes())
        # A long utterance: its batch does not contain all possible substitutes.
        longest = max(self.whole, key=lambda u: u.samples)
        pcm = memoryview(longest.audio()).tobytes()
        data[data.index(pcm) + len(pcm) // 2] ^= 1
        shard.write_bytes(data)
        # Equal audio is stored once: all utterances of that record are bad.
        self.bad = sorted(
            u.id for u in self.whole if memoryview(u.audio()).tobytes() == pcm
        )

    def test_fail(self):
        loader = speechshard.Loader(self.path, **OPTIONS)
        for _ in range(2):
            with self.assertRaises(speechshard.CorruptError) as caught:
                list(loader)
            message = str(caught.exception)
            self.assertTrue(any(id in message for id in self.bad), message)
            self.assertIn("damaged.spsh", message)
            self.assertEqual(caught.exception.status, "SPSH_E_CORRUPT")

    def test_dataset(self):
        dataset = speechshard.Dataset(self.path)
        for id in self.bad:
            with self.assertRaises(speechshard.CorruptError) as caught:
                dataset[id].audio()
            self.assertIsInstance(caught.exception.offset, (int, type(None)))
        good = next(u.id for u in self.whole if u.id not in self.bad)
        self.assertEqual(dataset[good].audio().tolist(), self.whole[good].audio().tolist())

    def test_skip(self):
        loader = speechshard.Loader(self.path, on_error="skip", **OPTIONS)
        want = [[i for i in b.ids if i not in self.bad]
                for b in speechshard.Loader(self.whole, **OPTIONS)]
        self.assertEqual([b.ids for b in loader], want)
        bad = loader.bad_records
        self.assertEqual(sorted(self.whole[b["position"]].id for b in bad), self.bad)
        for record in bad:
            self.assertEqual(record["dataset"], str(self.path))
            self.assertEqual((record["epoch"], record["status"]), (0, "SPSH_E_CORRUPT"))
            self.assertTrue(record["message"])
        state = loader.state_dict()
        other = speechshard.Loader(self.path, on_error="skip", **OPTIONS)
        other.load_state_dict(state)
        self.assertEqual([b.ids for b in other], [b.ids for b in loader])

    def test_substitute(self):
        loader = speechshard.Loader(self.path, on_error="substitute", **OPTIONS)
        ids = [i for b in loader for i in b.ids]
        self.assertEqual(len(ids), len(self.whole))
        self.assertFalse(set(ids) & set(self.bad))

    def test_an_interrupt_in_the_log_is_raised(self):
        for raised in (KeyboardInterrupt, SystemExit):
            interrupts = [raised()]

            def log(level, text, interrupts=interrupts):
                if interrupts:
                    raise interrupts.pop()

            options = {"on_error": "skip", "log": log, **OPTIONS}
            loader = None
            with self.assertRaises(raised):
                # Threads read the bad record at any time: each of the two calls may raise.
                loader = speechshard.Loader(self.path, **options)
                list(loader)
            self.assertEqual(interrupts, [])
            if loader is None:
                loader = speechshard.Loader(self.path, **options)
            loader.set_epoch(7)
            self.assertEqual(len(list(loader)), len(loader))

    def test_quarantine_max(self):
        shard = next((self.path / "shards").iterdir())
        data = bytearray(shard.read_bytes())
        for utterance in self.whole:
            pcm = memoryview(utterance.audio()).tobytes()
            at = data.find(pcm)
            if at >= 0:
                data[at] ^= 1
        shard.write_bytes(data)
        loader = speechshard.Loader(self.path, on_error="skip", quarantine_max=3, **OPTIONS)
        with self.assertRaises(speechshard.Error) as caught:
            list(loader)
        self.assertEqual(caught.exception.status, "SPSH_E_LIMIT")


GOLDEN = Path(__file__).parents[1] / "golden/audio"


class UndecodableTest(unittest.TestCase):
    """The Loader's row of BAD_RECORDS.md, except damage. All transcripts are missing."""

    @classmethod
    def setUpClass(cls):
        corpus = support.work_dir() / "odd"
        corpus.mkdir()
        for name in ("undecodable.flac", "wrapped.flac"):
            shutil.copy(GOLDEN / name, corpus)
        for number in range(12):
            with wave.open(str(corpus / f"clip-{number}.wav"), "wb") as clip:
                clip.setparams((1, 2, 16000, 0, "NONE", ""))
                clip.writeframes(bytes([number + 1, 1]) * (1 if number == 0 else 1500 + number))
        cls.path = support.work_dir() / "odd.spsh"
        command = [support.COMMAND, "pack", corpus, "-o", cls.path, "--quiet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def ids(self, **options):
        loader = speechshard.Loader(self.path, **OPTIONS, **options)
        ids = sorted(i for batch in loader for i in batch.ids)
        self.assertEqual(loader.bad_records, [])
        self.assertGreaterEqual(loader.stats["undecodable_records"], 1)
        return ids

    def test_not_served(self):
        want = sorted(u.id for u in speechshard.Dataset(self.path) if u.id != "undecodable")
        self.assertEqual(len(want), 13)
        self.assertIn("wrapped", want)
        self.assertIn("clip-0", want)  # a clip of one sample
        for on_error in ("fail", "skip"):
            self.assertEqual(self.ids(on_error=on_error, quarantine_max=1), want)
        ids = self.ids(on_error="substitute")
        self.assertEqual((len(ids), "undecodable" in ids), (14, False))

    def test_fail(self):
        for on_error in ("fail", "skip", "substitute"):
            loader = speechshard.Loader(self.path, undecodable="fail", on_error=on_error, **OPTIONS)
            with self.assertRaises(speechshard.Error) as caught:
                list(loader)
            self.assertEqual(caught.exception.status, "SPSH_E_AUDIO")
        with self.assertRaises(ValueError):
            speechshard.Loader(self.path, undecodable="never")

    def test_one_line(self):
        lines = []
        loader = speechshard.Loader(self.path, log=lambda level, text: lines.append(text), **OPTIONS)
        for _ in range(2):
            list(loader)
        self.assertEqual(sum("undecodable records are skipped" in line for line in lines), 1, lines)

    def test_too_long(self):
        with self.assertRaises(speechshard.Error):
            speechshard.Loader(self.path, max_seconds=0.05)
        ids = [i for batch in speechshard.Loader(self.path, max_seconds=0.05, long="drop") for i in batch.ids]
        self.assertEqual(ids, ["clip-0"])


SLOW = """
import os, signal, sys, threading, time
import speechshard
flag = os.environ["SLOW_READ_WHILE"]
loader = speechshard.Loader(sys.argv[1], engine="pread", cached=True, max_utterances=4, slots=2)
iterator = iter(loader)

def slow():
    # What was read ahead is served first; after that next() waits for the file to go.
    open(flag, "w").close()

def fast():
    if os.path.exists(flag):
        os.unlink(flag)
"""


class WaitingTest(unittest.TestCase):
    """next() waits for reads that do not return."""

    def setUp(self):
        library = support.BUILD_DIR / "tests" / "libslow_read.so"
        if not library.exists():
            self.skipTest(f"there is no {library}")
        self.path = support.make_dataset("plain", 40)
        self.environment = dict(os.environ)
        preload = [os.environ.get("LD_PRELOAD", ""), str(library)]
        self.environment["LD_PRELOAD"] = ":".join(filter(None, preload))
        self.environment["SLOW_READ_WHILE"] = str(support.work_dir() / f"flag-{self.id()}")

    def run_script(self, script):
        command = [sys.executable, "-c", SLOW + script, self.path]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "good\n"), done.stderr)

    def test_keyboard_interrupt(self):
        self.run_script("""
slow()
timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
timer.start()
served = []
try:
    for batch in iterator:
        served += batch.ids
    print("no interrupt")
except KeyboardInterrupt:
    assert os.path.exists(flag)     # the reads have not come back
    fast()
    served += [id for batch in loader for id in batch.ids]
    assert len(served) == len(set(served)) == 40, served
    print("good")
""")

    def test_close_from_another_thread(self):
        self.run_script("""
slow()
threading.Timer(0.3, loader.close).start()
threading.Timer(1.0, fast).start()  # close waits for reads that are under way
try:
    for batch in iterator:
        pass
    print("no end")
except ValueError as error:
    assert "closed" in str(error), error
    print("good")
""")

    def test_a_second_thread_is_refused(self):
        self.run_script("""
slow()
errors = []
def work():
    try:
        for batch in loader:
            pass
    except BaseException as error:
        errors.append(error)
thread = threading.Thread(target=work)
thread.start()
time.sleep(2)  # until it waits, on a busy machine, too
for use in (loader.state_dict, lambda: next(iter(loader)), lambda: loader.seek(0)):
    try:
        use()
        print("not refused")
    except RuntimeError as error:
        assert "another thread" in str(error), error
assert loader.stats["engine"] == "pread"
fast()
thread.join()
assert not errors, errors
print("good")
""")

    def test_exit_while_waiting(self):
        self.run_script("""
slow()
thread = threading.Thread(target=lambda: [None for _ in loader], daemon=True)
thread.start()
time.sleep(0.3)
print("good", flush=True)
os._exit(0)
""")


def run(code):
    """Run code in a separate process, with a dataset at `path`."""
    head = ("import multiprocessing, os, sys, speechshard\n"
            f"path, OPTIONS = {str(support.make_dataset('plain', 40))!r}, {OPTIONS!r}\n")
    return subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True,
                          timeout=120)


class ForkTest(unittest.TestCase):
    def test_child(self):
        dataset = speechshard.Dataset(support.make_dataset("plain", 40))
        loader = speechshard.Loader(dataset, **OPTIONS)
        iterator = iter(loader)
        batch = next(iterator)
        want = batch.audio.tolist()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                uses = (lambda: next(iterator), lambda: iter(loader), loader.state_dict,
                        lambda: len(loader), lambda: loader.stats)
                for use in uses:
                    try:
                        use()
                        os._exit(2)
                    except RuntimeError as error:
                        assert "fork" in str(error)
                assert batch.audio.tolist() == want
                del batch, iterator
                loader.close()
                del loader
                gc.collect()
                assert len(list(speechshard.Loader(dataset.path, **OPTIONS))) > 0
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len([batch] + list(iterator)), len(loader))

    def test_child_frees_descriptors(self):
        def count():
            return len(os.listdir("/proc/self/fd"))

        path = support.make_dataset("plain", 40)
        before = count()
        loader = speechshard.Loader(path, **OPTIONS)
        list(loader)  # all shards are open
        child = os.fork()
        if child == 0:
            status = 1
            try:
                loader.close()
                del loader
                gc.collect()
                status = 0 if count() == before else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertGreater(len(list(loader)), 0)

    def test_multiprocessing(self):
        """Workers that inherit a loader fail with RuntimeError, and can open their own."""
        done = run("""
context = multiprocessing.get_context("fork")
loader = speechshard.Loader(path, **OPTIONS)
iterator = iter(loader)
first = next(iterator)

def work(queue):
    try:
        next(iterator)
        queue.put("served")
    except RuntimeError as error:
        own = speechshard.Loader(path, **OPTIONS)
        queue.put(("fork" in str(error), [b.ids for b in own]))

queue = context.SimpleQueue()
workers = [context.Process(target=work, args=(queue,)) for _ in range(3)]
for worker in workers:
    worker.start()
answers = [queue.get() for _ in workers]
for worker in workers:
    worker.join()
assert [worker.exitcode for worker in workers] == [0, 0, 0]
want = [first.ids] + [b.ids for b in iterator]
assert answers == [(True, want)] * 3, answers
""")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_child_ends_normally(self):
        """A child with a loader and a batch runs the whole end of the interpreter."""
        done = run("""
loader = speechshard.Loader(path, **OPTIONS)
iterator = iter(loader)
batch = next(iterator)
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert len([batch] + list(iterator)) == len(loader)
""")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_torch_workers(self):
        try:
            import torch.utils.data
        except ImportError:
            self.skipTest("there is no torch")
        loader = speechshard.Loader(support.make_dataset("plain", 40), **OPTIONS)
        next(iter(loader))

        class Speech(torch.utils.data.IterableDataset):
            def __iter__(self):
                for batch in loader:
                    yield batch.ids

        served = torch.utils.data.DataLoader(Speech(), batch_size=None, num_workers=2,
                                             multiprocessing_context="fork")
        with self.assertRaisesRegex(RuntimeError, "num_workers=0"):
            list(served)
        served = torch.utils.data.DataLoader(Speech(), batch_size=None, num_workers=0)
        self.assertGreater(len(list(served)), 0)


class GrowthTest(unittest.TestCase):
    def setUp(self):
        self.path = support.make_dataset("plain", 40)

    @staticmethod
    def resident_bytes():
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")

    def test_memory_of_epochs(self):
        if "asan" in os.environ.get("LD_PRELOAD", ""):
            self.skipTest("the sanitizer keeps what is freed")
        loader = speechshard.Loader(self.path, slots=3, **OPTIONS)
        kept = []

        def serve(epochs):
            for _ in range(epochs):
                for batch in loader:
                    batch.ids, batch.texts, batch.domains, batch.lengths, batch.offsets
                    kept[:] = [*kept[-4:], (batch.audio, memoryview(batch.utterance(0)))]
                loader.state_dict(), loader.stats, loader.plan, len(loader)

        serve(40)
        before = self.resident_bytes()
        serve(200)
        self.assertLess(self.resident_bytes() - before, 4 << 20)

    def test_memory_of_loaders(self):
        if "asan" in os.environ.get("LD_PRELOAD", ""):
            self.skipTest("the sanitizer keeps what is freed")

        def serve(count):
            for _ in range(count):
                loader = speechshard.Loader(self.path, **OPTIONS)
                views = [batch.audio for batch in loader]
                self.assertTrue(views)
                try:
                    loader.load_state_dict({"version": 1, "cursor": "00"})
                except speechshard.Error:
                    pass

        serve(10)
        before = self.resident_bytes()
        serve(40)
        self.assertLess(self.resident_bytes() - before, 8 << 20)

    def test_references(self):
        kinds = (speechshard.Array, speechshard.Batch, speechshard.Loader, speechshard.Dataset,
                 speechshard.Utterance)

        def counts():
            gc.collect()
            return [sys.getrefcount(kind) for kind in kinds] + [sys.getrefcount(None) // 1000]

        def serve():
            dataset = speechshard.Dataset(self.path)
            loader = speechshard.Loader([dataset], weights={"default": 1}, splits=None, **OPTIONS)
            for batch in loader:
                batch.audio.__dlpack__()
                batch.audio.tolist(), batch.ids, batch.starts, batch.utterance(0)[1:]
                dataset[batch.ids[0]].audio(), dataset.info
            for wrong in ({"seed": "x"}, {"domains": ["no"]}, {"bad": 1}):
                with self.assertRaises((TypeError, ValueError)):
                    speechshard.Loader(dataset, **wrong)

        serve()
        before = counts()[:-1]
        for _ in range(5):
            serve()
        self.assertEqual(counts()[:-1], before)

    def test_descriptors_and_threads(self):
        def count():
            gc.collect()
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

        before = count()
        for _ in range(5):
            with speechshard.Loader(self.path, **OPTIONS) as loader:
                batch = next(iter(loader))
            self.assertGreater(count()[1], before[1])
            del batch, loader
        deadline = time.monotonic() + 60  # a thread that has ended is listed for a moment
        while count() != before and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(count(), before)


if __name__ == "__main__":
    support.main()
