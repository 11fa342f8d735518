"""VoxPopuli, transcribed: one table per split, with the audio in the folder of its year; and only
the annotation."""
import gzip
import shutil
import tarfile

HEADER = "id\traw_text\tnormalized_text\tspeaker_id\tsplit\tgender\tis_gold_transcript\taccent\n"
SESSION = "20090112-0900-PLENARY-3-{}_20090112-18:48:33_{}"


def make(root, clip):
    for language, seed in (("hr", 10), ("en_accented", 40)):
        tree = root / "voxpopuli" / "transcribed_data" / language
        ids = [SESSION.format(language, i) for i in range(4)]
        ids.append(ids[0].replace("2009", "2012"))
        for i, name in enumerate(ids):
            if i != 1:
                clip(tree / name[:4] / f"{name}.ogg", seed=seed + i)
        clip(tree / "2012" / f"{SESSION.format(language, 9)}.ogg", seed=seed + 9)
        row = "{}\t{}\t{}\t{}\t{}\tmale\tFalse\tNone\n"
        (tree / "asr_test.tsv").write_text(
            HEADER + row.format(ids[0], 'Ovo je "test', "ovo je test", "96745", "test") +
            row.format(ids[1], "Nema zvuka.", "nema zvuka", "96745", "test"), encoding="utf-8")
        (tree / "asr_train.tsv").write_text(
            HEADER + row.format(ids[2], "", "čšž bez sirovog", "N/A", "train") +
            row.format(ids[3], "Loše.", "loše", "5", "invalid") +
            row.format(ids[4], "Drugo.", "", "5", ""), encoding="utf-8")


FIRST, LAST = SESSION.format("hr", 0), SESSION.format("hr", 0).replace("2009", "2012")

EXPECTED = {
    "utterances": 6, "excluded": 2,
    "rejects": {"missing_audio": (2, 2), "orphan_audio": (2, 0), "excluded_by_rule": (1, 0)},
    "domains": {"voxpopuli/hr": 3, "voxpopuli/en_accented": 3},
    "splits": {"train": 4, "test": 2},
    "languages": {"hr": 3, "en": 3},
    "ids": {
        f"2009/{FIRST}": None,
        FIRST: {"text": "ovo je test", "speaker": "voxpopuli/96745", "language": "hr",
                "split": "test", "extras": {"raw_text": 'Ovo je "test', "gender": "male",
                                            "is_gold_transcript": "False"}},
        SESSION.format("hr", 2): {"text": "čšž bez sirovog", "speaker": None},
        SESSION.format("hr", 3): None,
        LAST: {"text": None, "split": "train", "extras": {"raw_text": "Drugo."}},
    },
}


COLUMNS = ("id_|paragraph_id|session_id|speaker_id|original_text|normed_text|decoded|start_time|end_time|cer|wer|vad|"
           "split|gender")
EVENT = "20090112-0900-PLENARY-3-{}"


def annotation(language, rows):
    lines = [COLUMNS] + [f'{i}|{i[:8]}|{EVENT.format(language)}|{speaker}|{original}|{normed}|x y|1.5|2.5|0.1|0.2|'
                         f'"[(1.5, 2.0), (2.1, 2.5)]"|{split}|female'
                         for i, speaker, original, normed, split in rows]
    return gzip.compress("\n".join(lines).encode() + b"\n", mtime=0)


ROWS = [
    ("20090112-18:48:33_0", "96745", '"Ovo je | ""test"""', "ovo je test", "test"),
    ("20090112-18:48:33_1", "N/A", "", "čšž bez sirovog", "train"),
    ("20090112-18:48:33_2", "5", "Loše.", "loše", "invalid"),
    ("20090112-18:48:33_3", "5", "Nema zvuka.", "nema zvuka", "dev"),
    ("20090112-18:48:33_4", "5", "Bez norme.", "", "train"),
]


def make_annotation(root, clip):
    tree = root / "transcribed_data" / "hr"
    for i in (0, 1, 2, 4):
        clip(tree / "2009" / f"{EVENT.format('hr')}-20090112-18:48:33_{i}.ogg", seed=i)
    (tree / "asr_hr.tsv.gz").write_bytes(annotation("hr", ROWS))


def make_both(root, clip):
    make(root, clip)
    (root / "voxpopuli" / "transcribed_data" / "hr" / "asr_hr.tsv.gz").write_bytes(annotation("hr", ROWS))


ANNOTATION = {
    "utterances": 3,
    "rejects": {"missing_audio": (1, 1), "excluded_by_rule": (1, 0)},
    "rows_in": 5,
    "excluded": 1,
    "domains": {"voxpopuli/hr": 3},
    "splits": {"train": 2, "test": 1},
    "languages": {"hr": 3},
    "speakers": 2,
    "ids": {
        f"{EVENT.format('hr')}-20090112-18:48:33_0": {
            "text": "ovo je test", "split": "test", "speaker": "voxpopuli/96745",
            "document": EVENT.format("hr"),
            "extras": {"original_text": 'Ovo je | "test"', "vad": "[(1.5, 2.0), (2.1, 2.5)]", "cer": "0.1"}},
        f"{EVENT.format('hr')}-20090112-18:48:33_1": {"text": "čšž bez sirovog", "speaker": None},
        f"{EVENT.format('hr')}-20090112-18:48:33_4": {"text": None},
    },
}

def make_mirror(root, clip):
    """As on the Hugging Face hub, with its archives unpacked."""
    tree = root / "data" / "hr"
    row = "{}\t{}\t{}\t96745\t{}\tmale\tFalse\tNone\n"
    for seed, (split, number, part) in enumerate([("train", 0, 0), ("train", 1, 1), ("test", 2, 0)]):
        clip(tree / split / f"{split}_part_{part}" / f"{SESSION.format('hr', number)}.wav", seed=seed)
    clip(tree / "test" / "test_part_0" / f"{SESSION.format('hr', 9)}.wav", seed=9)
    rows = {"train": (0, 1, 5), "test": (2,), "dev": ()}
    for split, numbers in rows.items():
        (tree / f"asr_{split}.tsv").write_text(HEADER + "".join(
            row.format(SESSION.format("hr", n), f"Broj {n}.", f"broj {n}", split) for n in numbers),
            encoding="utf-8")
    (root / "data" / "n_files.json").write_text('{"hr": {"train": 2, "dev": 1, "test": 1}}')


def make_mirror_tarred(root, clip):
    make_mirror(root, clip)
    for folder in sorted((root / "data" / "hr").glob("*/*_part_*")):
        with tarfile.open(folder.parent / f"{folder.name}.tar.gz", "w:gz") as tar:
            tar.add(folder, arcname=folder.name)
        shutil.rmtree(folder)


MIRROR = {
    "utterances": 3, "rejects": {"missing_audio": (1, 1), "orphan_audio": (1, 0)},
    "domains": {"voxpopuli/hr": 3}, "splits": {"train": 2, "test": 1}, "languages": {"hr": 3},
    "ids": {SESSION.format("hr", 1): {
        "text": "broj 1", "speaker": "voxpopuli/96745", "split": "train",
        "source": f"data/hr/train/train_part_1/{SESSION.format('hr', 1)}.wav"}},
}

CASES = {
    "mirror": (make_mirror, MIRROR),
    "mirror, archives": (make_mirror_tarred, MIRROR),
    "tables": (make, EXPECTED),
    "annotation": (make_annotation, ANNOTATION),
    "invalid": (make_annotation, {"options": ["--split", "invalid"], "utterances": 1, "excluded": 4}),
    "both": (make_both, {**EXPECTED, "rejects": {**EXPECTED["rejects"], "excluded_by_rule": (2, 0)}}),
}
