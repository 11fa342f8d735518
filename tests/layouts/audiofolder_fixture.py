"""AudioFolder: metadata.csv with quotes, metadata.jsonl, one for all splits or one per split."""
import json

from bad_types import bad_rows


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def make_csv(root, clip):
    for i, name in enumerate(("a", "b", "c", "orphan")):
        clip(root / "data" / f"{name}.wav", seed=10 + i)
    write(root / "metadata.csv",
          "\ufefffile_name,transcription,speaker_id,mood\r\n"
          'data/a.wav,"Well, ""yes""",s1,glad\r\n'
          'data/b.wav,"two\nlines",unknown,\r\n'
          "./data/c.wav,nan,s2,calm\r\n"
          "data/gone.wav,missing,s2,\r\n"
          "data/a.wav,one,field,too,many\r\n"
          "\r\n")
    write(root / ".cache" / "x.wav", "no")
    write(root / "data" / "d.wav.incomplete", "no")


CSV = {
    "utterances": 3,
    "rejects": {"missing_audio": (1, 1), "row_field_count": (1, 1), "orphan_audio": (1, 0)},
    "domains": {"default": 3},
    "all_ids": ["data/a", "data/b", "data/c"],
    "ids": {
        "data/a": {"text": 'Well, "yes"', "speaker": "s1", "extras": {"mood": "glad"}},
        "data/b": {"text": "two\nlines", "speaker": None},
        "data/c": {"text": "nan", "split": None},
    },
}


def make_splits(root, clip):
    """The same names in every split; CSV in one, JSON lines in the others."""
    for i, split in enumerate(("train", "validation", "test")):
        clip(root / "data" / split / "1.flac", seed=20 + i)
        clip(root / "data" / split / "deep" / "2.mp3", seed=30 + i)
    write(root / "data" / "train" / "metadata.csv",
          "audio_file_name,sentence,language\n1.flac,eins,de\ndeep/2.mp3,,de\n")
    for split in ("validation", "test"):
        rows = [{"file_name": "1.flac", "text": "z\u00fc\u2028r", "n": 3, "tags": ["x"]},
                {"text": "deux", "file_name": "deep/2.mp3", "language": "fr"}]
        write(root / "data" / split / "metadata.jsonl",
              "\n".join(json.dumps(row) for row in rows) + "\n{broken\n")


SPLITS = {
    "utterances": 6,
    "rejects": {"row_syntax": (2, 2)},
    "domains": {"de": 2, "fr": 2, "default": 2},
    "all_ids": [f"data/{split}/{name}" for split in ("train", "validation", "test")
                for name in ("1", "deep/2")],
    "ids": {
        "data/train/1": {"text": "eins", "split": "train", "language": "de"},
        "data/train/deep/2": {"text": None},
        "data/test/1": {"text": "z\u00fc\u2028r", "split": "test", "extras": {"n": 3}},
        "data/validation/deep/2": {"text": "deux", "split": "validation"},
    },
}

def make_types(root, clip):
    clip(root / "3.wav", seed=1)
    clip(root / "4.wav", seed=2)
    rows = [{"file_name": "4.wav", "text": "first"},
            *bad_rows({"file_name": "3.wav", "text": "wrong"}, {
                "file_name": "text", "text": "text", "id": "name", "speaker_id": "name", "language": "name",
                "domain": "name", "split": "name"}),
            {"file_name": "3.wav", "text": "right", "speaker_id": 7}]
    write(root / "metadata.jsonl", "\n".join(json.dumps(row) for row in rows))


TYPES = {
    "rejects": {"row_syntax": (23, 23)},
    "all_ids": ["3", "4"],
    "ids": {"3": {"text": "right", "speaker": "7"}},
}

CASES = {
    "types": (make_types, TYPES),
    "csv": (make_csv, CSV),
    "splits": (make_splits, SPLITS),
    "one split": (make_splits, {"options": ["--split", "test"], "utterances": 2, "excluded": 4}),
}
