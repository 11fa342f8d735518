"""speechshard.dedupe, apply, revert, audit, and explain: the same files as the command's,
resumable, and plain objects."""

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import unittest
import unittest.mock

import support  # first: it skips where the package is missing
import speechshard

# name -> (pieces of made speech, split, text); the extension is the codec
CLIPS = {
    "plain.flac": ("1:0:4", "train", "one two"),
    "plain-wav.wav": ("1:0:4", "train", "one two"),
    "plain-mp3.mp3": ("1:0:4", "test", "won too"),
    "whole.flac": ("2:0:6", "train", ""),
    "cut.wav": ("2:0.313:5.4", "train", ""),
    "long.flac": ("3:0:10", "train", ""),
    "part.mp3": ("3:4:3", "train", ""),
    "alone.wav": ("70:0:5", "test", "nobody else"),
    "more.wav": ("71:0:5", "test", "nobody more"),
}


def setUpModule():
    global dataset
    folder = support.work_dir() / "copies"
    folder.mkdir()
    rows = ["path\tid\tsplit\ttext\n"]
    for name, (pieces, split, text) in CLIPS.items():
        make = [support.BUILD_DIR / "tests/make_speech", folder / name, "16000", pieces]
        subprocess.run(make, check=True)
        rows.append(f"{name}\t{name}\t{split}\t{text}\n")
    (folder / "corpus.tsv").write_text("".join(rows), encoding="utf-8")
    dataset = support.work_dir() / "copies.spsh"
    speechshard.pack(folder / "corpus.tsv", dataset)


class CopyTest(unittest.TestCase):
    def setUp(self):
        self.work = support.work_dir() / self.id().split(".")[-1]
        self.work.mkdir()
        self.addCleanup(shutil.rmtree, self.work)
        self.plan = self.work / "plan.jsonl"

    def fresh(self):
        """A copy of the dataset without fingerprints."""
        path = self.work / "fresh.spsh"
        shutil.rmtree(path, True)
        shutil.copytree(dataset, path, ignore=shutil.ignore_patterns("fingerprints"))
        return path


class DedupeTest(CopyTest):
    def test_plans_are_those_of_the_command(self):
        cases = [
            ({}, []),
            ({"search": "auto"}, ["--search", "auto"]),
            ({"search": "mild"}, ["--search", "mild"]),
            ({"search": "deep", "contained": "keep-long"},
             ["--search", "deep", "--contained", "keep-long"]),
            ({"drop_from": ["train"], "keep": "longest"},
             ["--drop-from", "train", "--keep", "longest"]),
            ({"exact_only": True, "confirm": True, "memory": "64M", "jobs": 1},
             ["--exact-only", "--confirm", "--memory", "64M", "-j", "1"]),
            ({"prefer": dataset}, ["--prefer", dataset]),
        ]  # fmt: skip
        for keywords, words in cases:
            with self.subTest(keywords):
                page = self.work / "plan.html"
                report = speechshard.dedupe(dataset, self.plan, html=page, **keywords)
                other = self.work / "other.jsonl"
                said = support.command("dedupe", dataset, "-o", other, "--json", "-q", *words)
                self.assertEqual(self.plan.read_bytes(), other.read_bytes())
                self.assertFalse((self.work / "plan.jsonl.work").exists())
                self.assertIn("speechshard.dedupe(", page.read_text(encoding="utf-8"))
                self.check(report, json.loads(said))

    def check(self, report, said):
        """The report has the numbers that the command prints."""
        for name in ("datasets", "utterances", "undecodable", "keys", "candidates", "decoded",
                     "key_bits", "contour_bits", "telephone_utterances", "is_limited", "short_pairs", "plan_hash",
                     "members", "clusters_with_different_texts"):  # fmt: skip
            self.assertEqual(getattr(report, name), said[name], name)
        self.assertEqual(report.plan, str(self.plan))
        self.assertEqual(len(report.clusters), said["clusters"])
        self.assertEqual(report.dropped, said["drop"]["together"]["utterances"])
        self.assertAlmostEqual(report.dropped_seconds, said["drop"]["together"]["seconds"])
        self.assertEqual(sum(part.bytes for part in report.drop.values()), report.dropped_bytes)
        matches = [vars(match) for match in report.matches]
        self.assertEqual(matches, [
            {"kind": m["class"], "tier": m["tier"], "count": m["count"]} for m in said["matches"]
        ])  # fmt: skip

    def test_clusters(self):
        report = speechshard.dedupe(str(dataset))
        self.assertIsNone(report.plan)
        clusters = {c.members[0].id: c for c in report.clusters}
        kept = next(name for name in ("plain.flac", "plain-wav.wav") if name in clusters)
        members = clusters[kept].members
        self.assertEqual({m.id for m in members}, {"plain.flac", "plain-wav.wav", "plain-mp3.mp3"})
        self.assertEqual(members[0].decision, "keep")
        self.assertEqual({m.decision for m in members[1:]}, {"drop"})
        self.assertTrue(all(m.dataset == str(dataset) and m.reason for m in members))
        opened = speechshard.Dataset(dataset)
        self.assertEqual([opened[m.position].id for m in members], [m.id for m in members])
        self.assertTrue(clusters[kept].texts_differ)
        self.assertGreater(clusters[kept].saved_seconds, 7)
        self.assertEqual(report.clusters[-1], report.clusters[len(report.clusters) - 1])
        with self.assertRaises(IndexError):
            report.clusters[len(report.clusters)]
        self.assertIn(f"clusters=<{len(report.clusters)} clusters>", repr(report))
        again = pickle.loads(pickle.dumps(report))
        self.assertEqual(again.clusters, list(report.clusters))

    def test_several_datasets_and_splits(self):
        other = self.work / "other.spsh"
        speechshard.pack(support.work_dir() / "copies", other, codec="pcm")
        report = speechshard.dedupe(
            [speechshard.Dataset(other), f"{dataset}:train"], self.plan, prefer=[other]
        )
        self.assertEqual(report.datasets, 2)
        dropped = {m.dataset for c in report.clusters for m in c.members if m.decision == "drop"}
        self.assertIn(str(dataset), dropped)
        kept = {m.dataset for c in report.clusters for m in c.members if m.decision == "keep"}
        self.assertEqual(kept, {str(other)})

    def test_apply_and_revert(self):
        path = self.fresh()
        before = support.tree(path)
        report = speechshard.dedupe(path, self.plan)
        applied = speechshard.apply(self.plan)
        self.assertEqual((applied.datasets, applied.changed), (1, 1))
        self.assertEqual(applied.utterances, report.dropped)
        self.assertTrue(applied.overlay.startswith("dedupe-"))
        self.assertEqual(speechshard.Dataset(path).skipped, report.dropped)
        self.assertEqual(speechshard.apply(str(self.plan)).changed, 0)
        moved = self.work / "moved.spsh"
        path.rename(moved)
        with self.assertRaisesRegex(speechshard.Error, "fresh.spsh"):
            speechshard.revert(self.plan)
        self.assertEqual(speechshard.revert(self.plan, [moved]).changed, 1)
        self.assertEqual(speechshard.Dataset(moved).skipped, 0)
        after = {k: v for k, v in support.tree(moved).items() if k in before and "index" not in k}
        served = [u.id for u in speechshard.Dataset(moved) if not u.skipped]
        self.assertEqual(served, [u.id for u in speechshard.Dataset(dataset)])
        self.assertIn("manifest.spsh", after)

    def test_stop_and_resume(self):
        want = self.work / "want.jsonl"
        speechshard.dedupe(self.fresh(), want)

        def progress(stage, done, total):
            raise support.Stop(stage)

        def stopped():
            speechshard.dedupe(self.fresh(), self.plan, progress=progress)

        support.stop_in_the_middle(self, stopped, self.plan)
        stages = []
        path = self.work / "fresh.spsh"
        speechshard.dedupe(path, self.plan, progress=lambda stage, *_: stages.append(stage))
        self.assertGreater(len(set(stages)), 1)
        self.assertEqual(self.plan.read_bytes(), want.read_bytes())

    def test_interrupt(self):
        program = (
            "import sys, time, speechshard\n"
            "def progress(stage, done, total):\n"
            "    print(stage, flush=True)\n"
            "    while True:\n"
            "        time.sleep(1)\n"
            "speechshard.dedupe(sys.argv[1], sys.argv[2], progress=progress)\n"
        )
        path = self.fresh()
        child = subprocess.Popen(
            [sys.executable, "-c", program, path, self.plan],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.assertEqual(child.stdout.readline(), "fingerprint\n")
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate()
        self.assertEqual(child.returncode, -signal.SIGINT)
        self.assertIn("KeyboardInterrupt", errors)
        support.command("dedupe", path, "-o", self.plan, "-q")
        self.assertEqual(speechshard.apply(self.plan).changed, 1)

    def test_parts(self):
        """Part 1 waits for the fingerprints of the only shard, which are part 0's."""
        path, other = self.fresh(), self.work / "whole.jsonl"
        said = []
        with unittest.mock.patch.dict(os.environ, {"JOB_COMPLETION_INDEX": "1"}):
            first = speechshard.dedupe(
                path, self.plan, part="auto/2", log=lambda level, text: said.append(text)
            )
        self.assertIsNone(first)
        self.assertEqual(said[0], "part 1/2 (Kubernetes Indexed Job)")
        self.assertIn("again", said[-1])
        self.assertFalse(self.plan.exists())
        self.assertIsNotNone(speechshard.dedupe(path, self.plan, part="0/2"))
        speechshard.dedupe(path, other)
        self.assertEqual(self.plan.read_bytes(), other.read_bytes())

    def test_estimate(self):
        path = self.fresh()
        cost = speechshard.dedupe(path, self.plan, estimate=True)
        seconds = sum(utterance.duration for utterance in speechshard.Dataset(path))
        self.assertAlmostEqual(cost.train_seconds, seconds, 3)
        self.assertAlmostEqual(cost.fingerprint_seconds, seconds, 3)
        self.assertEqual(cost.test_seconds, 0)
        self.assertGreater(cost.keys, 0)
        self.assertFalse(self.plan.exists() or (path / "fingerprints").exists())
        self.assertEqual(speechshard.dedupe(path, estimate=True).train_seconds, cost.train_seconds)
        cost = speechshard.audit(f"{path}:train", f"{path}:test", self.work / "a", estimate=True)
        self.assertAlmostEqual(cost.train_seconds + cost.test_seconds, seconds, 3)
        self.assertFalse((self.work / "a").exists())

    def test_without_a_plan_nothing_stays(self):
        program = (
            "import sys, tempfile, os, speechshard\n"
            "tempfile.tempdir = sys.argv[2]\n"
            "print(speechshard.dedupe(sys.argv[1]).dropped, os.listdir(sys.argv[2]))\n"
        )
        command = [sys.executable, "-c", program, dataset, self.work]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        self.assertRegex(done.stdout, r"^[1-9]\d* \[\]$")

    def test_errors(self):
        def refused(error, text, *args, **keywords):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                speechshard.dedupe(*args, **keywords)

        refused(speechshard.NotFoundError, "nowhere.spsh", "nowhere.spsh")
        refused(speechshard.InvalidArgumentError, "no split 'trian'", f"{dataset}:trian")
        refused(speechshard.InvalidArgumentError, "none of the datasets", dataset, prefer=self.work)
        refused(speechshard.InvalidArgumentError, "excludes search", dataset, exact_only=True,
                search="deep")  # fmt: skip
        refused(speechshard.InvalidArgumentError, "part needs output", dataset, part="0/2")
        refused(ValueError, "part 2/2: not a part", dataset, self.plan, part="2/2")
        refused(ValueError, 'did you mean "longest"', dataset, keep="longst")
        refused(TypeError, "did you mean 'drop_from'", dataset, drop_form="x")
        with self.assertRaisesRegex(speechshard.CorruptError, "plan.jsonl"):
            self.plan.write_text("{}\n", encoding="utf-8")
            speechshard.apply(self.plan)

    def test_damage_names_the_remedy(self):
        path = self.fresh()
        shard = next((path / "shards").iterdir())
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 1
        shard.write_bytes(data)
        with self.assertRaises(speechshard.CorruptError) as caught:
            speechshard.dedupe(path, self.plan)
        message = str(caught.exception)
        self.assertIn(str(shard), message)
        self.assertIn(f'speechshard.verify("{path}") lists the damage', message)


class AuditTest(CopyTest):
    def audit(self, **keywords):
        return speechshard.audit(f"{dataset}:train", f"{dataset}:test", self.work / "a", **keywords)

    def by_command(self, *words):
        folder = self.work / "b"
        shutil.rmtree(folder, True)
        train, test = f"{dataset}:train", f"{dataset}:test"
        done = subprocess.run(
            [support.COMMAND, "audit", "--train", train, "--test", test, "-o", folder, "--json",
             "--quiet", *words],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return done.returncode, json.loads(done.stdout), support.tree(folder)

    def test_reports_are_those_of_the_command(self):
        cases = [
            ({}, [], False),
            ({"fail_on": "none"}, ["--fail-on", "none"], True),
            ({"fail_on": ["none", "recording=50"], "profile": "marks", "speed_grid": True},
             ["--fail-on", "none", "--fail-on", "recording=50", "--profile", "marks",
              "--speed-grid"], True),
        ]  # fmt: skip
        for keywords, words, is_good in cases:
            with self.subTest(keywords):
                report = self.audit(**keywords)
                status, summary, files = self.by_command(*words)
                self.assertEqual(support.tree(self.work / "a"), files)
                self.assertEqual(status, 0 if is_good else 1)
                self.assertEqual(report.ok, is_good)
                self.check(report, summary)
                self.assertFalse((self.work / "a.work").exists())

    def check(self, report, summary):
        (split,) = report.splits
        (want,) = summary["test"]
        self.assertEqual(split.utterances, want["utterances"])
        self.assertEqual(split.dirty, want["dirty"]["utterances"])
        for kind, leak in split.leaks.items():
            self.assertEqual(leak.utterances, want["leaks"][kind]["utterances"], kind)
            self.assertAlmostEqual(100 * leak.share, want["leaks"][kind]["percent"], 4)
        self.assertEqual(split.leaks["recording"].example.test_id, "plain-mp3.mp3")
        self.assertIn(split.leaks["recording"].example.match.tier, ("acoustic", "pcm"))
        self.assertIsNone(split.leaks["speaker"].example)
        self.assertTrue(report.warnings)

    def test_stop_and_resume(self):
        folder = self.work / "a"

        def progress(stage, done, total):
            raise support.Stop(stage)

        def audit(output, progress=None):  # stopped() makes the dataset
            path = self.work / "fresh.spsh"
            return speechshard.audit(f"{path}:train", f"{path}:test", output, progress=progress)

        def stopped():
            self.fresh()
            audit(folder, progress)

        support.stop_in_the_middle(self, stopped, folder)
        report = audit(folder)
        self.assertEqual(report.output, str(folder))
        self.assertEqual(audit(self.work / "b").splits, report.splits)
        self.assertEqual(support.tree(folder), support.tree(self.work / "b"))

    def test_parts(self):
        said = []
        for part in "0/2", "auto/2":
            log = lambda level, text: said.append(text)
            with unittest.mock.patch.dict(os.environ, {"JOB_COMPLETION_INDEX": "1"}):
                self.assertIsNone(self.audit(part=part, log=log))
        self.assertIn("part 1/2 (Kubernetes Indexed Job)", said)
        self.assertIn("without a part", said[-1])
        report = self.audit()
        self.assertIsNotNone(report)
        self.assertEqual(report.splits, self.audit().splits)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, 'did you mean "recording"'):
            self.audit(fail_on="recordin")
        with self.assertRaisesRegex(ValueError, "percentage"):
            self.audit(fail_on="recording=101")
        with self.assertRaisesRegex(TypeError, "did you mean 'fail_on'"):
            self.audit(failon="recording")
        with self.assertRaisesRegex(TypeError, "needs the argument 'output'"):
            speechshard.audit(dataset, dataset)
        with self.assertRaisesRegex(speechshard.InvalidArgumentError, "no split 'dev'"):
            speechshard.audit(f"{dataset}:train", f"{dataset}:dev", self.work / "a")


class ExplainTest(CopyTest):
    def test_it_says_what_the_command_says(self):
        ids = "plain.flac", "plain-mp3.mp3"
        why = speechshard.explain(dataset, *ids)
        want = json.loads(support.command("explain", dataset, *ids, "--json"))
        self.assertEqual((why.kind, why.tier), (want["class"], want["tier"]))
        self.assertEqual((why.verdict, why.may_drop), (want["verdict"], want["may_drop"]))
        self.assertEqual((why.a.id, why.b.id), ids)
        self.assertEqual(why.a.seconds, want["a"]["seconds"])
        self.assertEqual(why.equal_texts, want["texts"]["equal"])
        self.assertEqual([m.count for m in why.matches], [m["count"] for m in want["matches"]])
        self.assertEqual([c.what for c in why.checks], [c["what"] for c in want["checks"]])
        self.assertEqual([c.passed for c in why.checks], [c["passed"] for c in want["checks"]])

    def test_files(self):
        ids = "plain.flac", "plain-mp3.mp3"
        ours, theirs = self.work / "ours", self.work / "theirs"
        ours.mkdir()
        theirs.mkdir()
        speechshard.explain(dataset, *ids, plot=ours / "p.svg", listen=ours / "p.wav")
        support.command("explain", dataset, *ids, "--plot", theirs / "p.svg", "--listen",
                        theirs / "p.wav")  # fmt: skip
        self.assertEqual(support.tree(ours), support.tree(theirs))
        speechshard.explain(dataset, *ids, plot=ours / "page.html")
        self.assertIn("speechshard.explain(", (ours / "page.html").read_text(encoding="utf-8"))

    def test_two_datasets(self):
        other = self.work / "other.spsh"
        speechshard.pack(support.work_dir() / "copies", other, codec="pcm")
        why = speechshard.explain(dataset, "plain.flac", "alone.wav", other)
        self.assertEqual((why.a.dataset, why.b.dataset), (str(dataset), str(other)))
        self.assertEqual((why.kind, why.matches), ("none", []))

    def test_errors(self):
        with self.assertRaisesRegex(speechshard.NotFoundError, "plain.flacc"):
            speechshard.explain(dataset, "plain.flacc", "alone.wav")
        with self.assertRaises(speechshard.InvalidArgumentError):
            speechshard.explain(dataset, "plain.flac", "plain.flac")


class SpeechTest(CopyTest):
    """Real speech: digits, each recorded many times, and copies of some."""

    def test_copies_in_fsdd(self):
        data = support.data_or_skip(self, "fsdd")
        corpus = self.work / "digits"
        corpus.mkdir()
        for wav in sorted((data / "recordings").glob("*_theo_*.wav"))[:60]:
            shutil.copy(wav, corpus)
        wavs = sorted(corpus.glob("*.wav"))
        for wav in wavs[:5]:
            shutil.copy(wav, corpus / f"copy-of-{wav.name}")
        path = self.work / "digits.spsh"
        speechshard.pack(corpus, path, dedupe="none")
        report = speechshard.dedupe(path, self.plan)
        support.command("dedupe", path, "-o", self.work / "other.jsonl", "-q")
        self.assertEqual(self.plan.read_bytes(), (self.work / "other.jsonl").read_bytes())
        self.assertGreaterEqual(report.dropped, 5)
        pairs = {frozenset(m.id.split("-")[-1] for m in c.members) for c in report.clusters}
        self.assertTrue(all(frozenset([wav.stem]) in pairs for wav in wavs[:5]), pairs)


if __name__ == "__main__":
    support.main()
