"""Lhotse Shar: cuts and archives in the same order, with errors between them."""
import gzip
import io
import json
import tarfile

from bad_types import bad_rows


def cut(name, supervisions, duration=0.5, **more):
    """A cut as Shar's writer writes it: it starts at 0, and its recording is a placeholder."""
    return {"id": name, "start": 0, "duration": duration, "channel": 0, "type": "MonoCut",
            "supervisions": [{"id": f"{name}-{i}", "recording_id": f"rec-{name}", "start": start,
                              "duration": seconds, "channel": 0, "text": text, "speaker": "s1", "gender": "m"}
                             for i, (start, seconds, text) in enumerate(supervisions)],
            "recording": {"id": f"rec-{name}", "sources": [{"type": "shar", "channels": [0], "source": ""}],
                          "sampling_rate": 16000, "num_samples": round(duration * 16000), "duration": duration,
                          "channel_ids": [0]}, **more}


def write_cuts(path, rows):
    text = b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows)
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def write_tar(path, members):
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def pair(root, clip, name, extension, seed, data_name=None):
    """The two members of a cut."""
    made = clip(root / f"made.{'flac' if extension == 'original' else extension}", seconds=0.5, seed=seed)
    audio = made.read_bytes()
    made.unlink()
    return [(f"{data_name or name}.{extension}", audio),
            (f"{data_name or name}.json", json.dumps(cut(name, [])["recording"]).encode() + b"\n")]


def make(root, clip):
    root = root / "train-clean"
    root.mkdir()
    # A complete archive: one cut without a written recording, one without a supervision, one with
    # two.
    write_cuts(root / "cuts.000000.jsonl.gz", [
        cut("a.1", [(0, 0.5, "one whole")], custom={"snr": 3}),
        cut("dir/b", [(0.0, 0.25, "first"), (0.25, 0.25, "second")]),
        cut("nothing", [(0, 0.5, "lost")]),
        cut("c", []),
        b"{broken\n",
        cut("d", [(-0.1, 0.3, "begins before its audio")]),
        {"id": "mixed", "type": "MixedCut", "tracks": []},
    ])
    write_tar(root / "recording.000000.tar",
              pair(root, clip, "a.1", "flac", 1) + pair(root, clip, "dir/b", "original", 2) +
              [("nothing.nodata", b""), ("nothing.nometa", b"")] + pair(root, clip, "c", "wav", 3) +
              pair(root, clip, "broken", "wav", 4) + pair(root, clip, "d", "wav", 5) +
              pair(root, clip, "mixed", "wav", 6))
    # The archive ends one cut early; a member in it has another name.
    write_cuts(root / "cuts.000001.jsonl", [cut("e", [(0, 0.5, "e")]), cut("f", [(0, 0.5, "f")]),
                                            cut("g", [(0, 0.2, "g"), (0.2, 0.2, "h")])])
    write_tar(root / "recording.000001.tar",
              pair(root, clip, "e", "flac", 7) + pair(root, clip, "f", "flac", 8, "other"))
    # The cuts end one recording early, and a member has no partner.
    write_cuts(root / "cuts.000002.jsonl.gz", [cut("i", [(0, 0.5, "i")])])
    write_tar(root / "recording.000002.tar",
              pair(root, clip, "single", "flac", 9)[:1] + pair(root, clip, "i", "flac", 10) +
              pair(root, clip, "j", "flac", 11))
    for i in range(3):
        (root / f"recording.{i:06}.tar.idx").write_bytes(b"\0" * 24)
        write_tar(root / f"features.{i:06}.tar", [("a.1.llc", b"x"), ("a.1.json", b"{}")])
    write_cuts(root / "snr.000000.jsonl.gz", [{"cut_id": "a.1", "snr": 3}])


EXPECTED = {
    "utterances": 6,
    "rejects": {"missing_audio": (1, 1), "row_syntax": (1, 1), "segment_range": (1, 1), "unsupported_source": (1, 1),
                "bad_member": (2, 1), "count_mismatch": (2, 2), "excluded_by_rule": (2, 0)},
    "rows_in": 13,
    "splits": {"train": 6},
    "domains": {"default": 6},
    "speakers": 1,
    "ids": {
        "a.1-0": {"text": "one whole", "samples": 8000, "speaker": "s1", "document": "rec-a.1",
                  "source": "train-clean/recording.000000.tar/a.1.flac",
                  "extras": {"gender": "m", "cut": "a.1", "cut_custom": {"snr": 3}}},
        "dir/b-0": {"text": "first", "samples": 4000, "start_sample": 0},
        "dir/b-1": {"text": "second", "samples": 4000, "start_sample": 4000},
        "c": {"text": None, "samples": 8000},
        "e-0": {"text": "e"},
        "i-0": {"text": "i"},
    },
}


def make_single(root, clip):
    write_cuts(root / "cuts.jsonl.gz", [cut("a", [(0, 0.5, "one")])])
    write_tar(root / "recording.tar", pair(root, clip, "a", "original", 1))


def make_truncated(root, clip):
    """An archive that ends in the middle of its fourth recording."""
    make(root, clip)
    archive = root / "train-clean" / "recording.000000.tar"
    archive.write_bytes(archive.read_bytes()[:30000])


TRUNCATED = {
    "utterances": 5,
    "rejects": {"missing_audio": (1, 1), "truncated": (1, 0), "count_mismatch": (3, 6), "bad_member": (2, 1),
                "excluded_by_rule": (2, 0)},
    "rows_in": 13,
    # Not packed into archives: recompressed data would not be truncated.
    "archive": False,
}

def make_types(root, clip):
    """The correct cut has the id of the cuts with wrong types."""
    bad = bad_rows(cut("a", [(0, 0.5, "wrong")]), {"id": "text", "recording.id": "text", "recording": "object",
                                                  "supervisions.0.id": "text", "supervisions.0.text": "text"})
    write_cuts(root / "cuts.jsonl.gz", [*bad, cut("a", [(0, 0.5, "right")])])
    write_tar(root / "recording.tar", pair(root, clip, "a", "flac", 1) * (len(bad) + 1))


CASES = {
    "types": (make_types, {"archive": False, "all_ids": ["a-0"], "ids": {"a-0": {"text": "right"}},
                           "rejects": {"row_syntax": (19, 19)}}),
    "shards": (make, EXPECTED),
    "truncated": (make_truncated, TRUNCATED),
    "one shard": (make_single, {"all_ids": ["a-0"], "rejects": {}, "rows_in": 1}),
    "split": (make, {"options": ["--split", "train-clean"], "utterances": 6}),
}
