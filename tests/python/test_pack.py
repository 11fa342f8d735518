"""speechshard.pack and verify: the same bytes as the command's, progress, cancelation, and
errors."""

import inspect
import json
import logging
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import unittest
import unittest.mock
from pathlib import Path

import support  # first: it skips where the package is missing
import speechshard

# Small shards and one thread: a pack that can be stopped in the middle.
SMALL = {"codec": "flac", "shard_size": "64K", "jobs": 1}
SMALL_WORDS = ["--codec", "flac", "--shard-size", "64K", "--jobs", "1"]


def stop_at(phase):
    """Return a callback that stops in the middle of a phase."""

    def progress(at, done, total):
        if at == phase and done > total / 3:  # some shards are sealed
            raise support.Stop(f"{at} {done}")

    return progress


def environment(**variables):
    """Replace all environment variables."""
    return unittest.mock.patch.dict(os.environ, variables, clear=True)


class PackTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.corpus = support.make_corpus("pack-corpus", 200)
        cls.long = support.make_corpus("long-corpus", 600, 300)

    def setUp(self):
        self.output = support.work_dir() / f"{self.id().split('.')[-1]}.spsh"
        self.addCleanup(shutil.rmtree, self.output, True)

    def packed_by_command(self, corpus, *options):
        path = support.work_dir() / "by-command.spsh"
        shutil.rmtree(path, True)
        support.command("pack", corpus, "-o", path, "--quiet", *options)
        return support.tree(path)

    def test_bytes_are_those_of_the_command(self):
        table = support.work_dir() / "table.tsv"
        wavs = sorted(self.corpus.rglob("*.wav"))
        rows = [f"{w}\t{n}\t{'test' if n % 5 == 0 else 'train'}\n" for n, w in enumerate(wavs)]
        table.write_text("path\tclass\tsplit\n" + "".join(rows), encoding="utf-8")
        cases = [
            ({}, []),
            ({"codec": "pcm", "shard_size": 65536}, ["--codec", "pcm", "--shard-size", "65536"]),
            ({"codec": "flac", "dedupe": "none"}, ["--codec", "flac", "--dedupe", "none"]),
            ({"rate": 16000, "order": "source"}, ["--rate", "16000", "--order", "source"]),
            ({"domain": "made"}, ["--domain", "made"]),
            ({"memory": "32M", "jobs": 3}, ["--memory", "32M", "-j", "3"]),
        ]
        tables = [
            ({"split": ["test"], "column": "text=class"},
             ["--split", "test", "--column", "text=class"]),
            ({"split": "test,train", "column": ["text=class"], "trust_headers": True},
             ["--split", "test,train", "--column", "text=class", "--trust-headers"]),
        ]
        for corpus, some in ((self.corpus, cases), (table, tables)):
            for keywords, words in some:
                with self.subTest(keywords):
                    report = speechshard.pack(corpus, self.output, **keywords)
                    self.assertEqual(
                        support.tree(self.output), self.packed_by_command(corpus, *words)
                    )
                    self.assertTrue(report.ok)
                    shutil.rmtree(self.output)

    def test_report_has_the_numbers_of_the_command(self):
        report = speechshard.pack([str(self.corpus)], str(self.output).encode(), codec="pcm")
        totals = json.loads((self.output / "reports/pack.json").read_text(encoding="utf-8"))
        totals = {k: v for k, v in totals.items() if isinstance(v, (int, float))}
        for name in totals.keys() & vars(report).keys():
            self.assertEqual(getattr(report, name), totals[name], name)
        self.assertGreater(len(totals.keys() & vars(report).keys()), 15)
        self.assertEqual(report.rows_in, 200)
        self.assertGreater(report.duplicates, 0)
        info = json.loads(support.command("info", "--json", self.output))
        self.assertEqual(report.dataset_id, info["dataset_id"])
        self.assertEqual(report.output, str(self.output))
        self.assertEqual([s.rows_in for s in report.sources], [200])
        self.assertEqual(report.sources[0].corpus, str(self.corpus))
        self.assertEqual(sum(kind.utterances for kind in report.audio), 200)
        self.assertEqual(report.percentiles.keys(), {1, 25, 50, 75, 99})
        self.assertLessEqual(report.percentiles[99], report.max_seconds)
        self.assertTrue(repr(report).startswith("PackReport(output='"), repr(report))
        self.assertEqual(pickle.loads(pickle.dumps(report)), report)
        again = speechshard.pack(self.corpus, self.output, codec="pcm")
        self.assertTrue(again.already_packed and again.ok)
        self.assertEqual(again.packed, 200)

    def test_rejects(self):
        corpus = support.work_dir() / "rejects"
        shutil.copytree(self.corpus, corpus)
        self.addCleanup(shutil.rmtree, corpus)
        for wav in sorted(corpus.rglob("*.wav"))[:20]:
            wav.write_bytes(wav.read_bytes()[:20])
        report = speechshard.pack(corpus, self.output, max_rejects="5%")
        self.assertEqual((report.rejected, report.packed), (20, 180))
        self.assertTrue(report.too_many_rejects and not report.ok and not report.withheld)
        self.assertEqual(sum(reject.rows for reject in report.rejects), 20)
        shutil.rmtree(self.output)
        self.assertTrue(speechshard.pack(corpus, self.output, max_rejects=10.0).ok)
        shutil.rmtree(self.output)
        report = speechshard.pack(corpus, self.output, strict=True)
        self.assertTrue(report.withheld and not report.ok)
        self.assertFalse((self.output / "manifest.spsh").exists())

    # ---- progress, cancelation ----

    def test_progress(self):
        seen = []
        caller = threading.get_ident()

        def progress(phase, done, total):
            self.assertEqual(threading.get_ident(), caller)
            seen.append((phase, done, total))

        speechshard.pack(self.corpus, self.output, progress=progress)
        phases = list(dict.fromkeys(phase for phase, _, _ in seen))
        self.assertEqual(phases[:3], ["scan", "pack", "merge"])
        for phase in phases:
            counts = [done for at, done, _ in seen if at == phase]
            self.assertEqual(counts, sorted(counts))
        last = [event for event in seen if event[0] == "pack"][-1]
        self.assertEqual(last[1], last[2])

    def test_an_exception_stops_it_and_the_same_call_resumes(self):
        want = self.packed_by_command(self.long, *SMALL_WORDS)

        def stopped():
            shutil.rmtree(self.output, True)
            speechshard.pack(self.long, self.output, progress=stop_at("pack"), **SMALL)

        support.stop_in_the_middle(self, stopped, self.output / "manifest.spsh")
        self.assertTrue(any((self.output / ".pack").glob("unit-*/*.spsh")), "there is nothing to resume")
        speechshard.pack(self.long, self.output, **SMALL)
        self.assertEqual(support.tree(self.output), want)

    def test_an_interrupt_stops_it_and_the_command_resumes(self):
        """SIGINT comes from outside, to a process whose callback has shown that it packs."""
        want = self.packed_by_command(self.long, *SMALL_WORDS)
        program = (
            "import sys, time, speechshard\n"
            "def progress(phase, done, total):\n"
            "    if phase == 'pack' and done > 0:\n"
            "        print(phase, flush=True)\n"
            "        while True:\n"
            "            time.sleep(1)\n"  # until the signal
            f"speechshard.pack(sys.argv[1], sys.argv[2], progress=progress, **{SMALL!r})\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", program, self.long, self.output],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.assertEqual(child.stdout.readline(), "pack\n")
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate()
        self.assertEqual(child.returncode, -signal.SIGINT)
        self.assertIn("KeyboardInterrupt", errors)
        support.command("pack", self.long, "-o", self.output, "--quiet", *SMALL_WORDS)
        self.assertEqual(support.tree(self.output), want)

    def test_an_interrupt_while_no_callback_runs(self):
        """The pack waits for a pipe, which gets the rest only after the signal was handled."""
        archive = support.work_dir() / "interrupted.tar"
        subprocess.run(["tar", "-cf", archive, "-C", self.corpus, "."], check=True)
        data = archive.read_bytes()
        program = (
            "import signal, sys, speechshard\n"
            "def handle(number, frame):\n"
            "    print('handled', flush=True)\n"
            "    raise KeyboardInterrupt\n"
            "signal.signal(signal.SIGINT, handle)\n"
            "speechshard.pack('-', sys.argv[1])\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", program, self.output],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        child.stdin.write(data[: len(data) // 2])  # more than a pipe holds: the pack is reading it
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.stdout.readline(), b"handled\n")
        _, errors = child.communicate(data[len(data) // 2 :])
        self.assertIn(b"KeyboardInterrupt", errors)
        self.assertFalse((self.output / "manifest.spsh").exists())

    def test_a_signal_handler_may_stop_it(self):
        """The calling thread checks for signals without a progress callback, too."""

        def on_alarm(number, frame):
            raise support.Stop("alarm")

        before = signal.signal(signal.SIGALRM, on_alarm)
        self.addCleanup(signal.signal, signal.SIGALRM, before)

        def log(level, text):
            if "utterances to pack" in text:
                signal.raise_signal(signal.SIGALRM)

        def stopped():
            shutil.rmtree(self.output, True)
            speechshard.pack(self.long, self.output, log=log, **SMALL)

        support.stop_in_the_middle(self, stopped, self.output / "manifest.spsh")

    def test_other_threads_run_meanwhile(self):
        """Packing waits in its callback until another thread has done something."""
        begun, counted = threading.Event(), threading.Event()
        counts = []

        def count():
            begun.wait(60)
            for number in range(1000):
                counts.append(number)
            counted.set()

        other = threading.Thread(target=count)
        other.start()
        speechshard.pack(self.corpus, self.output,
                         progress=lambda *_: (begun.set(), counted.wait(60)))  # fmt: skip
        other.join()
        self.assertTrue(counted.is_set())
        self.assertEqual(len(counts), 1000)

    def test_the_interpreter_lock_is_released(self):
        """Pack reads a pipe that a thread of this process feeds. If pack held the lock, neither
        would end."""
        archive = support.work_dir() / "corpus.tar"
        subprocess.run(["tar", "-cf", archive, "-C", self.corpus, "."], check=True)
        program = (
            "import os, sys, threading, speechshard\n"
            "reader, writer = os.pipe()\n"
            "os.dup2(reader, 0)\n"
            "data = open(sys.argv[1], 'rb').read()\n"
            "def feed():\n"
            "    with os.fdopen(writer, 'wb') as stream:\n"
            "        for at in range(0, len(data), 4096):\n"
            "            stream.write(data[at : at + 4096])\n"
            "thread = threading.Thread(target=feed)\n"
            "thread.start()\n"
            "print(speechshard.pack('-', sys.argv[2]).packed)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, archive, self.output],
            stdout=subprocess.PIPE, text=True, timeout=240, check=True,
        )  # fmt: skip
        self.assertEqual(done.stdout, "200\n")
        self.assertGreater(archive.stat().st_size, 65536, "the pipe must fill")

    def test_two_threads_pack_at_the_same_time(self):
        outputs = [support.work_dir() / f"thread-{n}.spsh" for n in range(2)]
        both = threading.Barrier(2)
        failures = []

        def work(output):
            arrived = []

            def progress(*_):
                if not arrived:
                    arrived.append(both.wait(60))

            try:
                speechshard.pack(self.corpus, output, progress=progress)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(output,)) for output in outputs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(support.tree(outputs[0]), support.tree(outputs[1]))

    def test_bar(self):
        try:
            import tqdm  # noqa: F401
        except ImportError:
            with self.assertWarnsRegex(RuntimeWarning, "pip install tqdm"):
                speechshard.pack(self.corpus, self.output, progress=True)
            return
        program = (
            "import sys, speechshard; speechshard.pack(sys.argv[1], sys.argv[2], progress=True)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, self.corpus, self.output],
            stderr=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        self.assertIn("pack: 100%", done.stderr)

    def test_log(self):
        twice = support.work_dir() / "twice"
        shutil.copytree(self.corpus, twice / "a")
        self.addCleanup(shutil.rmtree, twice)
        said = []
        speechshard.pack(twice, self.output, log=lambda level, text: said.append((level, text)))
        self.assertTrue(all(level in (20, 30, 40) for level, _ in said), said)
        self.assertTrue(any("folder" in text for _, text in said), said)
        shutil.rmtree(self.output)
        with self.assertLogs("speechshard", logging.INFO) as logged:
            speechshard.pack(twice, self.output)
        self.assertEqual([r.getMessage() for r in logged.records], [text for _, text in said])

    # ---- errors ----

    def test_wrong_arguments(self):
        def refused(error, text, *args, **keywords):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                speechshard.pack(*args, **keywords)

        both = (self.corpus, self.output)
        refused(TypeError, r"no keyword 'shard_siz'; did you mean 'shard_size'\?", *both,
                shard_siz="1G")  # fmt: skip
        refused(TypeError, r"no keyword 'xyzzy'; help\(speechshard.pack\)", *both, xyzzy=1)
        refused(TypeError, "needs the argument 'output'", self.corpus)
        refused(TypeError, "takes 2 positional arguments but 3", *both, "pcm")
        refused(TypeError, "two values for 'output'", *both, output="x")
        refused(TypeError, "jobs must be an integer", *both, jobs="2")
        refused(TypeError, "progress must be True", *both, progress=3)
        refused(TypeError, "layout must be str", *both, layout=3)
        refused(ValueError, 'not \'fla\'; did you mean "flac"', *both, codec="fla")
        refused(ValueError, "jobs must be 1 to 1024", *both, jobs=-1)
        refused(ValueError, "shard_size must be bytes, or a size", *both, shard_size="1X")
        refused(ValueError, "shard_size must be 65536 to", *both, shard_size="1K")
        refused(ValueError, "max_rejects must be a percentage", *both, max_rejects="200%")
        refused(ValueError, 'did you mean "librispeech"', *both, layout="librispech")
        refused(speechshard.InvalidArgumentError, 'rate .* codec="keep"', *both, rate=16000,
                codec="keep")  # fmt: skip
        refused(speechshard.InvalidArgumentError, "column: 'x=y'", *both, column="x=y")
        self.assertFalse(self.output.exists())

    def test_errors_name_the_file(self):
        missing = support.work_dir() / "missing"
        with self.assertRaisesRegex(speechshard.NotFoundError, str(missing)) as caught:
            speechshard.pack(missing, self.output)
        self.assertEqual(caught.exception.status, "SPSH_E_NOT_FOUND")
        speechshard.pack(self.corpus, self.output)
        with self.assertRaisesRegex(speechshard.Error, str(self.output)) as caught:
            speechshard.pack(self.corpus, self.output, codec="pcm")
        self.assertEqual(caught.exception.status, "SPSH_E_EXISTS")

    def test_a_damaged_archive(self):
        archive = support.work_dir() / "damaged.tar.gz"
        subprocess.run(["tar", "-czf", archive, "-C", self.corpus, "."], check=True)
        archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
        with self.assertRaisesRegex(speechshard.CorruptError, "max_rejects=100; .*damaged.tar.gz: the file ends too"):
            speechshard.pack(archive, self.output)
        self.assertGreater(speechshard.pack(archive, self.output, max_rejects=100).packed, 0)

    # ---- parts ----

    def test_parts_and_merge(self):
        want = self.packed_by_command(self.long, *SMALL_WORDS)
        report = speechshard.pack(self.long, self.output, plan_only=True, **SMALL)
        self.assertTrue(report.share)
        self.assertGreater(report.units, 1)
        with self.assertRaisesRegex(speechshard.NotFoundError, f"{report.units} of {report.units} units are not packed"):
            speechshard.merge(self.output)
        report = speechshard.pack(self.long, self.output, part="1/2", **SMALL)
        self.assertTrue(report.share and report.ok)
        self.assertEqual((report.units_packed, report.units_taken_over, report.units_left), (report.units, 0, 0))
        report = speechshard.merge(self.output, lease=5)
        self.assertFalse(report.share)
        self.assertEqual(support.tree(self.output), want)
        self.assertTrue(speechshard.merge(self.output).already_packed)
        shutil.rmtree(self.output)
        speechshard.pack(self.long, self.output, part="0/2", merge=True, **SMALL)
        self.assertEqual(support.tree(self.output), want)

    def test_parts_of_processes_of_mpirun(self):
        want = self.packed_by_command(self.long, *SMALL_WORDS)
        for rank in "1", "0":
            with environment(OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE="2"):
                report = speechshard.pack(self.long, self.output, part="auto", **SMALL)
            self.assertTrue(report.share and report.ok)
        speechshard.merge(self.output, lease=5)
        self.assertEqual(support.tree(self.output), want)

    def test_wrong_parts(self):
        for part in "2/2", "1", "1/2/3", "-1/2":
            with self.assertRaisesRegex(ValueError, f"part {part}: not a part: '0/4' is the first"):
                speechshard.pack(self.corpus, self.output, part=part)
        with self.assertRaisesRegex(ValueError, "part and plan_only exclude each other"):
            speechshard.pack(self.corpus, self.output, part="0/2", plan_only=True)

    # ---- help ----

    def test_keywords_are_the_options_of_the_commands(self):
        elsewhere = {  # not available in Python, or an option of another function
            "audit": {"check"},
            "pack": {"print_launch"},
            "train": {"estimate", "make_vocab", "vocab_kind", "vocab_profile", "vocab_symbols"},
        }
        names = "pack", "merge", "dedupe", "audit", "verify", "explain", "apply", "revert", "featgen", "train"
        for name in names:
            with self.subTest(name):
                function = getattr(speechshard, name)
                text = support.command(name, "--help").decode()
                options = {o.replace("-", "_") for o in re.findall(r"^ +(?:-\w, )?--([a-z-]+)", text, re.M)}
                options -= {"json", "quiet", "verbose", "help", "version"} | elsewhere.get(name, set())
                self.assertLessEqual(options, inspect.signature(function).parameters.keys())
                self.assertGreater(len(inspect.getdoc(function)), 100)


class SpeechTest(unittest.TestCase):
    """Real speech."""

    def test_librispeech(self):
        corpus = support.data_or_skip(self, "librispeech-351")
        by_command, by_us = support.work_dir() / "l.spsh", support.work_dir() / "p.spsh"
        support.command("pack", corpus, "-o", by_command, "--quiet", "--codec", "pcm")
        report = speechshard.pack(corpus, by_us, codec="pcm")
        self.assertEqual(support.tree(by_us), support.tree(by_command))
        self.assertGreater(report.seconds, 600)
        shutil.rmtree(by_command)
        shutil.rmtree(by_us)


class VerifyTest(unittest.TestCase):
    def setUp(self):
        self.whole = support.make_dataset("verified", 40)

    def damaged(self):
        path = support.work_dir() / "verify-damaged.spsh"
        shutil.copytree(self.whole, path)
        self.addCleanup(shutil.rmtree, path)
        shard = next((path / "shards").iterdir())
        data = bytearray(shard.read_bytes())
        longest = max(speechshard.Dataset(self.whole), key=lambda u: u.samples)
        pcm = memoryview(longest.audio()).tobytes()
        data[data.index(pcm) + len(pcm) // 2] ^= 1
        shard.write_bytes(data)
        return path

    def test_whole(self):
        phases = set()
        report = speechshard.verify(
            self.whole, decode=True, jobs=2, progress=lambda phase, *_: phases.add(phase)
        )
        self.assertTrue(report.ok)
        self.assertEqual((report.utterances, report.damaged, report.damage), (40, 0, []))
        self.assertEqual(phases, {"verify"})
        with speechshard.Dataset(self.whole) as dataset:
            self.assertEqual(speechshard.verify(dataset, cached=True).bytes, report.bytes)

    def test_parts(self):
        path = self.damaged()
        whole = speechshard.verify(path)
        parts = [speechshard.verify(path, part=f"{part}/2") for part in range(2)]
        self.assertEqual(sum(part.bytes for part in parts), whole.bytes)
        self.assertEqual(parts[0].damage + parts[1].damage, whole.damage)
        with self.assertRaisesRegex(ValueError, "part"):
            speechshard.verify(path, part="2/2")

    def test_parts_of_launchers_and_job_arrays(self):
        part = speechshard.verify(self.whole, part="1/2")
        for text, source, variables in (
            ("auto", "Slurm array", {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2"}),
            ("auto", "srun", {"SLURM_PROCID": "1", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"}),
            ("auto", "mpirun", {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}),
            ("auto", "pmi", {"PMI_RANK": "1", "PMI_SIZE": "2"}),
            ("auto", "SGE array", {"SGE_TASK_ID": "2", "SGE_TASK_FIRST": "1", "SGE_TASK_LAST": "2"}),
            ("auto/2", "Kubernetes Indexed Job", {"JOB_COMPLETION_INDEX": "1"}),
            ("auto/2", "PBS array", {"PBS_ARRAY_INDEX": "1"}),
        ):
            messages = []
            with self.subTest(source), environment(**variables):
                report = speechshard.verify(self.whole, part=text, log=lambda *m: messages.append(m))
                self.assertEqual(report, part)
                self.assertEqual(messages, [(logging.INFO, f"part 1/2 ({source})")])

    def test_wrong_parts_are_those_of_the_command(self):
        for text, want, variables in (
            ("2/2", "not a part: '0/4' is the first", {}),
            ("1", "not a part: '0/4' is the first", {}),
            ("auto/0", "not auto or auto/N", {}),
            ("auto/", "not auto or auto/N", {}),
            ("auto", "no variables of a job array or of a launcher are set", {}),
            ("auto/2", "no variables of a job array or of a launcher are set", {}),
            ("auto", "does not set the number of parts: give it as auto/N", {"PBS_ARRAY_INDEX": "1"}),
            ("auto/2", "the last of 2 parts is 1", {"JOB_COMPLETION_INDEX": "2"}),
            ("auto", "SLURM_ARRAY_TASK_ID is '1x', not a number", {"SLURM_ARRAY_TASK_ID": "1x"}),
            ("auto", "SGE_TASK_LAST is 'two'", {"SGE_TASK_ID": "1", "SGE_TASK_LAST": "two"}),
            ("auto/3", "3 parts are given, but the mpirun has 2",
             {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}),
        ):  # fmt: skip
            with self.subTest(text, variables=variables), environment(**variables):
                with self.assertRaises(speechshard.InvalidArgumentError) as raised:
                    speechshard.verify(self.whole, part=text)
                words = [support.COMMAND, "verify", self.whole, "--part", text]
                done = subprocess.run(words, stderr=subprocess.PIPE, encoding="utf-8")
            self.assertIn(want, str(raised.exception))
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"--{raised.exception}", done.stderr)

    def test_damage_is_what_the_command_finds(self):
        path = self.damaged()
        report = speechshard.verify(path)
        done = subprocess.run([support.COMMAND, "verify", "--json", path], stdout=subprocess.PIPE)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        want = [line for line in lines if line["type"] == "damage"]
        self.assertEqual(done.returncode, 1)
        self.assertFalse(report.ok)
        self.assertEqual(report.damaged, len(want))
        self.assertGreater(len(want), 0)
        for damage, line in zip(report.damage, want):
            self.assertEqual(damage.file, line["file"])
            self.assertEqual(damage.part, line["part"])
            self.assertEqual(damage.offset, line["offset"])
            self.assertEqual(damage.message, line["message"])
        summary = next(line for line in lines if line["type"] == "summary")
        for name in ("files", "bytes", "blocks", "recordings", "utterances", "damaged"):
            self.assertEqual(getattr(report, name), summary[name], name)

    def test_errors(self):
        with self.assertRaisesRegex(speechshard.NotFoundError, "nowhere.spsh"):
            speechshard.verify("nowhere.spsh")
        with self.assertRaisesRegex(TypeError, "did you mean 'decode'"):
            speechshard.verify(self.whole, decod=True)
        with self.assertRaises(support.Stop):
            speechshard.verify(self.whole, progress=stop_at("verify"))


if __name__ == "__main__":
    assert Path(speechshard.__file__).is_relative_to(os.environ.get("PYTHONPATH", "/"))
    support.main()
