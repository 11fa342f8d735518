"""Common Voice, spontaneous speech: one table with a split column."""

COLUMNS = ("client_id audio_id audio_file duration_ms prompt_id prompt transcription votes age gender "
           "accents variant language prompt_upvotes prompt_reports is_edited split char_per_sec "
           "quality_tags").split()
OLD = [name for name in COLUMNS if name not in ("prompt_upvotes", "prompt_reports", "is_edited")]


def write_tree(root, clip, locale, columns, rows, seed):
    tree = root / f"sps-corpus-3.0-2026-03-09-{locale}"
    lines = ["\t".join(columns)]
    for i, (number, more) in enumerate(rows.items()):
        values = {"client_id": "d" * 128, "audio_id": str(number), "duration_ms": "400",
                  "audio_file": f"spontaneous-speech-{locale}-{number}.mp3", "prompt_id": "77",
                  "prompt": 'Was heißt "Glück?', "language": locale, "split": "train", **more}
        lines.append("\t".join(values.get(name, "") for name in columns))
        clip(tree / "audios" / values["audio_file"], rate=32000, seed=seed + i)
    clip(tree / "audios" / f"spontaneous-speech-{locale}-999.mp3", seed=seed + 50)
    (tree / f"ss-corpus-{locale}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tree / f"ss-reported-audios-{locale}.tsv").write_text(
        f"audio_file\treason\nspontaneous-speech-{locale}-999.mp3\tother\n")
    (tree / f"ss-corpus-{locale}.qa-summary.json").write_text("{}\n")
    (tree / "README.md").write_text("# Spontaneous speech\n")


def make(root, clip):
    write_tree(root, clip, "de", COLUMNS, {
        11: {"transcription": 'Na ja, "Glück', "quality_tags": "noise|short|lang"},
        12: {"transcription": "", "split": "unassigned"},
        13: {"transcription": "nan", "split": "dev", "age": "teens", "duration_ms": "4000"},
        14: {"transcription": "drei", "split": "test", "client_id": "e" * 128}}, 10)
    write_tree(root, clip, "cy", OLD, {21: {"transcription": "Wel"}}, 80)


EXPECTED = {
    "utterances": 5,
    "rejects": {"orphan_audio": (2, 0), "duration_mismatch": (1, 0)},
    "domains": {"cv-sps/de": 4, "cv-sps/cy": 1},
    "splits": {"train": 2, "dev": 1, "test": 1, "unassigned": 1},
    "languages": {"de": 4, "cy": 1},
    "speakers": 2,
    "ids": {
        "11": {"text": 'Na ja, "Glück', "speaker": "cv-sps/" + "d" * 128, "document": "77",
               "extras": {"quality_tags": "noise|short|lang", "prompt": 'Was heißt "Glück?'}},
        "12": {"text": None, "split": "unassigned"},
        "13": {"text": "nan", "extras": {"age": "teens", "duration_ms": "4000"}},
        "21": {"domain": "cv-sps/cy"},
    },
}
