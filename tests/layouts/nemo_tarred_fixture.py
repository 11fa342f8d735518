"""NeMo manifests of archives: the output of its tool, and later changes to that output."""
from nemo_fixture import write_lines
from tars import Clips, write_tar


def row(name, text, shard=None, **others):
    fields = {"audio_filepath": name, "duration": 0.4, "text": text}
    return {**fields, **({} if shard is None else {"shard_id": shard}), **others}


ROWS = [
    row("home_user_a_wav.wav", "first", 0, duration=0.5, lang="en", speaker="s1"),
    row("changed.wav", "another extension", 1),  # the order of the archives differs from the order of the lines
    row("long.flac", "cut one", 0, offset=0.1, duration=0.3),
    row("long-sub1.flac", "cut two", 0, offset=0.4, duration=0.5),
    row("long-sub2.flac", "to the end", 0, offset=1.0, duration=None),
    row("own-sub1.wav", "a member of its own", 0, duration=0.3),
    row("talk_1.5_0.4.wav", "sliced", 0, source_audio_offset=1.5),
    row("skipped.wav", "not wanted", 0, _skipme=True),
    row("corrupt.wav", "bytes that are no audio", 1),
    row("twin.wav", "twin", 1),
    row("twin.flac", "other twin", 1, offset=0.1, duration=0.2),
    row("missing.wav", "no member", 1),
    row("long.flac", "in the other archive", 1),
    row("far.wav", "no archive", 7),
    row("nowhere.wav", "no number"),
    b'{"audio_filepath": "broken.wav", "shard_id": 1, "text": "no end\n',
]


def write_archives(folder, audio):
    write_tar(folder / "audio_0.tar", [
        ("home_user_a_wav.wav", audio(seconds=0.5)),
        ("long.flac", audio("flac", seconds=1.2)),
        ("own.wav", audio()),
        ("own-sub1.wav", audio(seconds=0.3)),
        ("talk_1.5_0.4.wav", audio()),
        ("skipped.wav", audio()),
    ])
    write_tar(folder / "audio_1.tar", [
        ("twin.flac", audio("flac")),
        ("./changed.opus", audio("opus")),
        ("corrupt.wav", b"<html>not found</html>" * 40),
        ("twin.wav", audio(seconds=0.6)),
        ("orphan.wav", audio()),
    ])


def make(root, clip):
    write_archives(root, Clips(root, clip))
    write_lines(root / "tarred_audio_manifest.json", ROWS)
    write_lines(root / "sharded_manifests" / "manifest_0.json", [row("twice.wav", "twice", 0)])
    (root / "metadata.yaml").write_text("dataset_config:\n  num_shards: 2\n")


EXPECTED = {
    "utterances": 9, "excluded": 1,
    "rejects": {"missing_audio": (4, 4), "row_syntax": (1, 1), "excluded_by_rule": (1, 0),
                "not_audio": (1, 1), "orphan_audio": (2, 0), "duration_mismatch": (1, 0)},
    "reject_details": {"twin": "the metadata state 0.400 s, but the audio has 0.600 s"},
    "domains": {"en": 1, "default": 8},
    "speakers": 1,
    "all_ids": ["home_user_a_wav", "changed", "long#100000000-400000000",
                "long-sub1#400000000-900000000", "long-sub2#1000000000-end", "own-sub1",
                "talk_1.5_0.4", "twin",
                "twin#100000000-300000000"],
    "ids": {
        "home_user_a_wav": {"text": "first", "speaker": "s1", "language": "en", "seconds": 0.5,
                            "source": "audio_0.tar/home_user_a_wav.wav", "extras": {"shard_id": 0}},
        "changed": {"text": "another extension", "source": "audio_1.tar/changed.opus"},
        "long-sub1#400000000-900000000": {"text": "cut two", "samples": 8000, "start_sample": 6400,
                                          "source": "audio_0.tar/long.flac"},
        "own-sub1": {"seconds": 0.3},
        "twin": {"seconds": 0.6, "source": "audio_1.tar/twin.wav"},
        "twin#100000000-300000000": {"source": "audio_1.tar/twin.flac"},
        "talk_1.5_0.4": {"extras": {"source_audio_offset": 1.5}},
    },
}


def make_sharded(root, clip):
    """Only the manifests of single archives; the lines need no number."""
    write_archives(root, Clips(root, clip))
    for shard in range(2):
        write_lines(root / "sharded_manifests" / f"manifest_{shard}.json",
                    [{key: value for key, value in fields.items() if key != "shard_id" or shard == 0}
                     for fields in ROWS if isinstance(fields, dict) and fields.get("shard_id") == shard])


def make_buckets(root, clip):
    """The same names in two buckets, of which one has the manifests of single archives."""
    audio = Clips(root, clip)
    for bucket in ("bucket1", "bucket2"):
        write_tar(root / bucket / "audio_0.tar", [("a_wav.wav", audio())])
    write_lines(root / "bucket1" / "tarred_audio_manifest.json", [row("a_wav.wav", "one", 0)])
    write_lines(root / "bucket2" / "sharded_manifests" / "manifest_0.json", [row("a_wav.wav", "two", 0)])


CASES = {
    "folder": (make, EXPECTED),
    "file": (make, dict(EXPECTED, root="tarred_audio_manifest.json")),
    "sharded": (make_sharded, {
        "utterances": 9, "excluded": 1,
        "rejects": {"missing_audio": (2, 2), "excluded_by_rule": (1, 0), "not_audio": (1, 1),
                    "orphan_audio": (2, 0), "duration_mismatch": (1, 0)},
        "all_ids": EXPECTED["all_ids"],
    }),
    "buckets": (make_buckets, {
        "rejects": {},
        "all_ids": ["bucket1/a_wav", "bucket2/a_wav"],
        "ids": {"bucket1/a_wav": {"text": "one"}, "bucket2/a_wav": {"text": "two"}},
    }),
    "one bucket": (make_buckets, {"root": "bucket2", "all_ids": ["a_wav"]}),
}
