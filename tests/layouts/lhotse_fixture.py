"""Lhotse manifests: recordings with supervisions, cuts, and entries that cannot be packed."""
import gzip
import json

from bad_types import bad_rows


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = gzip.open(path, "wb") if path.suffix == ".gz" else open(path, "wb")
    with opened as file:
        for row in rows:
            file.write(row if isinstance(row, bytes) else
                       json.dumps(row, ensure_ascii=False).encode() + b"\n")


def recording(name, source, kind="file", seconds=2.0, **more):
    return {"id": name, "sources": [{"type": kind, "channels": [0], "source": source}],
            "sampling_rate": 16000, "num_samples": round(seconds * 16000), "duration": seconds,
            "channel_ids": [0], **more}


def supervision(name, of, start, duration, text=None, **more):
    row = {"id": name, "recording_id": of, "start": start, "duration": duration, "channel": 0}
    return {**row, **({} if text is None else {"text": text}), **more}


def cut(name, start, duration, supervisions, source=None, **more):
    row = {"id": name, "start": start, "duration": duration, "channel": 0,
           "supervisions": supervisions, "type": "MonoCut"}
    return {**row, **({} if source is None else {"recording": source}), **more}


def make_clips(root, clip):
    for i in range(1, 5):
        clip(root / "audio" / f"rec-{i}.flac", seconds=2.0, seed=i)
    clip(root / "audio" / "stereo.wav", seconds=1.0, channels=2, seed=9)
    clip(root / "audio" / "dev.flac", seconds=1.0, seed=8)


TRAIN_RECORDINGS = [
    b"\xef\xbb\xbf" + json.dumps(recording("rec-1", "audio/rec-1.flac")).encode() + b"\n",
    recording("rec-2", "/export/corpora/demo/audio/rec-2.flac"),
    recording("rec-3", "flac -c -d -s audio/rec-3.flac", "command"),
    recording("rec-speed", "sox audio/rec-1.flac -t wav - speed 1.1", "command"),
    recording("rec-url", "https://example.org/a.flac", "url"),
    recording("rec-memory", "UklGRg==", "memory"),
    recording("rec-1_sp1.1", "audio/rec-1.flac",
              transforms=[{"name": "Speed", "kwargs": {"factor": 1.1}}]),
    {**recording("rec-two", "audio/rec-1.flac"),
     "sources": [{"type": "file", "channels": [i], "source": f"audio/rec-{i + 1}.flac"} for i in (0, 1)]},
    recording("rec-4", "audio/rec-4.flac", transforms=[]),
    recording("rec-gone", "audio/gone.flac"),
    recording("rec-1", "audio/rec-4.flac"),
    b'{"id": "rec-broken", "sources": [\n',
]

TRAIN_SUPERVISIONS = [
    supervision("rec-1-a", "rec-1", 0.25, 0.5, "Ünïcode \"quoted\" \u2028 \U0001f600", speaker="s1",
                gender="f", language="English", custom={"snr": 12.5, "city": "Łódź"},
                alignment={"word": [["Ünïcode", 0.25, 0.3, 1.0]]}),
    supervision("rec-2-a", "rec-2", 0.0, 2.0, "all of it", speaker="N/A"),
    supervision("rec-1-b", "rec-1", 1.1000000001, 0.8, "", speaker=17),
    supervision("rec-3-a", "rec-3", 0.5, 1.0, "from a command"),
    supervision("rec-speed-a", "rec-speed", 0.0, 1.0, "x"),
    supervision("rec-url-a", "rec-url", 0.0, 1.0, "x"),
    supervision("rec-memory-a", "rec-memory", 0.0, 1.0, "x"),
    supervision("rec-1_sp1.1-a", "rec-1_sp1.1", 0.0, 1.0, "x"),
    supervision("rec-two-a", "rec-two", 0.0, 1.0, "x"),
    supervision("rec-gone-a", "rec-gone", 0.0, 1.0, "x"),
    supervision("nowhere-a", "nowhere", 0.0, 1.0, "x"),
    supervision("empty", "rec-1", 0.5, 0.0, "x"),
    supervision("before", "rec-1", -0.5, 1.0, "x"),
    supervision("behind", "rec-1", 1.5, 1.0, "x"),
    b'{"id": "broken", "recording_id": \n',
]


def make_pairs(root, clip):
    make_clips(root, clip)
    write_lines(root / "demo_recordings_train-clean.jsonl.gz", TRAIN_RECORDINGS)
    write_lines(root / "demo_supervisions_train-clean.jsonl.gz", TRAIN_SUPERVISIONS)
    # The same id is another recording in another part.
    write_lines(root / "demo_recordings_dev.jsonl", [recording("rec-1", "audio/dev.flac", seconds=1.0)])
    write_lines(root / "demo_supervisions_dev.jsonl",
                [supervision("dev-1", "rec-1", 0.0, 0.5, "dev one"),
                 supervision("dev-2", "rec-1", 0.5, 0.5, "dev two")])
    write_lines(root / "demo_features_train-clean.jsonl",
                [{"type": "kaldi-fbank", "num_frames": 100, "start": 0.0, "duration": 1.0,
                  "storage_type": "lilcom_chunky", "recording_id": "rec-1", "channels": 0}])
    (root / "demo_supervisions_old.json").write_text(
        json.dumps([supervision("old", "rec-1", 0.0, 1.0, "x")], indent=1))


PAIRS = {
    "utterances": 6,
    # rec-4 has no supervision.
    "rejects": {"command_source": (2, 1), "remote_source": (1, 1), "unsupported_source": (3, 3),
                "missing_audio": (2, 2), "segment_range": (3, 3), "row_syntax": (2, 1), "dup_id": (1, 0),
                "orphan_audio": (1, 0), "unreadable": (1, 0)},
    "domains": {"demo": 6},
    "splits": {"train": 4, "dev": 2},
    "languages": {"English": 1},
    "speakers": 2,
    "ids": {
        "rec-1-a": {"text": "Ünïcode \"quoted\" \u2028 \U0001f600", "start_sample": 4000, "samples": 8000,
                    "speaker": "s1", "document": "rec-1", "source": "audio/rec-1.flac",
                    "extras": {"gender": "f", "custom": {"snr": 12.5, "city": "Łódź"}, "channel": 0,
                               "partition": "train-clean",
                               "alignment": {"word": [["Ünïcode", 0.25, 0.3, 1.0]]}}},
        "rec-1-b": {"text": None, "start_sample": 17600, "samples": 12800, "speaker": "17"},
        "rec-2-a": {"text": "all of it", "source": "audio/rec-2.flac", "samples": 32000, "speaker": None},
        "rec-3-a": {"text": "from a command", "source": "audio/rec-3.flac"},
        "dev-2": {"source": "audio/dev.flac", "split": "dev", "start_sample": 8000, "samples": 8000},
    },
}


def make_shared(root, clip):
    """One manifest of recordings for supervisions of two parts, with relative paths as recipes
    write them."""
    make_clips(root, clip)
    write_lines(root / "data" / "manifests" / "recordings.jsonl",
                [recording(f"rec-{i}", f"audio/rec-{i}.flac") for i in range(1, 5)])
    for part, name in (("train", "rec-1"), ("test", "rec-2")):
        write_lines(root / "data" / "manifests" / f"supervisions_{part}.jsonl",
                    [supervision(f"{part}-1", name, 0.0, 1.0, part, language="de")])


SHARED = {
    "root": "data/manifests",
    "utterances": 2,
    "rejects": {"orphan_audio": (2, 0)},
    "domains": {"de": 2},
    "splits": {"train": 1, "test": 1},
    "all_ids": ["train-1", "test-1"],
}


def make_cuts(root, clip):
    make_clips(root, clip)
    first = recording("rec-1", "./audio/rec-1.flac")
    write_lines(root / "demo_cuts_train.jsonl.gz", [
        cut("cut-1", 0.5, 1.25, [supervision("sup-1", "rec-1", 0.25, 0.5, "one", speaker="s1"),
                                 supervision("sup-2", "rec-1", -0.125, 0.25, "two"),
                                 supervision("sup-3", "rec-1", -0.75, 0.25, "before the recording")],
            first, custom={"dataloading": "x"}),
        cut("cut-2", 0.25, 1.0, [], first),
        {**cut("cut-3", 0.0, 1.0, [supervision("cut-3", "stereo", 0.0, 1.0, "both", channel=[0, 1])],
               recording("stereo", "audio/stereo.wav", channel_ids=[0, 1])), "channel": [0, 1],
         "type": "MultiCut"},
        {"id": "mixed", "type": "MixedCut", "tracks": [{"cut": cut("x", 0.0, 1.0, [], first), "offset": 0.0}]},
        {"id": "padding", "type": "PaddingCut", "duration": 1.0, "sampling_rate": 16000, "feat_value": -23.0},
        cut("features", 0.0, 1.0, [supervision("f-1", "rec-1", 0.0, 0.5, "x"),
                                   supervision("f-2", "rec-1", 0.5, 0.5, "x")]),
        cut("shar", 0.0, 1.0, [], recording("shar", "", "shar")),
        cut("no time", 0.0, 0.0, [], first),
        b"\n",
        b"not json\n",
    ])
    write_lines(root / "demo_recordings_train.jsonl.gz", [first])
    write_lines(root / "demo_supervisions_train.jsonl.gz", [supervision("sup-1", "rec-1", 0.75, 0.5, "one")])


CUTS = {
    "utterances": 4,
    "rejects": {"unsupported_source": (3, 3), "missing_audio": (2, 2), "segment_range": (2, 2),
                "row_syntax": (1, 1), "excluded_by_rule": (2, 0)},
    "domains": {"demo": 4},
    "splits": {"train": 4},
    "ids": {
        "sup-1": {"text": "one", "start_sample": 12000, "samples": 8000, "speaker": "s1",
                  "extras": {"cut": "cut-1", "cut_custom": {"dataloading": "x"}}},
        "sup-2": {"text": "two", "start_sample": 6000, "samples": 4000},
        "cut-2": {"text": None, "start_sample": 4000, "samples": 16000, "extras": {"channel": 0}},
        "cut-3": {"text": "both", "channels": 2, "extras": {"channel": [0, 1]}},
    },
}


def make_recordings(root, clip):
    make_clips(root, clip)
    write_lines(root / "demo_recordings_test.jsonl",
                [recording(f"rec-{i}", f"audio/rec-{i}.flac", seconds=1.9) for i in (1, 2)] +
                [recording("stereo", "audio/stereo.wav", seconds=1.04, channel_ids=[0, 1])])


def make_type_pairs(root, clip):
    """Recordings and supervisions with wrong types come before the correct ones with the same
    ids."""
    make_clips(root, clip)
    good = recording("rec-1", "audio/rec-1.flac", transforms=[])
    write_lines(root / "demo_recordings_train.jsonl", [recording("rec-2", "audio/rec-2.flac"), *bad_rows(
        good, {"id": "text", "sources": "list", "transforms": "list", "duration": "name"}), good])
    good = supervision("3", "rec-1", 0.0, 1.0, "right", speaker=4, language="en")
    write_lines(root / "demo_supervisions_train.jsonl", [supervision("2", "rec-2", 0.0, 1.0, "first"), *bad_rows(
        good, {"id": "text", "recording_id": "text", "start": "name", "duration": "name", "text": "text",
               "speaker": "name", "language": "name"}), good])


TYPE_PAIRS = {
    "rejects": {"row_syntax": (37, 24)},
    "all_ids": ["2", "3"],
    "ids": {"3": {"text": "right", "speaker": "4", "source": "audio/rec-1.flac"}},
}


def make_type_cuts(root, clip):
    make_clips(root, clip)
    good = cut("c", 0.5, 1.0, [supervision("3", "rec-1", 0.0, 0.5, "right")], recording("rec-1", "audio/rec-1.flac"))
    write_lines(root / "demo_cuts_train.jsonl", [cut("a", 0.0, 0.5, [], recording("rec-2", "audio/rec-2.flac")),
                                                 *bad_rows(good, {
        "id": "text", "type": "text", "start": "name", "duration": "name", "recording": "object",
        "recording.id": "text", "recording.sources": "list", "recording.sources.0.source": "text",
        "recording.sources.0.type": "text", "supervisions.0.id": "text", "supervisions.0.text": "text",
        "supervisions": "list"}), good])


TYPE_CUTS = {
    "rejects": {"row_syntax": (43, 43)},
    "all_ids": ["3", "a"],
    "ids": {"3": {"text": "right"}},
}


def make_list(root, clip):
    make_clips(root, clip)
    (root / "cuts.json").write_text(json.dumps([cut("cut-1", 0.0, 1.0, [], recording("rec-1", "a.flac"))]))


CASES = {
    "pairs": (make_pairs, PAIRS),
    "shared": (make_shared, SHARED),
    "cuts": (make_cuts, CUTS),
    "types in pairs": (make_type_pairs, TYPE_PAIRS),
    "types in cuts": (make_type_cuts, TYPE_CUTS),
    "one cuts file": (make_cuts, {**CUTS, "root": "demo_cuts_train.jsonl.gz",
                                  "rejects": {reason: count for reason, count in CUTS["rejects"].items()
                                              if reason != "excluded_by_rule"}}),
    "one supervisions file": (make_cuts, {"root": "demo_supervisions_train.jsonl.gz", "rejects": {},
                                          "all_ids": ["sup-1"]}),
    "recordings": (make_recordings, {"utterances": 3, "rejects": {"duration_mismatch": (2, 0)}, "splits": {"test": 3}, "ids": {
        "rec-1": {"text": None, "samples": 32000}}}),
    "split": (make_pairs, {"options": ["--split", "dev"], "all_ids": ["dev-1", "dev-2"], "excluded": 14}),
    "column": (make_pairs, {"options": ["--domain", "column:city"], "domains": {"Łódź": 1, "default": 5}}),
    "list": (make_list, {"status": 1, "stderr": "lhotse copy"}),
}
