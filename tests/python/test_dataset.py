"""speechshard.Dataset: a sequence of utterances, found by id as well."""

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


if __name__ == "__main__":
    support.main()
