"""Features and augmentation in speechshard.Loader, and speechshard.Featgen."""

import array
import unittest

import support  # first: it skips where the package is missing
import speechshard


def digest(batch):
    return batch.ids, batch.frames.tolist(), bytes(memoryview(batch.features))


class FeaturesTest(unittest.TestCase):
    def setUp(self):
        self.path = support.make_dataset("plain", 40)
        self.dataset = speechshard.Dataset(self.path)

    def loader(self, **options):
        defaults = {"max_padded_seconds": 1.2, "seed": 7, "features": "kaldi-fbank"}
        return speechshard.Loader(self.dataset, **{**defaults, **options})

    def test_shapes(self):
        seen = 0
        for batch in self.loader(features="kaldi-fbank,mel_count=40", feature_padding=-5.5):
            rows, frames = batch.features, batch.frames.tolist()
            self.assertEqual(rows.shape, (len(batch), max(frames), 40))
            self.assertEqual(rows.dtype, "float32")
            self.assertEqual((batch.sample_rate_hz, batch.channels), (16000, 1))
            for i, count in enumerate(frames):
                samples = batch.lengths[i]
                self.assertEqual(count, 0 if samples < 400 else 1 + (samples - 400) // 160)
                self.assertEqual(batch.utterance(i).shape, (count, 40))
                self.assertEqual(batch.utterance(i).tolist(), rows[i][:count].tolist())
                for row in rows[i][count:].tolist():
                    self.assertEqual(row, [-5.5] * 40)
                self.assertEqual(batch.offsets[i], i * max(frames) * 40)
                seen += 1
            with self.assertRaisesRegex(AttributeError, "batch.features"):
                batch.audio
        self.assertEqual(seen, len(self.dataset))

    def test_they_are_those_of_featgen(self):
        audio = self.loader(features=None, sample_rate_hz=16000)
        featgen = speechshard.Featgen("whisper-logmel")
        for want, batch in zip(audio, self.loader(features="whisper-logmel")):
            self.assertEqual(batch.ids, want.ids)
            self.assertEqual(want.frames.tolist(), [0] * len(want))
            with self.assertRaises(AttributeError):
                want.features
            for i in range(len(batch)):
                rows = featgen.compute(want.utterance(i))
                self.assertEqual(bytes(rows), bytes(batch.utterance(i)))

    def test_halves(self):
        singles = self.loader()
        for want, batch in zip(singles, self.loader(feature_dtype="float16")):
            self.assertEqual(batch.features.dtype, "float16")
            self.assertEqual(batch.features.shape, want.features.shape)
            self.assertEqual(memoryview(batch.features).format, "e")
            got, expected = batch.features.tolist(), want.features.tolist()
            for row, other in zip(got[0], expected[0]):
                for a, b in zip(row, other):
                    self.assertLessEqual(abs(a - b), abs(b) / 2048 + 1e-6)
            self.assertEqual(batch.features[0][0][3], got[0][0][3])
            self.assertEqual(batch.features[0][::2].tolist(), got[0][::2])

    def test_numpy_and_dlpack(self):
        numpy = support.numpy_or_skip(self)
        for dtype in ("float32", "float16"):
            batch = next(iter(self.loader(feature_dtype=dtype)))
            view = batch.features.numpy()
            self.assertEqual((view.dtype, view.shape), (dtype, batch.features.shape))
            other = numpy.from_dlpack(batch.features)
            self.assertEqual(other.dtype, dtype)
            view[0, 0, 0] = 42
            self.assertEqual(other[0, 0, 0], 42)
            self.assertEqual(batch.features[0][0][0], 42)
            numpy.testing.assert_array_equal(view, other)
            numpy.testing.assert_array_equal(view.astype("f4"), numpy.array(batch.features.tolist()))

    def test_kept_batches_are_copied(self):
        kept = list(self.loader(slots=2))
        self.assertGreater(len(kept), 4)
        for want, batch in zip(self.loader(), kept):
            self.assertEqual(digest(batch), digest(want))

    def test_augmented(self):
        options = {
            "augment": "speeds=0.9:1:1.1,noise_probability=0.5,noise_snr_db_max=20,"
            "room_probability=0.5,time_masks=2,time_mask_frames_max=5",
            "noise": self.path,
            "rooms": [self.dataset],
        }
        plain = {i: n for b in self.loader() for i, n in zip(b.ids, b.lengths.tolist())}
        epochs = []
        for threads in (1, 3):
            loader = self.loader(threads=threads, **options)
            epochs.append([[digest(batch) for batch in loader] for _ in range(2)])
        self.assertEqual(epochs[0], epochs[1])
        self.assertNotEqual(sorted(epochs[0][0]), sorted(epochs[0][1]))
        loader = self.loader(**options)
        speeds = set()
        for number, batch in enumerate(loader):
            for name, samples in zip(batch.ids, batch.lengths.tolist()):
                speeds.add(round(samples / plain[name], 1))
            if number == 3:
                break
        self.assertEqual(speeds, {0.9, 1.0, 1.1})
        other = self.loader(threads=2, **options)
        other.load_state_dict(loader.state_dict())
        self.assertEqual([digest(b) for b in other], [digest(b) for b in loader])
        audio = self.loader(features=None, augment="gain_probability=1,gain_db_min=-6")
        self.assertEqual(next(iter(audio)).audio.dtype, "int16")

    def test_stats(self):
        loader = self.loader()
        for _ in loader:
            pass
        self.assertGreater(loader.stats["feature_cpu_ns"], 0)
        self.assertEqual(loader.stats["bad_sounds"], 0)

    def test_wrong_options(self):
        for options, words in (
            ({"features": "kaldi-fbnk"}, "kaldi-fbank"),
            ({"features": "kaldi-fbank,mel_count=0"}, "mel_count"),
            ({"features": 3}, "features must be str"),
            ({"augment": "speed=0.9"}, "speeds"),
            ({"augment": "noise_probability=0.5"}, "noise"),
            ({"noise": self.path}, "noise_probability"),
            ({"feature_dtype": "int8"}, "float16"),
            ({"feature_padding": "x"}, "feature_padding"),
            ({"output": "int16"}, "audio"),
            ({"output": "features", "features": None}, "features is NULL"),
            ({"channel": "all"}, "one channel"),
            ({"noise": 7}, "datasets must be"),
        ):
            with self.subTest(options), self.assertRaisesRegex((ValueError, TypeError), words):
                self.loader(**options)
        with self.assertRaises(speechshard.NotFoundError):
            self.loader(augment="noise_probability=1", noise="missing.spsh")


class FeatgenTest(unittest.TestCase):
    def test_compute(self):
        featgen = speechshard.Featgen("kaldi-fbank,mel_count=23")
        self.assertEqual((featgen.dim, featgen.sample_rate_hz), (23, 16000))
        self.assertIn("mel_count=23", featgen.features)
        ints = array.array("h", [(n * 7919) % 20011 - 10000 for n in range(1600)])
        rows = featgen.compute(ints)
        self.assertEqual((rows.shape, rows.dtype), ((8, 23), "float32"))
        floats = array.array("f", [value / 32768 for value in ints])
        self.assertEqual(bytes(featgen.compute(floats)), bytes(rows))
        self.assertEqual(featgen.compute(ints[:100]).shape, (0, 23))
        self.assertEqual(speechshard.Featgen(featgen.features).features, featgen.features)
        for wrong in (array.array("d", [1.0]), b"12", 3, memoryview(bytes(8)).cast("h", (2, 2))):
            with self.assertRaises(TypeError):
                featgen.compute(wrong)
        with self.assertRaisesRegex(ValueError, "kaldi-fbank"):
            speechshard.Featgen("kaldi-fbnk")
        with self.assertRaises(ValueError):
            speechshard.Featgen("kaldi-fbank,norm=speaker").compute(ints)


if __name__ == "__main__":
    support.main()
