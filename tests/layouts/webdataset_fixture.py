"""WebDataset: keys and extensions as its readers split names, shards whose keys repeat, tars
of every dialect, and the stream that `pack -` reads."""
import json
import tarfile

from bad_types import bad_rows
from tars import Clips, tar_bytes, write_tar

LONG = "talk-" + "x" * 120
DEEP = "/".join(["folder-" + "y" * 40] * 7) + "/ünïcode"


def json_bytes(**members):
    return json.dumps(members, ensure_ascii=False).encode()


def make(root, clip):
    audio = Clips(root, clip)
    write_tar(root / "train" / "talks-000000.tar", [
        ("__meta__.json", b"{}"),
        ("000000.flac", audio("flac", seconds=0.5)),
        ("000000.txt", b"first text\n"),
        ("000001.wav", audio()),
        ("000001.json", json_bytes(transcript="Zweiter „Text“", speaker_id=7, lang="de", snr=12.5,
                                   source="podcast", extra={"a": [1, None]}, normalized_text="zweiter")),
        ("000002.json", b"\xef\xbb\xbf" + json_bytes(text="json first", domain="calls", document="book",
                                                      speaker="N/A")),
        ("000002.opus", audio("opus")),
        ("README", b"no dot"),
        ("a.b/c.d.flac", audio("flac")),
        ("a.b/c.d.txt", b"dots"),
        ("000003.wav", audio()),
        ("000003.txt", b"the first of two"),
        ("000003.wav", audio()),
        ("000004.wav", audio()),
        ("000005.wav", audio()),
        ("000005.txt", b"between"),
        ("000004.txt", b"too late"),
        ("000006.flac", b""),
        ("000006.txt", b"no bytes"),
        ("000007.TXT", b"\xef\xbb\xbfupper case\r\n"),
        ("000007.FLAC", audio("flac")),
        ("000008.json", json_bytes(text="no audio")),
        ("000009.txt", b"no audio"),
        ("000010.wav", audio()),
        ("000010.json", b'{"text": "never closed'),
        ("000011.wav", audio()),
        *((f"000011.field{n}", b"") for n in range(62)),
        ("000011.json", json_bytes(text="the 64th member")),
        ("000011.txt", b"one too many"),
        ("000012.v1.wav", audio()),
        ("000012.v1.txt", b"version one"),
        ("000012.v2.wav", audio()),
        ("._000013.wav", b"left by a desktop"),
        ("000014.txt", b"the text file wins"),
        ("000014.json", json_bytes(text="the other", id="named-here")),
        ("000014.mp3", audio("mp3")),
    ])
    write_tar(root / "train" / "talks-000001.tar", [
        ("t1/a.txt", b"gnu"), ("t1/a.wav", audio()),
        (LONG + ".wav", audio()), (LONG + ".txt", b"a long name"),
    ], form=tarfile.GNU_FORMAT)
    write_tar(root / "train" / "talks-000002.tar", [
        (DEEP + ".wav", audio()), (DEEP + ".txt", b"a deep name"),
    ], form=tarfile.PAX_FORMAT)
    write_tar(root / "dev" / "talks-000000.tar", [
        ("dev-0.wav", audio()), ("dev-0.txt", b"dev"),
    ])


EXPECTED = {
    "utterances": 15,
    "rejects": {"dup_member": (4, 2), "empty_file": (1, 1), "missing_audio": (1, 1),
                "orphan_text": (1, 0), "row_syntax": (1, 1)},
    "domains": {"talks": 13, "de": 1, "calls": 1},
    "splits": {"train": 14, "dev": 1},
    "speakers": 1,
    "all_ids": ["000000", "000001", "000002", "a.b/c", "000003", "000004", "000005", "000007",
                "000011", "000012", "named-here", "t1/a", LONG, DEEP, "dev-0"],
    "ids": {
        "000000": {"text": "first text", "seconds": 0.5, "split": "train",
                   "source": "train/talks-000000.tar/000000.flac"},
        "000001": {"text": "Zweiter „Text“", "speaker": "7", "language": "de", "domain": "de",
                   "extras": {"snr": 12.5, "source": "podcast", "extra": {"a": [1, None]},
                              "normalized_text": "zweiter"}},
        "000002": {"text": "json first", "document": "book", "speaker": None},
        "a.b/c": {"text": "dots"},
        "000003": {"text": "the first of two"},
        "000004": {"text": None},
        "000007": {"text": "upper case"},
        "000011": {"text": "the 64th member"},
        "000012": {"text": "version one"},
        "named-here": {"text": "the text file wins", "extras": {"text": "the other"}},
        "t1/a": {"text": "gnu"},
        LONG: {"text": "a long name"},
        DEEP: {"text": "a deep name"},
        "dev-0": {"split": "dev"},
    },
}

LAST_DOT = {
    "options": ["--wds-key", "last-dot"],
    "utterances": 16,
    "rejects": {"dup_member": (3, 1), "empty_file": (1, 1), "missing_audio": (1, 1),
                "orphan_text": (1, 0), "row_syntax": (1, 1)},
    "ids": {
        "a.b/c.d": {"text": "dots"},
        "000012.v1": {"text": "version one"},
        "000012.v2": {"text": None},
    },
}


def make_repeated(root, clip):
    """Keys that begin again in each shard."""
    audio = Clips(root, clip)
    for number in range(2):
        write_tar(root / f"shard_{number}.tar", [
            ("0.wav", audio()), ("0.txt", f"text {number}".encode()),
            ("1.json", json_bytes(id=f"id-{number}")), ("1.wav", audio()),
        ])
    write_tar(root / "below" / "shard_0.tar", [("2.txt", b"only here"), ("2.wav", audio())])


REPEATED = {
    "utterances": 5,
    "rejects": {},
    "domains": {"default": 5},
    "all_ids": ["shard_0/0", "shard_1/0", "id-0", "id-1", "below/shard_0/2"],
    "ids": {"shard_1/0": {"text": "text 1", "source": "shard_1.tar/0.wav"}},
}


def make_same_texts(root, clip):
    """Shards that would overwrite each other if they were unpacked."""
    audio = Clips(root, clip)
    for number in range(2):
        write_tar(root / f"shard_{number}.tar", [("0.txt", b"same"), ("0.wav", audio())])


def make_packed_folder(root, clip):
    """One archive of audio with texts is a packed folder."""
    audio = Clips(root, clip)
    write_tar(root / "corpus.tar", [
        ("s1/a.b.wav", audio()), ("s1/a.b.txt", b"a text"), ("s1/c.wav", audio()),
    ])


PACKED_FOLDER = {
    "layout": "folder",
    "all_ids": ["s1/a.b", "s1/c"],
    "ids": {"s1/a.b": {"text": "a text", "source": "s1/a.b.wav"}},
}


def make_stream(root, clip):
    """The output of a program for `pack -`, in a file."""
    audio = Clips(root, clip)
    opus = audio("opus", rate=48000)
    write_tar(root / "stream.tar", [
        ("0.json", json_bytes(id="MLS/1_2_3", text=" kept  as it is \n", speaker="mls/1",
                              language="pl", domain="mls/polish", split="dev", document="2",
                              source="dev-00000-of-00001.parquet#0", nominal_rate_hz=16000,
                              extras={"gender": "F", "n": 1})),
        ("0.opus", opus),
        ("1.json", json_bytes(id="silent", source="x.parquet#1",
                              reject={"reason": "remote_source", "detail": "a link", "rows": 1})),
        ("2.json", json_bytes(reject={"reason": "no such reason"})),
        ("3.json", json_bytes(reject={"reason": "excluded_by_rule", "rows": 0})),
        ("4.json", json_bytes(id="empty", text="", extras={}, speaker="", language="pl",
                              unknown="left out", sample_rate_hz=16000, nominal_rate_hz=8000)),
        ("4.wav", audio()),
        ("5.json", json_bytes(extras={"k": "N/A"}, text=None, speaker="N/A")),
        ("5.wav", audio()),
        ("6.json", json_bytes(text="no audio", extras={})),
        ("7.json", b"[1, 2]"),
        ("7.wav", audio()),
        ("8.wav", audio()),
        ("9.json", json_bytes(id="empty", extras={})),
        ("9.wav", audio()),
    ])


STREAM = {
    "root": "stream.tar",
    "utterances": 4,
    "rejects": {"remote_source": (1, 1), "row_syntax": (2, 2), "excluded_by_rule": (1, 0),
                "missing_audio": (1, 1), "dup_id": (1, 1)},
    "domains": {"mls/polish": 1, "default": 3},
    "splits": {"": 3, "dev": 1},
    "all_ids": ["MLS/1_2_3", "empty", "5", "8"],
    "ids": {
        "MLS/1_2_3": {"text": " kept  as it is \n", "speaker": "mls/1", "language": "pl", "document": "2",
                      "nominal_sample_rate_hz": 16000,
                      "source": "dev-00000-of-00001.parquet#0", "extras": {"gender": "F", "n": 1}},
        # A WAV that is stored unchanged has the rate of its header, not the claimed one.
        "empty": {"text": "", "speaker": None, "domain": "default", "source": "4.wav",
                  "nominal_sample_rate_hz": 16000},
        "5": {"text": None, "speaker": "N/A", "extras": {"k": "N/A"}},
    },
}


def make_concatenated(root, clip):
    """Two tars in one file, followed by bytes that belong to neither."""
    audio = Clips(root, clip)
    parts = [tar_bytes([(f"{n}.wav", audio()), (f"{n}.txt", b"part")]) for n in range(2)]
    (root / "shard-000000.tar").write_bytes(b"".join(parts) + b"left over" * 200)


def make_truncated(root, clip):
    """A tar that ends within a member, and one that ends without its last blocks."""
    audio = Clips(root, clip)
    whole = tar_bytes([("0.wav", audio()), ("0.txt", b"whole"), ("1.txt", b"cut"), ("1.wav", audio())],
                      end=False)
    (root / "shard-000000.tar").write_bytes(whole[:-3000])
    write_tar(root / "shard-000001.tar", [("2.wav", audio()), ("2.txt", b"no end")], end=False)


TRUNCATED = {
    "archive": False,  # the reject names the tar that is cut off
    "rejects": {"truncated": (2, 0), "orphan_text": (1, 0)},
    "all_ids": ["0", "2"],
    "ids": {"0": {"text": "whole"}, "2": {"text": "no end"}},
}

def make_types(root, clip):
    """Our own fields have types. From another program's .json only a text that would otherwise be
    lost is used."""
    audio = Clips(root, clip)
    ours = bad_rows({"extras": {}, "reject": None}, {
        "id": "text", "text": "text", "source": "text", "speaker": "name", "language": "name", "domain": "name",
        "split": "name", "document": "name", "nominal_rate_hz": "list"})
    samples = [*ours, *bad_rows({}, {"text": "text"}), {"reject": {"reason": 5}}]
    samples += [{"id": 3, "text": 3, "sentence": "somebody's", "speaker": {"n": 1}},
                {"id": "0", "extras": {}, "text": "right", "speaker": 8}]
    write_tar(root / "shard-000000.tar", [part for number, sample in enumerate(samples) for part in (
        (f"{number}.json", json_bytes(**sample)), (f"{number}.wav", audio()))])


TYPES = {
    "rejects": {"row_syntax": (35, 35)},
    "all_ids": ["35", "0"],
    "ids": {"0": {"text": "right", "speaker": "8"},
            "35": {"text": "somebody's", "extras": {"id": 3, "text": 3, "speaker": {"n": 1}}}},
}

CASES = {
    "types": (make_types, TYPES),
    "folders": (make, EXPECTED),
    "last dot": (make, LAST_DOT),
    "split": (make, {"options": ["--split", "dev"], "all_ids": ["dev-0"], "excluded": 15}),
    "column": (make, {"options": ["--domain", "column:source"], "domains": {"podcast": 1, "default": 14}}),
    "repeated keys": (make_repeated, REPEATED),
    "same texts": (make_same_texts, {"rejects": {}, "all_ids": ["shard_0/0", "shard_1/0"]}),
    "packed folder": (make_packed_folder, PACKED_FOLDER),
    "stream": (make_stream, STREAM),
    "stream's column": (make_stream, {"root": "stream.tar", "options": ["--domain", "column:gender"],
                                      "domains": {"F": 1, "default": 3}}),
    "concatenated": (make_concatenated, {"all_ids": ["0", "1"], "rejects": {}}),
    "truncated": (make_truncated, TRUNCATED),
}
