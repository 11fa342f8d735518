"""NeMo manifests: a folder with two manifests, and one that is passed by itself."""
import json

from bad_types import bad_rows


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        for row in rows:
            file.write(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n")


def make(root, clip):
    clip(root / "wav" / "a.wav", seconds=0.5, seed=1)
    clip(root / "wav" / "long.flac", seconds=1.2, seed=2)
    clip(root / "wav" / "with blank.opus", seed=3)
    clip(root / "wav" / "ä.mp3", seed=4)
    clip(root / "wav" / "sidecar.ogg", seed=5)
    clip(root / "wav" / "skipped.wav", seed=6)
    clip(root / "wav" / "dev.wav", seed=7)
    outside = clip(root.parent / "elsewhere" / "absolute.wav", seed=8)
    (root / "text").mkdir()
    (root / "text" / "sidecar.txt").write_text("from a file\n")
    write_lines(root / "train_manifest.json", [
        b"\xef\xbb\xbf" + json.dumps({
            "audio_filepath": "wav/a.wav", "duration": 0.49, "text": "Hé \"quoted\" \U0001f600",
            "lang": "fr", "speaker": "s1", "orig_sample_rate": 44100, "pnc": "yes",
            "custom": {"snr": 1.5e1, "tags": ["x", None]}}).encode() + b"\n",
        {"audio_filepath": "wav/long.flac", "offset": 0.1, "duration": 0.3, "text": "cut one"},
        {"audio_filepath": "./wav/long.flac", "offset": 0.4000000001, "duration": 0.5,
         "text": "cut two", "normalized_text": "CUT TWO"},
        {"audio_filepath": "wav/long.flac", "offset": 1.0, "text": "to the end", "duration": None},
        b"\r\n",
        {"audio_filename": "wav/with blank.opus", "duration": 0.5, "normalized_text": "normal",
         "speaker": 17, "domain": "calls"},
        b'{"audio_filepath": "wav/broken.wav", "text": "no end\n',
        b'{"audio_filepath": "wav/broken.wav", "duration": NaN, "text": ""}\n',
        {"audio_filepath": "wav/ä.mp3", "duration": 0.4, "text": "", "speaker": "N/A"},
        {"audio_filepath": "wav/sidecar.ogg", "duration": 0.4, "text_filepath": "text/sidecar.txt"},
        {"audio_filepath": "wav/skipped.wav", "duration": 0.4, "text": "x", "_skipme": True},
        {"audio_filepath": "wav/missing.wav", "duration": 0.4, "text": "x", "_skipme": 0},
        {"audio_filepath": "s3://bucket/key.wav", "duration": 0.4, "text": "x"},
        {"audio_filepath": "wav/long.flac", "offset": -1, "duration": 0.4, "text": "x"},
        {"duration": 0.4, "text": "names nothing"},
        b'{"audio_filepath": "' + json.dumps(str(outside))[1:-1].encode() + b'", "text": "last"}',
    ])
    write_lines(root / "dev.jsonl", [{"audio_filepath": "wav/dev.wav", "duration": 0.4, "text": "dev"}])
    write_lines(root / "config.json", [{"sample_rate": 16000}])


EXPECTED = {
    "utterances": 9, "rows_in": 16, "excluded": 1,
    "rejects": {"row_syntax": (2, 2), "missing_audio": (2, 2), "remote_source": (1, 1),
                "segment_range": (1, 1), "excluded_by_rule": (1, 0), "duration_mismatch": (1, 0)},
    "reject_details": {"wav/with blank": "the metadata state 0.500 s, but the audio has 0.400 s"},
    "domains": {"fr": 1, "calls": 1, "default": 7},
    "splits": {"train": 8, "dev": 1},
    "speakers": 2,
    "ids": {
        "wav/a": {"text": "Hé \"quoted\" \U0001f600", "speaker": "s1", "language": "fr", "seconds": 0.5,
                  "extras": {"orig_sample_rate": 44100, "pnc": "yes", "duration": 0.49,
                             "custom": {"snr": 15.0, "tags": ["x", None]}}},
        "wav/long#100000000-400000000": {"text": "cut one", "samples": 4800, "start_sample": 1600},
        "wav/long#400000000-900000000": {"text": "cut two", "samples": 8000,
                                         "extras": {"normalized_text": "CUT TWO"}},
        "wav/long#1000000000-end": {"text": "to the end", "samples": 3200},
        "wav/with blank": {"text": "normal", "speaker": "17", "domain": "calls"},
        "wav/ä": {"text": None, "speaker": None, "split": "train"},
        "wav/sidecar": {"text": "from a file"},
        "wav/dev": {"text": "dev", "split": "dev"},
        "wav/skipped": None,
    },
}

# A path that is a number would equal the id of the valid row below it.
BAD = bad_rows({"audio_filepath": "3.wav", "text": "x", "speaker": "s", "lang": "l", "domain": "d", "offset": 0.1,
                "duration": 0.1, "_skipme": False},
               {"audio_filepath": "text", "text": "text", "speaker": "name", "lang": "name", "domain": "name",
                "offset": "name", "duration": "name"}) + \
    [{"audio_filepath": "3.wav", "text_filepath": 3}, {"audio_filepath": "3.wav", "_skipme": [0]}]


def make_types(root, clip):
    clip(root / "3.wav", seed=1)
    write_lines(root / "train.json", [*BAD, {"audio_filepath": "3.wav", "text": "right", "speaker": 4, "lang": 5,
                                             "duration": "0.4"}])


TYPES = {
    "rejects": {"row_syntax": (len(BAD), len(BAD))},
    "told": ["'audio_filepath' is a number, but must be a string", "'speaker' is a list, but must be a string or a number"],
    "all_ids": ["3"],
    "ids": {"3": {"text": "right", "speaker": "4", "language": "5"}},
}

ONE = {
    "root": "dev.jsonl",
    "utterances": 1,
    "rejects": {},
    "all_ids": ["wav/dev"],
}

SPLIT = {
    "options": ["--split", "dev"], "excluded": 15,
    "utterances": 1,
    "rejects": {"excluded_by_rule": (1, 0)},
    "splits": {"dev": 1},
}


def make_text_files(root, clip):
    """Each segment of a recording has a text file, and one of the files is not UTF-8."""
    clip(root / "long.wav", seconds=1.2, seed=1)
    for name, text in (("one", b"first\n"), ("two", b"second\n"), ("bad", b"\xff\n"), ("last", b"fourth\n")):
        (root / f"{name}.txt").write_bytes(text)
    rows = [{"audio_filepath": "long.wav", "offset": 3 * i / 10, "duration": 0.3, "text_filepath": f"{name}.txt"}
            for i, name in enumerate(("one", "two", "bad", "last"))]
    write_lines(root / "train.json", [*rows, {"audio_filepath": "long.wav", "offset": 0, "duration": 0.2}])


TEXT_FILES = {
    "utterances": 4, "rows_in": 5,
    "rejects": {"text_invalid_utf8": (1, 1)},
    "ids": {
        "long#0-300000000": {"text": "first", "start_sample": 0},
        "long#300000000-600000000": {"text": "second", "start_sample": 4800},
        "long#900000000-1200000000": {"text": "fourth", "start_sample": 14400},
        "long#0-200000000": {"text": None},
    },
}

CASES = {
    "folder": (make, EXPECTED),
    "file": (make, ONE),
    "types": (make_types, TYPES),
    "split": (make, SPLIT),
    "text files": (make_text_files, TEXT_FILES),
    "column": (make, {"options": ["--domain", "column:pnc"], "domains": {"yes": 1, "default": 8},
                       "excluded": 1}),
}
