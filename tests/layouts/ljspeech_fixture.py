"""LJ Speech and lists like it: pipes, no header, quotes that are never closed, ids without
extension."""


def make(root, clip):
    for i in range(1, 5):
        clip(root / "wavs" / f"LJ001-000{i}.wav", seconds=0.3, rate=22050, seed=i)
    (root / "metadata.csv").write_text(
        'LJ001-0001|Printing, in "the only sense|Printing, in "the only sense\n'
        "LJ001-0002|in 1455 |in fourteen fifty-five\n"
        "LJ001-0003|nan|\n"  # no spoken form: the printed text is used
        "LJ001-0009|gone|gone\n", encoding="utf-8")
    (root / "README").write_text("LJ Speech\n")


EXPECTED = {
    "utterances": 3,
    "rejects": {"missing_audio": (1, 1)},
    "domains": {"default": 3},
    "ids": {
        "LJ001-0001": {"text": 'Printing, in "the only sense', "seconds": 0.3,
                       "extras": {"raw_text": 'Printing, in "the only sense'}},
        "LJ001-0002": {"text": "in fourteen fifty-five", "extras": {"raw_text": "in 1455"}},
        "LJ001-0003": {"text": "nan"},
        "LJ001-0004": None,  # no row names it
    },
}


def make_list(root, clip):
    clip(root / "a" / "x.wav", seed=1)
    clip(root / "a" / "y.flac", seed=2)
    (root / "train.txt").write_bytes(b"\xef\xbb\xbfa/x.wav|hello, world\r\na/y.flac|\r\n")


def make_speakers(root, clip):
    clip(root / "x.wav", seed=1)
    clip(root / "y.wav", seed=2)
    (root / "filelist.txt").write_text("x.wav|12|one\ny.wav|7|two\n")


CASES = {
    "metadata": (make, EXPECTED),
    "list": (make_list, {"root": "train.txt", "utterances": 2, "rejects": {},
                         "ids": {"a/x": {"text": "hello, world"}, "a/y": {"text": None}}}),
    "speakers": (make_speakers, {"root": "filelist.txt", "utterances": 2, "speakers": 2,
                                 "ids": {"x": {"text": "one", "speaker": "12"}}}),
}
