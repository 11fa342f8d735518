"""Multilingual LibriSpeech as FLAC, as Opus, as both, and in small archives."""
import tarfile

METAINFO = (
    " SPEAKER   |   GENDER   | PARTITION  |  MINUTES   |  BOOK ID   |             TITLE              |"
    "            CHAPTER            \n"
    "  6892     |     M      |   train    |   7.610    |   10801    | Chłopi | Część Pierwsza          |"
    " Jesień 01                     \n"
    "  6892     |     M      |   secret   |   9.100    |   10801    | Chłopi | Część Pierwsza          |"
    " Jesień 02                     \n"
    "  8758     |     F      |    dev     |   3.020    |   9217     | Bajki                           |"
    " I|II                          \n"
)
TEXT = {
    "6892_10801_000000": "i-i'm zażółć gęślą jaźń",
    "6892_10801_000001": "po\u2028tym jak",
    "6892_10801_000007": "bez dźwięku",
    "7034_9188_000000": "\"w cudzysłowie",
    "8758_9217_000000": "d'artagnan",
    "8758_9217_000002": "ostatni",
}
URL = "http://www.archive.org/download/book_{}_librivox/chapter_01_64kb.mp3"
SILENT = "6892_10801_000007"
ODD = "6892_10801_000000"  # segments.txt states a length that differs from the audio


def write_split(split, ids, times):
    (split / "transcripts.txt").write_text(
        "".join(f"{name}\t{TEXT[name]}\n" for name in ids), encoding="utf-8")
    (split / "segments.txt").write_text(
        "".join(f"{name}\t{URL.format(name.split('_')[1])}\t{start}\t{end}\n"
                for name, start, end in times), encoding="utf-8")


def audio(split, name, extension):
    speaker, book, _ = name.split("_")
    return split / "audio" / speaker / book / f"{name}{extension}"


def make_tree(tree, clip, extension):
    splits = {
        "train": ["6892_10801_000000", "6892_10801_000001", SILENT, "7034_9188_000000"],
        "dev": ["8758_9217_000000"],
        "test": ["8758_9217_000002"],
    }
    for split, ids in splits.items():
        for name in ids:
            # The rate in an Opus header is only a hint: files with either rate hold 16 kHz material.
            rate = 48000 if extension == ".opus" and name.endswith("1") else 16000
            if name != SILENT:
                clip(audio(tree / split, name, extension), rate=rate,
                     seed=sum(name.encode()) + len(extension))
        # The order differs from the order of the transcripts and from the order of time.
        write_split(tree / split, ids,
                    [(name, f"{100 - i}.50", f"{100 - i}.92" if name != ODD else f"{110 - i}.25")
                     for i, name in enumerate(reversed(ids))])
    clip(audio(tree / "dev", "8758_9217_000009", extension), seed=901)
    clip(tree / "dev" / "audio" / "8758" / "9999" / f"8758_9217_000011{extension}", seed=902)
    (tree / "dev" / "audio" / "8758" / "9217" / "._x.flac").write_bytes(b"x")
    handles = tree / "train" / "limited_supervision"
    for fold in range(6):
        (handles / "1hr" / str(fold)).mkdir(parents=True)
        (handles / "1hr" / str(fold) / "handles.txt").write_text(
            "7034_9188_000000\n" if fold == 3 else "")
    (handles / "9hr").mkdir()
    (handles / "9hr" / "handles.txt").write_text("6892_10801_000001\n")
    (tree / "metainfo.txt").write_text(METAINFO, encoding="utf-8")
    (tree / "README").write_text("Multilingual LibriSpeech\n")
    (tree / "LICENSE").write_text("CC BY 4.0\n")


def make_flac(root, clip):
    make_tree(root / "mls_polish", clip, ".flac")
    (root / "mls_lm_polish").mkdir()
    (root / "mls_lm_polish" / "data.txt").write_text("sam tekst\n")


def make_hub(root, clip):
    """The first form on the Hugging Face hub: a few archives of each reader and book."""
    make_tree(root / "data" / "mls_polish", clip, ".flac")
    for split in ("train", "dev", "test"):
        audio_folder = root / "data" / "mls_polish" / split / "audio"
        names = []
        for i, file in enumerate(sorted(audio_folder.glob("*/*/*.flac"))):
            if file.parent.name != file.name.split("_")[1]:
                file.unlink()
                continue
            speaker, book, _ = file.stem.split("_")
            names.append(f"{speaker}_{book}_{i:03d}")
            with tarfile.open(audio_folder / f"{names[-1]}.tar.gz", "w:gz") as tar:
                tar.add(file, arcname=file.name)
            file.unlink()
        for folder in sorted(audio_folder.glob("**/*"), reverse=True):
            if folder.is_dir():
                for file in folder.iterdir():
                    file.unlink()
                folder.rmdir()
        (audio_folder.parent / "audio_filenames.txt").write_text(
            "".join(f"{name}\n" for name in names))


def make_hub_flat(root, clip):
    make_hub(root, clip)
    for archive in sorted(root.glob("**/*.tar.gz")):
        with tarfile.open(archive) as tar:
            for member in tar:
                (archive.parent / member.name).write_bytes(tar.extractfile(member).read())
        archive.unlink()


def make_windows(root, clip):
    """After an editor: CR LF, and a byte order mark."""
    make_flac(root, clip)
    for file in (root / "mls_polish").rglob("*.txt"):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))


def make_opus(root, clip):
    make_tree(root / "mls_polish_opus", clip, ".opus")


def make_both(root, clip):
    make_flac(root, clip)
    make_opus(root, clip)


def make_languages(root, clip):
    make_flac(root, clip)
    dev = root / "mls_german" / "dev"
    dev.mkdir(parents=True)
    clip(audio(dev, "252_77_000001", ".flac"), seed=77)
    (dev / "transcripts.txt").write_text("252_77_000001\tgrüße\n252_77_000001\tgrüße\n"
                                         "252_77_000002\tzu\tviel\nfalsch\ttext\n", encoding="utf-8")


FLAC = {
    "utterances": 5,
    "rejects": {"missing_audio": (1, 1), "orphan_audio": (2, 0), "unknown_speaker": (1, 0),
                "duration_mismatch": (1, 0)},
    "reject_details": {ODD: "the metadata state 9.750 s, but the audio has 0.400 s"},
    "domains": {"mls/polish": 5},
    "splits": {"train": 3, "dev": 1, "test": 1},
    "languages": {"pl": 5},
    "speakers": 3,
    "ids": {
        "6892_10801_000000": {
            "text": TEXT["6892_10801_000000"], "speaker": "mls/6892", "split": "train",
            "document": "10801", "codec": "flac", "sample_rate_hz": 16000, "seconds": 0.4,
            "extras": {"gender": "M", "source_url": URL.format("10801"), "source_start": "97.50",
                       "source_end": "107.25", "limited_supervision": None}},
        "6892_10801_000001": {"text": TEXT["6892_10801_000001"],
                              "extras": {"limited_supervision": "9hr", "source_start": "98.50"}},
        "7034_9188_000000": {"text": TEXT["7034_9188_000000"],
                             "extras": {"gender": None, "limited_supervision": "1hr/3"}},
        "8758_9217_000000": {"extras": {"gender": "F"}, "split": "dev"},
        "8758_9217_000009": None,
    },
}

HUB = {**FLAC, "rejects": {**FLAC["rejects"], "orphan_audio": (1, 0)}}

OPUS = {
    **{key: FLAC[key] for key in ("utterances", "rejects", "domains", "splits", "speakers")},
    "ids": {
        "6892_10801_000000": {"text": TEXT["6892_10801_000000"], "codec": "opus", "seconds": 0.4,
                              "nominal_sample_rate_hz": 16000},
        "6892_10801_000001": {"codec": "opus", "seconds": 0.4, "nominal_sample_rate_hz": 16000},
    },
}

CASES = {
    "flac": (make_flac, FLAC),
    "flac, CR LF": (make_windows, FLAC),
    "opus": (make_opus, OPUS),
    "hub": (make_hub, HUB),
    "hub, unpacked": (make_hub_flat, HUB),
    "the tree itself": (make_flac, {**FLAC, "root": "mls_polish"}),
    "both": (make_both, {"status": 1, "stderr": "--layout mls-flac or --layout mls-opus"}),
    "both, one chosen": (make_both, {
        **OPUS, "options": ["--layout", "mls-opus"],
        "rejects": {**FLAC["rejects"], "excluded_by_rule": (1, 0)}}),
    "one split": (make_flac, {
        "options": ["--split", "dev"], "utterances": 1, "splits": {"dev": 1}, "excluded": 5}),
    "languages": (make_languages, {
        "utterances": 6, "domains": {"mls/polish": 5, "mls/german": 1},
        "languages": {"pl": 5, "de": 1},
        "rejects": {"missing_audio": (1, 1), "orphan_audio": (2, 0), "dup_id": (1, 1),
                    "unknown_speaker": (1, 0),
                    "duration_mismatch": (1, 0),
                    "row_field_count": (1, 1), "row_syntax": (1, 1)},
        "ids": {"252_77_000001": {"text": "grüße", "domain": "mls/german"}}}),
}
