"""Folders of audio with sidecars: byte order mark, CR LF, empty, and orphans both ways."""


def make(root, clip):
    clip(root / "a" / "one.wav", seconds=0.3, seed=1)
    (root / "a" / "one.txt").write_bytes(b"\xef\xbb\xbfeins, zwei\r\n")
    clip(root / "a" / "two.flac", seed=2)
    (root / "a" / "two.txt").write_bytes(b"")
    clip(root / "a" / "three.opus", seed=3)
    (root / "a" / "four.txt").write_text("kein Ton\n")
    clip(root / "b" / "five.mp3", seed=4)
    clip(root / "b" / "six.ogg", seed=5)
    (root / "b" / "seven.wav").write_bytes(b"")


EXPECTED = {
    "utterances": 5,
    "rejects": {"orphan_text": (1, 0), "empty_file": (1, 1)},
    "domains": {"default": 5},
    "ids": {
        "a/one": {"text": "eins, zwei", "seconds": 0.3, "codec": "wav"},
        "a/two": {"text": "", "seconds": 0.4, "codec": "flac"},
        "a/three": {"text": None, "codec": "opus"},
        "b/five": {"codec": "mp3"},
        "b/seven": None,
    },
}
