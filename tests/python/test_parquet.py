"""python -m speechshard.parquet: parquet files as in Hugging Face's mirrors, and every form of an
audio column. The tests read the output as a tar. They also pack it with the command and compare
with the unpacked corpus."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path

import support
from speechshard._parquet_corpora import NameSet

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    print(f"skipped: {error}; tools/install-python.sh pyarrow installs it", file=sys.stderr)
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "layouts"))
import common_voice_fixture  # noqa: E402
import mls_fixture  # noqa: E402
import peoples_speech_fixture  # noqa: E402

MODULE = [sys.executable, "-m", "speechshard.parquet"]
STRING_AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def clip(path, seconds=0.4, rate=16000, channels=1, seed=0):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    make = [support.BUILD_DIR / "tests" / "make_clip", path, seconds, rate, channels, seed]
    subprocess.run([str(word) for word in make], check=True)
    return path


def audio_bytes(extension=".flac", seed=1):
    return clip(support.work_dir() / "clips" / f"clip-{seed}{extension}", seed=seed).read_bytes()


def write(path, rows, audio_type=STRING_AUDIO, types=(), classes=(), **options):
    """rows: dicts; columns in the order of the first. classes: {column: names}, as `datasets`
    writes."""
    names = list(rows[0])
    types = {"audio": audio_type, **dict(types)}
    arrays = [pa.array([row.get(name) for row in rows], types.get(name)) for name in names]
    features = {name: {"_type": "ClassLabel", "names": labels} for name, labels in dict(classes).items()}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})} if features else None
    schema = pa.schema([pa.field(name, array.type) for name, array in zip(names, arrays)], metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, **options)


def run(*words, check=True):
    done = subprocess.run([*MODULE, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True)
    if check and done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    return done


class Stream:
    """The output of the module, read as a tar: {id: JSON}, {id: audio}, the rejects."""

    def __init__(self, *words):
        done = run(*words)
        self.messages = done.stderr.decode()
        self.samples, self.audio, self.rejects = {}, {}, []
        self.ids, self.extensions = [], {}
        assert done.stdout.endswith(bytes(1024)) and len(done.stdout) % 512 == 0
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
            members = iter([(m.name, tar.extractfile(m).read()) for m in tar])
        for name, data in members:
            info = json.loads(data)
            if "reject" in info:
                self.rejects.append(
                    (info["reject"]["reason"], info.get("id"), info["source"], info["reject"]["rows"])
                )
                continue
            key = info.pop("id")
            audio_name, audio = next(members)
            assert name.endswith(".json") and audio_name.split(".")[0] == name[: -len(".json")]
            self.ids.append(key)
            self.samples[key], self.audio[key] = info, audio
            self.extensions[key] = audio_name.split(".")[1]

    def reasons(self):
        return sorted((reason, rows) for reason, _, _, rows in self.rejects)


class ParquetTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.root = support.work_dir() / self.id().split(".")[-1]
        self.root.mkdir()

    def rows(self, count, first=0, **more):
        return [
            {
                "id": f"u{i}",
                "audio": {"bytes": audio_bytes(seed=i), "path": f"u{i}.flac"},
                "text": f"text {i}",
                **more,
            }
            for i in range(first, first + count)
        ]


class AudioColumns(ParquetTest):
    def test_bytes_and_path_in_any_order_with_large_types(self):
        rows = self.rows(3)
        forms = {
            "a": STRING_AUDIO,
            "b": pa.struct([("path", pa.large_string()), ("bytes", pa.large_binary())]),
            "c": pa.struct(
                [("sampling_rate", pa.int32()), ("path", pa.string()), ("bytes", pa.binary())]
            ),
        }
        for name, form in forms.items():
            write(self.root / name / "train.parquet", rows, form)
            stream = Stream(self.root / name)
            self.assertEqual(stream.ids, ["u0", "u1", "u2"])
            self.assertEqual(stream.audio["u2"], audio_bytes(seed=2))
            self.assertEqual(
                stream.samples["u1"],
                {"text": "text 1", "split": "train", "extras": {}, "source": "train.parquet#1"},
            )

    def test_bytes_alone_and_a_name_from_the_row(self):
        for name, form in (("binary", pa.binary()), ("large", pa.large_binary())):
            rows = [
                {"audio": audio_bytes(ext, 10 + i), "sentence": "x"}
                for i, ext in enumerate((".wav", ".flac", ".mp3", ".opus", ".ogg"))
            ]
            write(self.root / name / "dev-00000-of-00001.parquet", rows, form)
            stream = Stream(self.root / name)
            self.assertEqual(list(stream.extensions.values()), ["wav", "flac", "mp3", "opus", "ogg"])
            self.assertEqual(stream.ids[3], "dev-00000-of-00001#3")

    def test_paths_to_files_are_found_or_reported(self):
        clip(self.root / "clips" / "a.wav", seed=20)
        clip(self.root / "data" / "b.wav", seed=21)
        os.mkfifo(self.root / "fifo.wav")
        paths = [
            "a.wav",
            "b.wav",
            "gone.wav",
            "https://example.org/c.wav",
            None,
            "fifo.wav",
            str(self.root / "data" / "b.wav"),
            "nul\0.wav",
        ]
        for name, rows, form in (
            ("struct", [{"audio": {"bytes": None, "path": p}} for p in paths], STRING_AUDIO),
            ("string", [{"audio": p} for p in paths], pa.string()),
            ("dictionary", [{"audio": p} for p in paths], pa.dictionary(pa.int32(), pa.string())),
        ):
            file = self.root / "data" / name / "train.parquet"
            write(file, [{"id": f"n{i}", "n": i, **row} for i, row in enumerate(rows)], form)
            stream = Stream(self.root)
            file.unlink()
            self.assertEqual(stream.ids, ["n0", "n1", "n6"])
            self.assertEqual(stream.audio["n0"], (self.root / "clips" / "a.wav").read_bytes())
            self.assertEqual(stream.audio["n6"], (self.root / "data" / "b.wav").read_bytes())
            self.assertEqual(
                [(reason, key) for reason, key, _, _ in stream.rejects],
                [
                    ("missing_audio", "n2"),
                    ("remote_source", "n3"),
                    ("missing_audio", "n4"),
                    ("missing_audio", "n5"),
                    ("missing_audio", "n7"),
                ],
            )

    def test_rows_of_all_groups_and_a_null_audio(self):
        rows = self.rows(7)
        rows[5]["audio"] = None
        rows[6]["audio"] = {"bytes": b"", "path": None}
        write(self.root / "test-00000-of-00001.parquet", rows, row_group_size=2)
        stream = Stream(self.root)
        self.assertEqual(stream.ids, ["u0", "u1", "u2", "u3", "u4", "u6"])
        self.assertEqual(stream.rejects, [("missing_audio", "u5", "test-00000-of-00001.parquet#5", 1)])
        self.assertEqual(stream.audio["u6"], b"")

    def test_audio_above_the_buffer(self):
        loud = os.urandom(3 << 20)
        rows = [{"id": f"u{i}", "audio": loud[i:]} for i in range(20)]
        write(self.root / "train.parquet", rows, pa.binary())
        stream = Stream(self.root)
        self.assertEqual([stream.audio[f"u{i}"] == loud[i:] for i in range(20)], [True] * 20)
        # Several batches, with consecutive row numbers.
        sources = [stream.samples[f"u{i}"]["source"] for i in range(20)]
        self.assertEqual(sources, [f"train.parquet#{i}" for i in range(20)])

    def test_images_are_not_audio(self):
        rows = [{"image": {"bytes": b"\x89PNG", "path": "a.png"}, "n": 1}]
        path = self.root / "train.parquet"
        schema = pa.schema(
            [("image", STRING_AUDIO), ("n", pa.int32())],
            {"huggingface": json.dumps({"info": {"features": {"image": {"_type": "Image"}}}})},
        )
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
        done = run(path, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(
            "no column has audio (bytes or paths); columns: image, n", done.stderr.decode()
        )


class Columns(ParquetTest):
    def test_roles_classes_and_extras(self):
        rows = self.rows(2, lang=1, speaker_id=17, score=0.5, gold=True, note="", empty=None)
        rows[1].update(lang=-1, speaker_id=None, score=float("nan"), text="")
        write(
            self.root / "sub" / "train-00000-of-00001.parquet",
            rows,
            types={"text": pa.dictionary(pa.int8(), pa.string())},
            classes={"lang": ["de", "fr"]},
        )
        stream = Stream(self.root)
        self.assertEqual(
            stream.samples,
            {
                "u0": {
                    "text": "text 0",
                    "speaker": "17",
                    "language": "fr",
                    "domain": "fr",
                    "split": "train",
                    "extras": {"score": 0.5, "gold": True},
                    "source": "sub/train-00000-of-00001.parquet#0",
                },
                "u1": {
                    "domain": "sub",
                    "split": "train",
                    "extras": {"gold": True},
                    "source": "sub/train-00000-of-00001.parquet#1",
                },
            },
        )

    def test_text_is_not_altered_and_must_be_utf8(self):
        texts = ['"nan', "null", "a\u2028b\u0085c\n\td", "scho\u0308n \\n &amp;", "NA"]
        binary = pa.array([t.encode() for t in texts] + [b"\xff\xfe", b"ok"], pa.binary())
        table = pa.table(
            {
                "id": list("abcdefg"),
                "audio": pa.array([audio_bytes()] * 7, pa.binary()),
                "text": binary.view(pa.string()),
            }
        )
        pq.write_table(table, self.root / "train.parquet")
        stream = Stream(self.root)
        self.assertEqual([s["text"] for s in stream.samples.values()], texts + ["ok"])
        self.assertEqual(
            [(r[0], r[2]) for r in stream.rejects], [("text_invalid_utf8", "train.parquet#5")]
        )
        table = table.rename_columns(["id", "audio", "note"])
        pq.write_table(table, self.root / "train.parquet")
        self.assertEqual(Stream(self.root).samples["f"]["extras"], {"note": "\ufffd\ufffd"})
        table = table.rename_columns(["id", "audio", "text"])
        # Arrow itself rejects these files; none of their rows may be lost silently.
        words = pa.array([b"ok", b"\xff"], pa.binary()).view(pa.string())
        texts = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1, 0, 1, 0]), words)
        table = table.set_column(2, "text", texts)
        pq.write_table(table, self.root / "train.parquet")
        rejects = Stream(self.root).rejects
        self.assertEqual(rejects, [("unreadable", None, "train.parquet#0", 7)])

    def test_missing_files_and_tables_of_something_else_are_said(self):
        for number in (0, 1, 3):
            write(self.root / "data" / f"train-{number:05d}-of-00009.parquet", self.rows(1, number))
        pq.write_table(pa.table({"speaker": ["a"], "age": [7]}), self.root / "data" / "speakers.parquet")
        stream = Stream(self.root)
        self.assertEqual(stream.ids, ["u0", "u1", "u3"])
        self.assertIn("6 of 9 files of 'train' are missing: 00002, 00004, 00005, 00006, 00007 ...",
                      stream.messages)  # fmt: skip
        self.assertEqual(stream.reasons(), [("count_mismatch", 0)])
        self.assertIn("speakers.parquet: no column has audio", stream.messages)
        self.assertEqual(Stream(self.root / "data" / "train-00003-of-00009.parquet").rejects, [])

    def test_ids_from_paths_keep_folder_and_split(self):
        rows = [
            {"audio": {"bytes": audio_bytes(seed=i), "path": f"{i}.wav"}, "transcription": "x"}
            for i in range(2)
        ]
        for split in ("train", "test"):
            write(self.root / "xx" / f"{split}-00000-of-00001.parquet", rows)
        self.assertEqual(Stream(self.root).ids, ["xx/test/0", "xx/test/1", "xx/train/0", "xx/train/1"])

    def test_splits_are_chosen_by_file_and_by_column(self):
        write(self.root / "a" / "train.clean.100-00000-of-00001.parquet", self.rows(1))
        write(self.root / "a" / "test-00000-of-00001.parquet", self.rows(1, 1))
        write(
            self.root / "b" / "0000.parquet",
            self.rows(1, 2, split="test") + self.rows(1, 3, split="dev"),
        )
        write(self.root / "c" / "validation" / "0000.parquet", self.rows(1, 4))
        stream = Stream(self.root, "--split", "test,train.clean.100")
        self.assertEqual(
            {key: s["split"] for key, s in stream.samples.items()},
            {"u0": "train.clean.100", "u1": "test", "u2": "test"},
        )
        self.assertEqual(stream.reasons(), [("excluded_by_rule", 0)])
        self.assertEqual(Stream(self.root).samples["u4"]["split"], "validation")


class Presets(ParquetTest):
    def mls_rows(self, names):
        return [
            {
                "audio": {"bytes": audio_bytes(".opus", sum(n.encode())), "path": f"{n}.opus"},
                "original_path": f"http://archive.org/{n}.mp3",
                "begin_time": 97.5,
                "end_time": 107.25,
                "transcript": f"tekst {n}",
                "audio_duration": 9.75,
                "speaker_id": "1",
                "chapter_id": "2",
                "file": f"{n}.opus",
                "id": n,
            }
            for n in names
        ]

    def test_mls_takes_repeats_of_train_once(self):
        names = [f"6892_10801_{i:06d}" for i in range(4)]
        folder = self.root / "multilingual_librispeech" / "polish"
        write(folder / "train-00000-of-00002.parquet", self.mls_rows(names[:2]))
        write(folder / "train-00001-of-00002.parquet", self.mls_rows(names[2:]))
        write(folder / "1_hours-00000-of-00001.parquet", self.mls_rows([names[3]]))
        write(folder / "9_hours-00000-of-00001.parquet", self.mls_rows([names[0], "7_8_000001", "x"]))
        write(folder / "dev-00000-of-00001.parquet", self.mls_rows(["1_2_000003"]))
        stream = Stream(self.root)
        self.assertIn("recognized as mls because it has the columns original_path", stream.messages)
        self.assertEqual(sorted(stream.ids), sorted(names + ["7_8_000001", "1_2_000003"]))
        self.assertEqual(
            stream.samples[names[0]],
            {
                "text": f"tekst {names[0]}",
                "speaker": "mls/6892",
                "language": "pl",
                "domain": "mls/polish",
                "split": "train",
                "document": "10801",
                "nominal_rate_hz": 16000,
                "extras": {
                    "limited_supervision": "9hr",
                    "source_url": f"http://archive.org/{names[0]}.mp3",
                    "source_start": "97.50",
                    "source_end": "107.25",
                    "audio_duration": 9.75,
                },
                "source": "multilingual_librispeech/polish/train-00000-of-00002.parquet#0",
            },
        )
        self.assertEqual(stream.samples[names[3]]["extras"]["limited_supervision"], "1hr")
        self.assertNotIn("limited_supervision", stream.samples[names[1]]["extras"])
        self.assertEqual(stream.samples["7_8_000001"]["split"], "train")
        self.assertEqual(stream.samples["1_2_000003"]["split"], "dev")
        self.assertEqual(stream.reasons(), [("row_syntax", 1)])
        self.assertIn("2 repeats skipped", stream.messages)

    def ps_rows(self, names):
        return [
            {
                "id": f"{n}.flac",
                "audio": {"bytes": audio_bytes(seed=sum(n.encode())), "path": f"{n}.flac"},
                "duration_ms": 400,
                "text": f"text {n}",
            }
            for n in names
        ]

    def test_peoples_speech_takes_validation_and_test_once(self):
        for config in ("clean", "dirty_sa", "microset"):
            write(
                self.root / config / "train-00000-of-00001.parquet",
                self.ps_rows([f"gov_DOT_a_SLASH_b_SPACE_c_DOT_mp3_0000{len(config)}"]),
            )
            for split in ("validation", "test"):
                write(
                    self.root / config / f"{split}-00000-of-00001.parquet",
                    self.ps_rows([f"{split}_0000{i}" for i in range(2)]),
                )
        partial = self.root / "dirty" / "partial-train" / "0000.parquet"
        write(partial, self.ps_rows(["cut_00001"]))
        stream = Stream(self.root)
        self.assertIn("recognized as peoples-speech because", stream.messages)
        self.assertIn(
            "dirty/partial-train/0000.parquet: excluded: 'partial-train' is only a part", stream.messages
        )
        name = "gov_DOT_a_SLASH_b_SPACE_c_DOT_mp3_00005"
        self.assertEqual(
            stream.samples[name],
            {
                "text": f"text {name}",
                "language": "en",
                "domain": "ps/clean",
                "split": "train",
                "document": "gov.a",
                "extras": {"licence": "CC BY", "duration_ms": 400},
                "source": "clean/train-00000-of-00001.parquet#0",
            },
        )
        self.assertEqual(
            sorted((s["domain"], s["split"]) for s in stream.samples.values()),
            [
                ("ps/clean", "train"),
                ("ps/dirty_sa", "train"),
                ("ps/test", "test"),
                ("ps/test", "test"),
                ("ps/validation", "validation"),
                ("ps/validation", "validation"),
            ],
        )
        self.assertEqual(stream.reasons(), [("excluded_by_rule", 0)] * 6)
        self.assertEqual(
            Stream(self.root, "--split", "dirty_sa").reasons().count(("excluded_by_rule", 0)), 9
        )
        only = run(partial.parent, check=False)
        self.assertEqual(only.returncode, 1)
        self.assertIn("allow it with --partial", only.stderr.decode())
        stream = Stream(partial.parent.parent, "--partial")
        self.assertEqual(stream.samples["cut_00001"]["domain"], "ps/dirty")
        self.assertEqual(stream.samples["cut_00001"]["split"], "train")

    def cv_row(self, number, **more):
        name = f"common_voice_de_{number}.mp3"
        return {
            "client_id": "a" * 128,
            "path": f"de_train_0/{name}",
            "audio": {"bytes": audio_bytes(".mp3", number), "path": f"de_train_0/{name}"},
            "sentence": f'Satz "{number}',
            "up_votes": 2,
            "down_votes": 0,
            "age": "fourties",
            "accents": "",
            "locale": "de",
            **more,
        }

    def test_common_voice_takes_a_clip_once(self):
        folder = self.root / "common_voice_17_0" / "de"
        splits = {
            "train": [1, 2, 2, 3],
            "validation": [4],
            "test": [5, 3],
            "validated": [1, 2, 3, 4, 5, 6],
            "other": [7],
            "invalidated": [8],
        }
        for split, numbers in splits.items():
            write(folder / f"{split}-00000-of-00001.parquet", [self.cv_row(n) for n in numbers])
        stream = Stream(self.root)
        self.assertIn("recognized as common-voice because it has the columns client_id", stream.messages)
        self.assertEqual(
            {key[-1]: s["split"] for key, s in stream.samples.items()},
            {"1": "train", "2": "train", "3": "test", "4": "dev", "5": "test", "6": "validated"},
        )
        self.assertEqual(
            stream.reasons(),
            [("dup_id", 1), ("excluded_by_rule", 0), ("excluded_by_rule", 0), ("split_conflict", 0)],
        )
        self.assertEqual(
            stream.samples["common_voice_de_1"],
            {
                "text": 'Satz "1',
                "speaker": "cv/" + "a" * 128,
                "language": "de",
                "domain": "cv/de",
                "split": "train",
                "extras": {"up_votes": "2", "down_votes": "0", "age": "fourties"},
                "source": "common_voice_17_0/de/train-00000-of-00001.parquet#0",
            },
        )
        stream = Stream(self.root, "--split", "other,dev")
        self.assertEqual(
            {key[-1]: s["split"] for key, s in stream.samples.items()}, {"4": "dev", "7": "other"}
        )

    def test_common_voice_variants_and_locales_by_folder(self):
        write(self.root / "cy-southwes" / "train.parquet", [self.cv_row(1, locale="cy")])
        write(self.root / "cy" / "train.parquet", [self.cv_row(1, locale="cy")])
        write(self.root / "zh-CN" / "train.parquet", [self.cv_row(2, locale=None)])
        stream = Stream(self.root)
        self.assertEqual(
            {key: s["domain"] for key, s in stream.samples.items()},
            {
                "cy-southwes/common_voice_de_1": "cv/cy",
                "common_voice_de_1": "cv/cy",
                "common_voice_de_2": "cv/zh-CN",
            },
        )

    def test_voxpopuli_and_librispeech(self):
        row = {
            "audio_id": "2009-hr_0",
            "language": 1,
            "audio": {"bytes": audio_bytes(".ogg"), "path": "x.wav"},
            "raw_text": "Ovo.",
            "normalized_text": "ovo",
            "gender": "male",
            "speaker_id": "5",
            "is_gold_transcript": False,
            "accent": "None",
        }
        write(
            self.root / "vp" / "hr" / "validation-00000-of-00001.parquet",
            [row, {**row, "audio_id": "2009-hr_1", "speaker_id": "N/A", "language": 2}],
            classes={"language": ["en", "hr", "en_accented"]},
        )
        stream = Stream(self.root / "vp")
        self.assertEqual(
            stream.samples["2009-hr_0"],
            {
                "text": "ovo",
                "speaker": "voxpopuli/5",
                "language": "hr",
                "domain": "voxpopuli/hr",
                "split": "dev",
                "extras": {
                    "raw_text": "Ovo.",
                    "gender": "male",
                    "is_gold_transcript": "False",
                    "accent": "None",
                },
                "source": "hr/validation-00000-of-00001.parquet#0",
            },
        )
        write(
            self.root / "vp" / "multilang" / "validation-00000-of-00001.parquet",
            [row],
            classes={"language": ["en", "hr", "en_accented"]},
        )
        stream = Stream(self.root / "vp")
        self.assertEqual(stream.reasons(), [("excluded_by_rule", 0)])
        second = stream.samples["2009-hr_1"]
        self.assertEqual(
            (second["domain"], second["language"], second.get("speaker")),
            ("voxpopuli/en_accented", "en", None),
        )
        row = {
            "file": "84-121123-0000.flac",
            "audio": {"bytes": audio_bytes(), "path": None},
            "text": "GO",
            "speaker_id": 84,
            "chapter_id": 121123,
            "id": "84-121123-0000",
        }
        for path in ("all/train.clean.100-00000-of-00001", "clean/train.100-00000-of-00001"):
            write(self.root / "libri" / f"{path}.parquet", [row])
        stream = Stream(self.root / "libri")
        sample = stream.samples["84-121123-0000"]
        self.assertEqual(
            (sample["domain"], sample["split"], sample["speaker"], sample["document"]),
            ("librispeech/clean", "train", "librispeech/84", "121123"),
        )
        self.assertEqual(stream.reasons(), [("excluded_by_rule", 0)])


class Names(unittest.TestCase):
    def test_a_set_of_names_grows_and_forgets_nothing(self):
        names = NameSet()
        for number in range(20000):
            self.assertIsNone(names.add(f"clip {number}", number % 8))
        for number in range(20000):
            self.assertEqual(names.add(f"clip {number}", 0), number % 8)
        self.assertEqual(names.count, 20000)


class Failures(ParquetTest):
    def test_a_damaged_row_group_is_reported_with_its_rows(self):
        path = self.root / "train.parquet"
        noise = [{"id": f"u{i}", "audio": os.urandom(40000)} for i in range(9)]
        write(path, noise, pa.binary(), row_group_size=3, compression="zstd", use_dictionary=False)
        file = pq.ParquetFile(path)
        at = file.metadata.row_group(1).column(1).data_page_offset
        data = bytearray(path.read_bytes())
        data[at : at + 60000] = bytes(60000)
        path.write_bytes(data)
        stream = Stream(self.root)
        self.assertEqual(stream.ids, ["u0", "u1", "u2", "u6", "u7", "u8"])
        self.assertEqual(stream.rejects, [("unreadable", None, "train.parquet#3", 3)])

    def test_what_cannot_be_read_at_all_fails(self):
        (self.root / "train.parquet").write_bytes(b"PAR1 cut off")
        empty = self.root / "empty"
        empty.mkdir()
        for words, message in (
            ([self.root], "train.parquet"),
            ([empty], "the folder contains no *.parquet file"),
            ([self.root / "gone"], "no such file"),
            (["hf://datasets/x"], "download the files first"),
        ):
            done = run(*words, check=False)
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            self.assertIn(message, done.stderr.decode())
            self.assertNotIn("Traceback", done.stderr.decode())
        self.assertEqual(run(self.root, "--codec", "pcm", check=False).returncode, 2)
        self.assertEqual(run(check=False).returncode, 2)

    def test_a_stream_that_fails_is_no_whole_tar(self):
        write(self.root / "train.parquet", self.rows(3))
        code = (
            "import sys, speechshard.parquet as p\n"
            "row = p.Producer._row\n"
            "def fail(self, corpus, place, values, data, source):\n"
            "    if source.endswith('#2'): raise OSError('the disk has gone')\n"
            "    row(self, corpus, place, values, data, source)\n"
            "p.Producer._row = fail\nsys.exit(p.main())"
        )
        done = subprocess.run([sys.executable, "-c", code, self.root], capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("speechshard.parquet: the disk has gone", done.stderr.decode())
        names = []
        with self.assertRaises(tarfile.ReadError):
            with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
                for member in tar:
                    names.append(member.name)
        self.assertEqual(names[:4], [f"{i:012d}.{e}" for i in range(2) for e in ("json", "flac")])
        self.assertEqual(tarfile.TarInfo.frombuf(done.stdout[-512:], "ascii", "strict").size, 512)


class Packing(ParquetTest):
    def pack(self, *words):
        words = [*MODULE, self.root, "-o", self.root / "out.spsh", *words]
        return subprocess.run([str(word) for word in words], capture_output=True, encoding="utf-8")

    def test_options_and_status_are_those_of_pack(self):
        rows = self.rows(40)
        rows[0]["audio"]["bytes"] = b"<html>" + bytes(600)
        rows[1]["audio"] = None
        write(self.root / "train.parquet", rows)
        done = self.pack("--codec", "pcm", "-j", "2", "--json", "--quiet", "--shard-size=1M", "--strict")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--strict allows no rejects", done.stderr)
        shutil.rmtree(self.root / "out.spsh")
        done = self.pack("--codec", "pcm", "-j", "2", "--json", "--quiet", "--max-rejects", "20%")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        report = json.loads(done.stdout)
        self.assertEqual((report["rows_in"], report["packed"], report["rejected"]), (40, 38, 2))
        self.assertEqual(report["options"]["codec"], "pcm")
        lines = (self.root / "out.spsh" / "reports" / "rejects.jsonl").read_text().split("\n")
        self.assertEqual(
            {(r["reason"], r["id"], r["source"]) for r in map(json.loads, filter(None, lines))},
            {
                ("not_audio", "u0", "train.parquet#0"),
                ("missing_audio", "u1", "train.parquet#1"),
            },
        )
        self.assertEqual(self.pack("--no-such-option").returncode, 2)
        done = self.pack("--command", self.root / "gone")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such command", done.stderr)

    def test_rejects_before_the_first_audio(self):
        write(
            self.root / "train.parquet",
            [{"id": f"u{i}", "audio": None} for i in range(5000)] + self.rows(2),
        )
        done = self.pack("--json", "--quiet", "--max-rejects", "100%")
        report = json.loads(done.stdout)
        self.assertEqual((report["rows_in"], report["packed"], report["rejected"]), (5002, 2, 5000))

    def test_a_stream_that_was_cut_off_is_not_packed(self):
        write(self.root / "train.parquet", self.rows(3))
        whole = run(self.root).stdout
        for size in (len(whole) - 1024, len(whole) - 1025, 512, 0):
            words = [
                support.COMMAND,
                "pack",
                "-",
                "--layout",
                "webdataset",
                "-o",
                self.root / "cut.spsh",
            ]
            done = subprocess.run(words, input=whole[:size], capture_output=True)
            self.assertEqual(done.returncode, 1, size)
            self.assertFalse((self.root / "cut.spsh" / "manifest.spsh").exists())

    def test_a_producer_that_fails_publishes_nothing(self):
        write(self.root / "train.parquet", self.rows(300))
        for failure in ("raise OSError('the disk has gone')", "os.kill(os.getpid(), 9)"):
            code = (
                "import os, sys, speechshard.parquet as p\n"
                "row = p.Producer._row\n"
                "def fail(self, corpus, place, values, data, source):\n"
                f"    if source.endswith('#299'): {failure}\n"
                "    row(self, corpus, place, values, data, source)\n"
                "p.Producer._row = fail\nsys.exit(p.main())"
            )
            words = [sys.executable, "-c", code, self.root, "-o", self.root / "out.spsh"]
            self.assertNotEqual(subprocess.run(words, capture_output=True).returncode, 0)
            self.assertEqual(list(self.root.glob("out.spsh/manifest.spsh")), [])


def utterances(dataset):
    listed = subprocess.run([support.COMMAND, "ls", "--json", dataset], check=True, capture_output=True)
    return {u["id"]: u for u in map(json.loads, listed.stdout.decode().strip("\n").split("\n"))}


class SameAsUnpacked(ParquetTest):
    """The fixtures of the layouts, unchanged and as the parquet files that mirrors make from
    them."""

    def compare(self, root, parquet, fields, only_unpacked):
        """only_unpacked: rejects of rows that a parquet file cannot represent."""
        options = ["--json", "--max-rejects", "100%", "--quiet"]
        reports = []
        for words in (
            [support.COMMAND, "pack", root, "-o", self.root / "a.spsh", *options],
            [*MODULE, parquet, "-o", self.root / "b.spsh", *options],
        ):
            done = subprocess.run([str(word) for word in words], capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            reports.append(json.loads(done.stdout))
        unpacked, streamed = (
            {reason: count["rows"] for reason, count in report["rejects"].items() if count["rows"] > 0}
            for report in reports
        )
        for reason, rows in only_unpacked.items():
            unpacked[reason] -= rows
        self.assertEqual(streamed, {reason: rows for reason, rows in unpacked.items() if rows > 0})
        self.assertEqual(reports[1]["rows_in"], reports[1]["packed"] + reports[1]["rejected"])
        want, got = utterances(self.root / "a.spsh"), utterances(self.root / "b.spsh")
        self.assertEqual(sorted(got), sorted(want))
        for name, utterance in want.items():
            for field in (*fields, "id", "text", "domain", "split", "speaker", "language", "pcm_hash",
                          "nominal_sample_rate_hz", "codec", "samples"):  # fmt: skip
                self.assertEqual(got[name][field], utterance[field], f"{name}: {field}")
        return want, got

    def test_mls(self):
        mls_fixture.make_opus(self.root / "corpus", clip)
        tree = self.root / "corpus" / "mls_polish_opus"
        read = {}
        for split in ("train", "dev", "test"):
            lines = (tree / split / "segments.txt").read_text(encoding="utf-8").split("\n")
            times = {line.split("\t")[0]: line.split("\t")[1:] for line in lines if line}
            rows = []
            for line in (tree / split / "transcripts.txt").read_text(encoding="utf-8").split("\n")[:-1]:
                name, text = line.split("\t")
                path = mls_fixture.audio(tree / split, name, ".opus")
                read[name] = {
                    "audio": {"bytes": path.read_bytes() if path.exists() else None, "path": path.name},
                    "original_path": times[name][0], "begin_time": float(times[name][1]),
                    "end_time": float(times[name][2]), "transcript": text, "audio_duration": 0.4,
                    "speaker_id": name.split("_")[0], "chapter_id": name.split("_")[1],
                    "file": path.name, "id": name,
                }  # fmt: skip
                rows.append(read[name])
            write(self.root / "hf" / "polish" / f"{split}-00000-of-00001.parquet", rows)
        for name, split in (("6892_10801_000001", "9_hours"), ("7034_9188_000000", "1_hours")):
            write(self.root / "hf" / "polish" / f"{split}-00000-of-00001.parquet", [read[name]])
        want, got = self.compare(self.root / "corpus", self.root / "hf", ["document"], {})
        for name, utterance in want.items():
            extras = {**utterance["extras"], "audio_duration": 0.4}
            extras.pop("gender", None)
            if "limited_supervision" in extras:  # the files do not tell the folds of 1hr
                extras["limited_supervision"] = extras["limited_supervision"].split("/")[0]
            self.assertEqual(got[name]["extras"], extras)

    def test_peoples_speech(self):
        peoples_speech_fixture.make(self.root / "corpus", clip)
        for subset, split in (("clean", "train"), ("dirty_sa", "train"), ("validation", "validation"),
                              ("test", "test")):  # fmt: skip
            folder = self.root / "corpus" / (split if split != "train" else "")
            folder = folder / "train" if split == "train" else folder
            rows = []
            for line in (folder / f"{subset}.json").read_text(encoding="utf-8").split("\n"):
                try:
                    data = json.loads(line)["training_data"]
                except ValueError:
                    continue
                for name, label, duration in zip(data["name"], data["label"], data["duration_ms"]):
                    path = folder / subset / name if split == "train" else folder / name
                    audio = path.read_bytes() if path.exists() else None
                    if audio is not None or name == peoples_speech_fixture.NAMES["gone"]:
                        rows.append({"id": name, "audio": {"bytes": audio, "path": name},
                                     "duration_ms": duration, "text": label})  # fmt: skip
            text = {"text": pa.string(), "duration_ms": pa.int32()}
            for config in ("clean", "dirty_sa") if split != "train" else (subset,):
                write(self.root / "hf" / config / f"{split}-00000-of-00001.parquet", rows, types=text)
        want, got = self.compare(self.root / "corpus", self.root / "hf", [],
                                 {"row_field_count": 3, "row_syntax": 1})  # fmt: skip
        for name, utterance in want.items():
            utterance["extras"].pop("text_document_id", None)
            self.assertEqual(got[name]["extras"], utterance["extras"])
            if "_SLASH_" in name:
                self.assertEqual(got[name]["document"], utterance["document"])

    def test_common_voice(self):
        common_voice_fixture.make_new(self.root / "corpus", clip)
        for locale in ("de", "ab"):
            tree = next((self.root / "corpus").glob(f"*/*/{locale}"))
            for table in sorted(tree.glob("*.tsv")):
                names, *lines = table.read_bytes().decode().rstrip("\n").split("\n")
                names = names.split("\t")
                if "client_id" not in names or not lines:
                    continue
                rows = []
                for fields in (line.split("\t") for line in lines):
                    row = dict(zip(names, fields + [""] * (len(names) - len(fields))))
                    path = tree / "clips" / row["path"]
                    row["audio"] = {"bytes": path.read_bytes() if path.exists() else None,
                                    "path": f"de_{table.stem}_0/{path.name}"}  # fmt: skip
                    if len(fields) <= len(names):
                        rows.append(row)
                split = {"dev": "validation"}.get(table.stem, table.stem)
                write(self.root / "hf" / locale / f"{split}-00000-of-00001.parquet", rows)
        self.compare(self.root / "corpus", self.root / "hf", ["extras", "document"],
                     {"row_field_count": 1})  # fmt: skip


if __name__ == "__main__":
    support.main()
