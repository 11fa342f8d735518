"""LibriSpeech: subsets side by side, a name with pipes, a last line without end, alignments."""
import shutil
import tarfile

SPEAKERS = """\
;
; Structure of this file:
; ID  |SEX| SUBSET           |MINUTES| NAME
;
60   | M | train-clean-100  | 20.18 | |CBW|Simon
84   | F | dev-clean        |  8.02 | Christie Nowak
61   | M | test-clean       |  8.08 | Paul-Gabriel Wiener
367  | F | test-other       |  8.00 | Kathryn H.
"""
TEXTS = {
    "train-clean-100/60/121082": ["FIRST LINE", "IT'S THE SECOND", "THIRD"],
    "train-clean-100/60/121083": ["ANOTHER CHAPTER"],
    "dev-clean/84/121123": ["GO DO YOU HEAR", "BUT IN LESS THAN FIVE MINUTES"],
    "test-clean/61/70968": ["HE BEGAN A CONFUSED COMPLAINT"],
    "test-other/367/130732": ["LOBSTERS AND LOBSTERS"],
}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def make_chapters(top, clip):
    for folder, texts in TEXTS.items():
        _, reader, chapter = folder.split("/")
        key = f"{reader}-{chapter}"
        lines = [f"{key}-{i:04d} {text}" for i, text in enumerate(texts)]
        for i in range(len(texts)):
            clip(top / folder / f"{key}-{i:04d}.flac", seed=int(reader) * 100 + i)
        # No line end after the last line.
        write(top / folder / f"{key}.trans.txt", "\n".join(lines))
        write(top / folder / f"{key}.alignment.txt",
              f'{key}-0000 ",FIRST,,LINE," "0.1,0.2,0.25,0.3,0.4"\n')
        write(top / folder / f"._{key}.trans.txt", "Mac OS X")


def make(root, clip):
    top = root / "LibriSpeech"
    make_chapters(top, clip)
    write(top / "SPEAKERS.TXT", SPEAKERS)
    write(top / "CHAPTERS.TXT", "; ID |READER|MINUTES| SUBSET | PROJ.|BOOK ID| CH. TITLE | PROJECT\n")
    write(top / "README.TXT", "1. LibriSpeech\n")
    dev = top / "dev-clean" / "84" / "121123"
    clip(dev / "84-121123-0009.flac", seed=9)
    write(dev / "84-121123.trans.txt",
          "84-121123-0000 GO DO YOU HEAR\n84-121123-0001 BUT IN LESS THAN FIVE MINUTES\n"
          "84-121123-0002 WITHOUT AUDIO\nnot a line\n")


def make_bare(root, clip):
    """As users unpack the corpus: no top folder, no SPEAKERS.TXT."""
    make_chapters(root, clip)


def make_windows(root, clip):
    """After an editor: CR LF, and a byte order mark."""
    make(root, clip)
    for file in [*root.rglob("[0-9]*.trans.txt"), root / "LibriSpeech" / "SPEAKERS.TXT"]:
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))


def make_finetuning(root, clip):
    """The labeled sets of Libri-Light: no folder names the split."""
    for i, (folder, reader) in enumerate((("1h/0/clean", 10), ("1h/5/other", 11), ("9h/other", 12))):
        key = f"{reader}-20"
        clip(root / folder / str(reader) / "20" / f"{key}-0000.flac", seed=70 + i)
        write(root / folder / str(reader) / "20" / f"{key}.trans.txt", f"{key}-0000 TEXT {i}\n")


EXPECTED = {
    "utterances": 8,
    "rejects": {"missing_audio": (1, 1), "orphan_audio": (1, 0), "row_syntax": (1, 1)},
    "domains": {"librispeech/clean": 7, "librispeech/other": 1},
    "speakers": 4,
    "languages": {"en": 8},
    "ids": {
        "60-121082-0002": {"text": "THIRD", "speaker": "librispeech/60", "split": "train",
                           "document": "121082", "codec": "flac", "language": "en",
                           "extras": {"gender": "M", "subset": "train-clean-100"}},
        "60-121083-0000": {"text": "ANOTHER CHAPTER", "document": "121083"},
        "84-121123-0000": {"text": "GO DO YOU HEAR", "split": "dev", "extras": {"gender": "F"}},
        "84-121123-0009": None,
        "367-130732-0000": {"domain": "librispeech/other", "split": "test"},
    },
}

def make_downloads(root, clip):
    """One archive per subset, each with the files about all subsets."""
    top = root / "LibriSpeech"
    make(root, clip)
    for subset in ("train-clean-100", "dev-clean", "test-clean", "test-other"):
        with tarfile.open(root / f"{subset}.tar.gz", "w:gz") as tar:
            for name in ("README.TXT", "SPEAKERS.TXT", "CHAPTERS.TXT", subset):
                tar.add(top / name, arcname=f"LibriSpeech/{name}")
    shutil.rmtree(top)


CASES = {
    "": (make, EXPECTED),
    "downloads": (make_downloads, EXPECTED),
    "CR LF": (make_windows, EXPECTED),
    "bare": (make_bare, {"utterances": 8, "rejects": {}, "speakers": 4,
                         "ids": {"60-121082-0000": {"extras": {"subset": "train-clean-100"}}}}),
    "a subset": (make, {"root": "LibriSpeech/test-other", "utterances": 1,
                        "domains": {"librispeech/other": 1}}),
    "finetuning": (make_finetuning, {
        "utterances": 3, "rejects": {}, "splits": {"": 3},
        "domains": {"librispeech/clean": 1, "librispeech/other": 2}}),
    "one split": (make, {"options": ["--split", "test"], "utterances": 2, "excluded": 7}),
}
