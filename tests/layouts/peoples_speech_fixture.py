"""The People's Speech in its archives and unpacked, its site release, and its bucket form."""
import hashlib
import json
import tarfile

from bad_types import bad_rows


def member_name(identifier, document, index):
    key = f"{identifier}/{document}"
    for old, new in (("/", "_SLASH_"), (".", "_DOT_"), (" ", "_SPACE_")):
        key = key.replace(old, new)
    if len(key) >= 236:
        key = key[:172] + hashlib.sha256(key.encode()).hexdigest()
    return f"{key}_{index:05d}.flac"


def document(identifier, names, labels, durations, order=("duration_ms", "label", "name"), **more):
    lists = {"duration_ms": durations, "label": labels, "name": names}
    if "output_paths" in order:
        lists["output_paths"] = lists.pop("name")
    return dict({"identifier": identifier, "training_data": {key: lists[key] for key in order}}, **more)


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" if isinstance(row, dict) else row
                            for row in rows), encoding="utf-8")


def forget_md5_and_length(path):
    """FLAC files as an encoder writes them to a pipe."""
    data = bytearray(path.read_bytes())
    assert data[:4] == b"fLaC" and data[4] & 0x7f == 0
    data[8 + 13] &= 0xf0
    data[8 + 14:8 + 34] = bytes(20)
    path.write_bytes(data)


def into_tar(path, files):
    """Move files into a tar, without their folders."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for file in files:
            tar.add(file, arcname=file.name)
    for file in files:
        file.unlink()


LONG = "x" * 300 + " item"
NAMES = {
    "first": member_name("gov.council 2016", "Council Meeting/part.1.mp3", 0),
    "second": member_name("gov.council 2016", "Council Meeting/part.1.mp3", 1),
    "long": member_name(LONG, "audio.mp3", 7),
    "sa": member_name("show", "e1.mp3", 3),
    "gone": member_name("show", "e1.mp3", 4),
    "val": "gov_dev_00001.flac",
    "test": "gov_test_00002.flac",
}
LABEL = "it costs 12 dollars \ufb01rst of all we\u2019ll see"


def make(root, clip):
    for seed, (subset, key) in enumerate([("train/clean", "first"), ("train/clean", "second"),
                                          ("train/clean", "long"), ("train/dirty_sa", "sa"),
                                          ("validation", "val"), ("test", "test")]):
        clip(root / subset / NAMES[key], seed=seed)
    forget_md5_and_length(root / "train" / "clean" / NAMES["first"])
    clean = [
        document("gov.council 2016", [NAMES["first"], NAMES["second"]], [LABEL, "two"], [400, 2400]),
        document(LONG, [NAMES["long"]], ["long name"], [400], order=("name", "label", "duration_ms"),
                 text_document_id="a.srt"),
        # The same member occurs in another document: one of the two is skipped.
        document("other", [NAMES["second"]], ["three"], [400], order=("label", "duration_ms", "name")),
        document("uneven", ["a.flac", "b.flac", "c.flac"], ["a", "b"], [1, 2, 3]),
        "{\"identifier\": \"broken\", \"training_data\": \n",
    ]
    write_lines(root / "train" / "clean.json", clean)
    write_lines(root / "train" / "clean_000000.json", clean[:1])
    write_lines(root / "train" / "dirty_sa.json",
                [document("show", [NAMES["sa"], NAMES["gone"]], ["hello", "gone"], [400, 400])])
    write_lines(root / "validation" / "validation.json",
                [document("dev", [NAMES["val"]], ["valid"], [400])])
    write_lines(root / "test" / "test.json", [document("test", [NAMES["test"]], [None], [400])])


EXPECTED = {
    "utterances": 6,
    "rejects": {"dup_id": (1, 1), "row_field_count": (1, 3), "row_syntax": (1, 1),
                "missing_audio": (1, 1), "excluded_by_rule": (1, 0), "duration_mismatch": (1, 0)},
    "domains": {"ps/clean": 3, "ps/dirty_sa": 1, "ps/validation": 1, "ps/test": 1},
    "splits": {"train": 4, "validation": 1, "test": 1},
    "languages": {"en": 6},
    "speakers": 0,
    "ids": {
        "gov_DOT_council_SPACE_2016_SLASH_Council_SPACE_Meeting_SLASH_part_DOT_1_DOT_mp3_00000": {
            "text": LABEL, "document": "gov.council 2016", "domain": "ps/clean", "split": "train",
            "seconds": 0.4, "extras": {"licence": "CC BY", "duration_ms": 400}},
        NAMES["second"][:-5]: {"extras": {"licence": "CC BY", "duration_ms": 2400}, "seconds": 0.4},
        NAMES["long"][:-5]: {"text": "long name", "document": LONG,
                             "extras": {"text_document_id": "a.srt"}},
        NAMES["sa"][:-5]: {"extras": {"licence": "CC BY-SA"}, "domain": "ps/dirty_sa"},
        "gov_dev_00001": {"split": "validation", "text": "valid", "document": "dev"},
        "gov_test_00002": {"split": "test", "text": None},
    },
}


def make_tarred(root, clip):
    """As on the Hugging Face hub: the members are in the order of their names."""
    make(root, clip)
    clean = root / "train" / "clean"
    names = sorted(NAMES[key] for key in ("first", "second", "long"))
    into_tar(clean / "clean_000000.tar", [clean / name for name in names[:2]])
    into_tar(clean / "clean_000001.tar", [clean / name for name in names[2:]])
    (clean / "n_files.txt").write_text("2\n")
    for folder, stem, key in (("train/dirty_sa", "dirty_sa_000000", "sa"),
                              ("validation", "validation_000000", "val"),
                              ("test", "test_000000", "test")):
        into_tar(root / folder / f"{stem}.tar", [root / folder / NAMES[key]])


def make_lost(root, clip):
    make_tarred(root, clip)
    (root / "train" / "clean" / "clean_000001.tar").unlink()


def make_early(root, clip):
    """Manifests in the root, and one member three times, in two archives: names were once cut to
    100 characters."""
    clean = root / "clean"
    clips = [clip(clean / f"{seed}.flac", seconds=0.4 + seed / 10, seed=seed) for seed in range(3)]
    for number, members in enumerate((clips[:2], clips[2:])):
        with tarfile.open(clean / f"clean_{number:06d}.tar", "w") as tar:
            for member in members:
                tar.add(member, arcname=NAMES["first"])
                member.unlink()
    write_lines(root / "clean.json", [document("gov", [NAMES["first"]], ["one"], [400])])


def make_microset(root, clip):
    """One archive of a subset, with the manifest that was made for it."""
    clean = root / "train" / "clean"
    into_tar(clip(clean / NAMES["first"], seed=1).parent / "clean_000000.tar",
             [clean / NAMES["first"]])
    write_lines(root / "train" / "clean_000000.json",
                [document("gov", [NAMES["first"]], ["one"], [400])])


def make_site_tarred(root, clip, order=("duration_ms", "label", "name")):
    """One archive per subset, saved with the query of its address in the name."""
    for seed, (subset, key) in enumerate([("dirty_sa", "sa"), ("clean", "first")]):
        stem = f"part-00000-{seed}f7a1c52-6b5e-4a7e-9a1f-0c6f8a2b4d10-c000"
        member = clip(root / subset / NAMES[key], seed=seed)
        into_tar(root / subset / f"{stem}.tar?authorization=3_2022_ab%2Bc", [member])
        write_lines(root / subset / f"{stem}.json?authorization=3_2022_de%2Ff",
                    [document("show", [NAMES[key]], ["hello"], [400], order=order)])


def make_site_paths(root, clip):
    make_site_tarred(root, clip, order=("label", "output_paths", "duration_ms"))


def make_site(root, clip):
    stem = "part-00000-3f7a1c52-6b5e-4a7e-9a1f-0c6f8a2b4d10-c000"
    clip(root / "dirty" / stem / NAMES["sa"], seed=1)
    write_lines(root / "dirty" / f"{stem}.json?authorization=abc",
                [document("show", [NAMES["sa"]], ["hello"], [400])])


def make_bucket(root, clip):
    clip(root / "training_set" / "show" / NAMES["sa"], seed=1)
    clip(root / "training_set" / NAMES["first"], seed=2)
    write_lines(root / "dataset_manifest_mp3_clean_all.json", [
        document("show", [f"gs://bucket/out/training_set/show/{NAMES['sa']}"], ["hello"], [400],
                 order=("duration_ms", "label", "output_paths"), audio_document_id="e1.mp3"),
        document("gov", [f"training_set/{NAMES['first']}"], ["one"], [400],
                 order=("output_paths", "label", "duration_ms")),
    ])
    (root / "credits.csv").write_text("identifier,creator\n")


SITE = {
    "utterances": 2, "rejects": {}, "domains": {"ps/dirty_sa": 1, "ps/clean": 1},
    "ids": {NAMES["sa"][:-5]: {"text": "hello", "extras": {"licence": "CC BY-SA"}}},
}

def make_types(root, clip):
    clip(root / "train" / "clean" / "3.flac", seed=1)
    good = document("show", ["3.flac"], ["right"], [400])
    bad = bad_rows(good, {"identifier": "text", "training_data.label": "list", "training_data.name": "list",
                          "training_data.duration_ms": "list"})
    bad += [document("show", [name], [label], [duration])
            for name, label, duration in ((3, "x", 400), (["3"], "x", 400), ("3.flac", 3, 400), ("3.flac", "x", "400"))]
    write_lines(root / "train" / "clean.json", [*bad, good])


CASES = {
    "types": (make_types, {"all_ids": ["3"], "ids": {"3": {"text": "right", "document": "show"}},
                           "rejects": {"row_syntax": (17, 17)}}),
    "unpacked": (make, EXPECTED),
    "split": (make, {"options": ["--split", "dirty_sa,test"], "utterances": 2, "excluded": 8,
                     "splits": {"train": 1, "test": 1}}),
    "tarred": (make_tarred, EXPECTED),
    "tarred, one archive lost": (make_lost, {
        "utterances": 5, "rejects": {**EXPECTED["rejects"], "missing_audio": (2, 2),
                                     "count_mismatch": (1, 0)}}),
    "early": (make_early, {
        "utterances": 1, "rejects": {"dup_member": (2, 0), "duration_mismatch": (1, 0)}, "domains": {"ps/clean": 1},
        "ids": {NAMES["first"][:-5]: {"text": "one", "seconds": 0.6}}}),
    "microset": (make_microset, {
        "utterances": 1, "rejects": {}, "domains": {"ps/clean": 1}, "splits": {"train": 1}}),
    "a manifest": (make_tarred, {
        "root": "train/dirty_sa.json", "utterances": 1, "rejects": {"missing_audio": (1, 1)},
        "domains": {"ps/dirty_sa": 1}}),
    "site, tarred": (make_site_tarred, SITE),
    "site, output_paths": (make_site_paths, SITE),
    "site, one subset": (make_site_tarred, {
        "root": "dirty_sa", "utterances": 1, "domains": {"ps/dirty_sa": 1},
        "ids": {NAMES["sa"][:-5]: {"source": NAMES["sa"]}}}),
    "site": (make_site, {"utterances": 1, "rejects": {}, "domains": {"ps/dirty": 1},
                         "all_ids": [NAMES["sa"][:-5]]}),
    "bucket": (make_bucket, {
        "utterances": 2, "rejects": {}, "domains": {"ps/clean": 2},
        "ids": {NAMES["sa"][:-5]: {"text": "hello", "extras": {"audio_document_id": "e1.mp3"}},
                NAMES["first"][:-5]: {"text": "one", "document": "gov"}}}),
}
