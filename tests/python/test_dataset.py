"""speechshard.Dataset: a sequence of utterances, with lookup by id."""

import json
import pickle
import shutil
import subprocess
import threading
import unittest
import wave

import support  # first: it skips where the package is missing
import speechshard


class DatasetTest(unittest.TestCase):
    def setUp(self):
        self.path = support.make_dataset("plain", 40)

    def listed(self):
        command = [support.COMMAND, "ls", "--json", self.path]
        return [json.loads(line) for line in subprocess.check_output(command).splitlines()]

    def test_utterances_are_those_that_ls_shows(self):
        with speechshard.Dataset(self.path) as dataset:
            listed = self.listed()
            self.assertEqual(len(dataset), len(listed))
            for position, (utterance, want) in enumerate(zip(dataset, listed)):
                self.assertEqual(utterance.position, position)
                self.assertEqual(utterance.id, want["id"])
                self.assertEqual(utterance.text, want["text"])
                self.assertEqual(utterance.domain, want["domain"])
                self.assertEqual(utterance.sample_rate_hz, want["sample_rate_hz"])
                self.assertEqual(utterance.channels, want["channels"])
                self.assertEqual(utterance.samples, want["samples"])
                self.assertEqual(utterance.split, want["split"] or "")
                self.assertEqual(utterance.speaker, want["speaker"] or "")
                self.assertEqual(utterance.language, want["language"] or "")
                self.assertEqual(utterance.document, want["document"] or "")
                self.assertEqual(utterance.source, want["source"])
                self.assertEqual(utterance.extras, want["extras"])
                seconds = want["samples"] / want["sample_rate_hz"]
                self.assertEqual(utterance.duration, seconds)

    def test_info_says_what_the_command_says(self):
        command = [support.COMMAND, "info", "--json", self.path]
        want = json.loads(subprocess.check_output(command))
        info = speechshard.Dataset(self.path).info
        for key in set(info) - {"seconds", "domains", "languages", "sample_rates"}:
            if key != "splits":
                self.assertEqual(info[key], want[key], key)
        self.assertAlmostEqual(info["seconds"], want["seconds"])
        self.assertEqual(info["domains"][0]["utterances"], want["utterances"])
        rates = {str(rate): count for rate, count in info["sample_rates"].items()}
        self.assertEqual(rates, want["sample_rates"])
        self.assertEqual(info["splits"], want["splits"] or {"": want["utterances"]})

    def test_skipped(self):
        path = support.work_dir() / "skips.spsh"
        shutil.copytree(self.path, path)
        ids = [utterance.id for utterance in speechshard.Dataset(path)]
        listed = support.work_dir() / "skips.tsv"
        listed.write_text(f"{ids[3]}\tnoise\n{ids[-1]}\n", encoding="utf-8")
        overlay = [support.COMMAND, "overlay", path, "add", "skips", "--skip", listed, "--quiet"]
        subprocess.run(overlay, check=True)
        dataset = speechshard.Dataset(path)
        self.assertEqual([u.skipped for u in dataset], [i in (ids[3], ids[-1]) for i in ids])
        counts = {"utterances": 40, "served": 38, "skipped": 2}
        self.assertEqual((len(dataset), dataset.served, dataset.skipped), tuple(counts.values()))
        self.assertEqual({key: dataset.info[key] for key in counts}, counts)
        self.assertEqual(speechshard.Loader(dataset, max_seconds=600).plan["utterances"], 38)
        info = json.loads(subprocess.check_output([support.COMMAND, "info", "--json", path]))
        self.assertEqual({key: info[key] for key in counts}, counts)
        with speechshard.Dataset(self.path) as plain:
            self.assertEqual((plain.served, plain.skipped, plain[3].skipped), (40, 0, False))
        self.assertRaises(ValueError, lambda: plain.served)

    def test_audio_is_that_of_cat(self):
        dataset = speechshard.Dataset(self.path)
        out = support.work_dir() / "out.wav"
        for utterance in dataset:
            subprocess.run([support.COMMAND, "cat", self.path, utterance.id, "-o", out], check=True)
            with wave.open(str(out)) as wav:
                want = wav.readframes(wav.getnframes())
            out.unlink()
            audio = utterance.audio()
            self.assertEqual(memoryview(audio).tobytes(), want)
            shape = (utterance.samples,)
            self.assertEqual(audio.shape, shape if utterance.channels == 1 else (*shape, 2))
            self.assertEqual(audio.dtype, "int16")

    def test_float_audio_has_full_scale_one(self):
        dataset = speechshard.Dataset(self.path)
        for utterance in (dataset[0], dataset[7], dataset[-1]):
            pcm = memoryview(utterance.audio()).cast("B").cast("h")
            real = memoryview(utterance.audio(dtype="float32")).cast("B").cast("f")
            self.assertEqual([value / 32768 for value in pcm], list(real))

    def test_lookup(self):
        dataset = speechshard.Dataset(self.path)
        last = dataset[-1]
        self.assertEqual(last.position, len(dataset) - 1)
        self.assertEqual(dataset[last.id].position, last.position)
        self.assertIn(last.id, dataset)
        self.assertNotIn("nobody", dataset)
        self.assertNotIn(7, dataset)
        for index in (len(dataset), -len(dataset) - 1, 2**70):
            with self.assertRaises(IndexError):
                dataset[index]
        with self.assertRaises(TypeError):
            dataset[1.0]
        with self.assertRaises(KeyError) as caught:
            dataset["nobody"]
        self.assertIsInstance(caught.exception, speechshard.NotFoundError)
        self.assertIn("nobody", str(caught.exception))
        self.assertEqual(caught.exception.status, "SPSH_E_NOT_FOUND")

    def test_what_is_no_dataset(self):
        with self.assertRaises(speechshard.NotFoundError) as caught:
            speechshard.Dataset(support.work_dir() / "missing")
        self.assertIn("missing", str(caught.exception))
        with self.assertRaises(speechshard.Error):
            speechshard.Dataset(str(support.work_dir()))
        for wrong in (None, 7):
            with self.assertRaises(TypeError):
                speechshard.Dataset(wrong)
        with self.assertRaises(ValueError):
            speechshard.Dataset("a\0b")
        with self.assertRaises(TypeError):
            speechshard.Dataset()
        for kind in (speechshard.Utterance, speechshard.Array, speechshard.Batch):
            with self.assertRaises(TypeError):
                kind()

    def test_closed(self):
        dataset = speechshard.Dataset(self.path)
        utterance = dataset[0]
        audio = utterance.audio()
        want = audio.tolist()
        dataset.close()
        dataset.close()
        self.assertEqual(audio.tolist(), want)
        uses = (lambda: dataset[0], lambda: len(dataset), lambda: dataset.info, utterance.audio,
                lambda: utterance.id, dataset.__enter__, lambda: "x" in dataset)
        for use in uses:
            with self.assertRaisesRegex(ValueError, "closed"):
                use()
        self.assertIn("closed", repr(dataset))

    def test_pickle_opens_anew(self):
        dataset = pickle.loads(pickle.dumps(speechshard.Dataset(self.path)))
        self.assertEqual(len(dataset), 40)

    def test_threads(self):
        dataset = speechshard.Dataset(self.path)
        want = [(u.id, memoryview(u.audio()).tobytes()) for u in dataset]
        wrong = []

        def read():
            for _ in range(3):
                got = [(u.id, memoryview(u.audio()).tobytes()) for u in dataset]
                if got != want:
                    wrong.append(got)

        threads = [threading.Thread(target=read) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class SelectionTest(unittest.TestCase):
    def setUp(self):
        self.dataset = speechshard.Dataset(support.make_dataset("plain", 40))

    def test_slices_and_ids(self):
        everything = list(self.dataset)
        for key in (slice(3), slice(5, 25, 7), slice(None, None, -1), slice(50, 60)):
            want = [u.id for u in everything[key]]
            self.assertEqual([u.id for u in self.dataset[key]], want)
        nested = self.dataset[10:30][2:4]
        self.assertEqual((len(nested), nested[0].position, nested[-1].position), (2, 12, 13))
        with self.assertRaises(IndexError):
            nested[2]
        ids = [everything[7].id, everything[1].id]
        self.assertEqual([u.id for u in self.dataset.select(ids)], ids)
        with self.assertRaises(speechshard.NotFoundError):
            self.dataset.select(["nobody"])
        again = pickle.loads(pickle.dumps(nested))
        self.assertEqual((again.positions, again.dataset.path), ([12, 13], self.dataset.path))

    def test_filter(self):
        everything = list(self.dataset)
        long = [u.position for u in everything if u.duration > 0.1 and u.channels == 2]
        self.assertNotEqual(long, [])
        for condition in ("duration > 0.1 and channels == 2", "not (channels != 2 or duration <= 0.1)",
                          lambda u: u.duration > 0.1 and u.channels == 2):
            self.assertEqual(self.dataset.filter(condition).positions, long)
        self.assertEqual(self.dataset.filter("channels == 2").filter("duration > 0.1").positions, long)
        seventh = everything[7]
        found = self.dataset.filter(f"id in ({seventh.id!r}, 'x') and lower(text) == text")
        self.assertEqual([u.id for u in found], [seventh.id])

    def test_an_expression_can_only_compare(self):
        for expression, message in (
            ("durations > 3", "did you mean 'duration'"),
            ("__import__('os').system('true')", "not allowed|can be called"),
            ("text.upper() == 'A'", "not allowed|can be called"),
            ("[u for u in text]", "ListComp is not allowed"),
            ("(lambda: 1)()", "not allowed|can be called"),
            ("duration >", "invalid syntax"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                self.dataset.filter(expression)

    def test_extras_are_the_other_columns_of_a_table(self):
        corpus = support.work_dir() / "extras"
        corpus.mkdir()
        with wave.open(str(corpus / "a.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(bytes(1600))
        table = corpus / "table.tsv"
        table.write_text("path\ttext\taccent\tage\na.wav\tone\tüber\t30\n", encoding="utf-8")
        path = support.work_dir() / "extras.spsh"
        subprocess.run([support.COMMAND, "pack", table, "-o", path, "-q"], check=True,
                       stdout=subprocess.DEVNULL)
        dataset = speechshard.Dataset(path)
        self.assertEqual(dataset[0].extras, {"accent": "über", "age": "30"})
        self.assertEqual(len(dataset.filter("extras['accent'] == 'über'")), 1)

    def test_tables(self):
        try:
            table = self.dataset[:5].to_arrow().to_pydict()
        except ImportError:
            self.skipTest("there is no pyarrow")
        self.assertEqual(table["id"], [u.id for u in self.dataset[:5]])
        self.assertEqual(table["extras"], ["{}"] * 5)

    def test_a_notebook_shows_utterances(self):
        page = self.dataset._repr_html_()
        self.assertIn("40 utterances", page)
        self.assertIn("and 30 more", page)
        self.assertEqual(page.count("<audio"), 10)
        page = self.dataset[0]._repr_html_()
        self.assertIn("<svg", page)
        self.assertIn("<audio", page)


if __name__ == "__main__":
    support.main()
