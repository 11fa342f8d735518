"""Folders of audio with sidecars: byte order mark, CR LF, empty, JSON, and sidecars or audio
without a partner."""
import json
import tarfile


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


def make_json(root, clip):
    for i in range(8):
        clip(root / f"{i}.wav", seed=10 + i)
    documents = {
        0: {"text": "erst\u00e9r \u2028", "speaker": "s1", "lang": "de", "snr": 12.5, "tags": ["x", None]},
        1: {"transcript": None, "sentence": "zweiter", "speaker_id": 7, "domain": "calls", "text": 3},
        2: {"words": [{"word": "a", "start": 0.1}], "speaker": "N/A"},
        3: {"text": "the text file wins", "language": "fr"},
        7: {"text": ["a", "list"], "speaker": "not taken"},
        9: {"text": "no audio"},
    }
    for number, document in documents.items():
        (root / f"{number}.json").write_text(json.dumps(document), encoding="utf-8")
    (root / "3.txt").write_text("dritter\n")
    (root / "4.json").write_text('{"text": "never closed')
    (root / "5.json").write_text("[1, 2]")
    (root / "6.JSON").write_text('{"text": "sechster"}')
    (root / "metadata.json").write_text("{}")


JSON = {
    "utterances": 8,
    "rejects": {"row_syntax": (3, 0)},
    "told": ["'text' is a list, but must be a string"],
    "domains": {"de": 1, "fr": 1, "calls": 1, "default": 5},
    "languages": {"de": 1, "fr": 1},
    "speakers": 2,
    "ids": {
        "0": {"text": "erst\u00e9r \u2028", "speaker": "s1", "language": "de",
              "extras": {"snr": 12.5, "tags": ["x", None], "text": None}},
        "1": {"text": "zweiter", "speaker": "7", "extras": {"text": 3}},
        "2": {"text": None, "speaker": None, "extras": {"words": [{"word": "a", "start": 0.1}]}},
        "3": {"text": "dritter", "extras": {"text": "the text file wins"}},
        "4": {"text": None},
        "6": {"text": "sechster"},
    },
}


def make_headerless(root, clip):
    clip(root / "one.wav", seed=20)
    for name in ("two.alaw", "three.ULAW", "four.sln"):
        (root / name).write_bytes(b"\xd5\x55" * 200)


def make_link_in_archive(root, clip):
    with tarfile.open(root / "clips.tar.gz", "w:gz") as tar:
        tar.add(clip(root / "one.wav", seed=20), "clips/one.wav")
        link = tarfile.TarInfo("clips/two.wav")
        link.type, link.linkname = tarfile.SYMTYPE, "one.wav"
        tar.addfile(link)
    (root / "one.wav").unlink()


CASES = {
    "texts": (make, EXPECTED),
    "json": (make_json, JSON),
    "link in an archive": (make_link_in_archive, {
        "archive": False,  # it is one
        "utterances": 1, "rejects": {"not_regular": (1, 1)},
        "told": ["symbolic links in archives are not followed"],
        "stderr": "kB of compressed archives"}),
    "telephone audio without a header": (make_headerless, {"utterances": 1, "rejects": {"not_audio": (3, 3)}}),
    "one row left out": (make, {"stderr": "1 row was rejected"}),
}
