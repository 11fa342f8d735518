"""Shards of wenet: texts before audio, missing texts, and lists with all kinds of lines."""
from tars import Clips, write_tar


def make(root, clip):
    wav = Clips(root, clip)
    data = root / "data" / "train"
    write_tar(data / "shards" / "shards_000000000.tar", [
        ("BAC009S0002W0122.txt", "而对楼市成交抑制作用最大的限购".encode()),
        ("BAC009S0002W0122.wav", wav()),
        ("BAC009S0002W0123.wav", wav()),
        ("BAC009S0002W0124.txt", b"with a line end\n"),
        ("BAC009S0002W0124.wav", wav()),
    ])
    write_tar(data / "shards" / "shards_000000001.tar", [
        ("BAC009S0003W0121.txt", b""),
        ("BAC009S0003W0121.wav", wav()),
    ])
    write_tar(data / "shards" / "shards_000000002.tar", [("unlisted.wav", wav())])
    (data / "data.list").write_bytes(
        b"\n"
        b"/somewhere/data/train/shards/shards_000000000.tar\n"
        b"   \n"
        b"data/train/shards/shards_000000001.tar \r\n"
        b"./shards/shards_000000000.tar\n"
        b"https://example.org/shards_000000007.tar\n"
        b"shards/shards_000000009.tar")


EXPECTED = {
    "root": "data",
    "utterances": 4,
    "rejects": {"remote_source": (1, 1), "missing_audio": (1, 1), "excluded_by_rule": (1, 0)},
    "splits": {"train": 4},
    "domains": {"default": 4},
    "all_ids": ["BAC009S0002W0122", "BAC009S0002W0123", "BAC009S0002W0124", "BAC009S0003W0121"],
    "ids": {
        "BAC009S0002W0122": {"text": "而对楼市成交抑制作用最大的限购",
                             "source": "shards/shards_000000000.tar/BAC009S0002W0122.wav"},
        "BAC009S0002W0123": {"text": None},
        "BAC009S0002W0124": {"text": "with a line end"},
        "BAC009S0003W0121": {"text": ""},
    },
}


def make_splits(root, clip):
    """A list for each split; the archives of both have the same names."""
    make(root, clip)
    wav = Clips(root, clip)
    wav.seed = 10
    dev = root / "data" / "dev"
    write_tar(dev / "shards" / "shards_000000000.tar", [("d.txt", b"dev"), ("d.wav", wav())])
    write_tar(dev / "shards" / "shards_000000001.tar", [("unlisted-too.wav", wav())])
    (dev / "data.list").write_bytes(b"shards/shards_000000000.tar\n")


SPLITS = {
    "root": "data",
    "utterances": 5,
    "rejects": EXPECTED["rejects"],
    "splits": {"train": 4, "dev": 1},
    "all_ids": [*EXPECTED["all_ids"], "d"],
    "ids": {"d": {"source": "dev/shards/shards_000000000.tar/d.wav", "split": "dev"},
            "BAC009S0002W0123": {"source": "train/shards/shards_000000000.tar/BAC009S0002W0123.wav"}},
}


def make_shards(root, clip):
    make(root, clip)
    (root / "data" / "train" / "data.list").unlink()


CASES = {
    "folder": (make, dict(EXPECTED, root="data/train")),
    "file": (make, dict(EXPECTED, root="data/train/data.list")),
    "splits": (make_splits, SPLITS),
    "without a list": (make_shards, {"root": "data/train/shards", "utterances": 5, "rejects": {}}),
}
