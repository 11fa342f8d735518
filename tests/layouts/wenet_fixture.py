"""wenet's raw data lists: keys, segments, texts that are missing, blank lines."""
import json

from bad_types import bad_rows


def make(root, clip):
    for n, name in enumerate(["BAC009S0002W0122", "BAC009S0002W0123"]):
        clip(root / "wav" / "S0002" / f"{name}.wav", seed=n)
    clip(root / "wav" / "long.flac", seconds=1.0, seed=9)
    rows = [
        {"key": "BAC009S0002W0122", "wav": "wav/S0002/BAC009S0002W0122.wav", "txt": "而对楼市成交抑制作用最大的限购"},
        "",
        {"wav": "wav/S0002/BAC009S0002W0123.wav", "key": "BAC009S0002W0123"},
        {"key": "long_0", "wav": "wav/long.flac", "txt": "a", "start": 0.0, "end": 0.25, "speaker": "x"},
        {"key": "long_1", "wav": "wav/long.flac", "txt": "b", "start": 0.25, "end": 1.0, "lang": "zh"},
        {"key": "long_2", "wav": "wav/long.flac", "txt": "c", "start": 0.5, "end": 0.5},
        {"key": "gone", "wav": "wav/gone.wav", "txt": "d"},
        {"key": 12, "wav": "wav/long.flac", "txt": "whole"},
    ]
    (root / "data.list").write_text(
        "".join((json.dumps(row, ensure_ascii=False) if row else "") + "\n" for row in rows))


EXPECTED = {
    "utterances": 5,
    "rejects": {"segment_range": (1, 1), "missing_audio": (1, 1)},
    "domains": {"default": 4, "zh": 1},
    "all_ids": ["BAC009S0002W0122", "BAC009S0002W0123", "long_0", "long_1", "12"],
    "ids": {
        "BAC009S0002W0122": {"text": "而对楼市成交抑制作用最大的限购", "seconds": 0.4},
        "BAC009S0002W0123": {"text": None},
        "long_0": {"samples": 4000, "speaker": "x"},
        "long_1": {"samples": 12000, "start_sample": 4000, "language": "zh"},
    },
}

def make_types(root, clip):
    clip(root / "a.wav", seconds=1.0, seed=1)
    good = {"key": "3", "wav": "a.wav", "txt": "right", "start": 0.0, "end": 0.25}
    bad = bad_rows(good, {"wav": "text", "key": "name", "txt": "text", "start": "name", "end": "name"})
    (root / "data.list").write_text("\n".join(map(json.dumps, [{"key": "0", "wav": "a.wav"}, *bad, good])))


CASES = {
    "folder": (make, EXPECTED),
    "file": (make, dict(EXPECTED, root="data.list")),
    "types": (make_types, {"rejects": {"row_syntax": (17, 17)}, "all_ids": ["0", "3"], "ids": {"3": {"text": "right"}}}),
}
