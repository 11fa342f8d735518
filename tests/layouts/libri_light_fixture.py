"""Libri-Light: chapters without text, two subsets, a chapter whose JSON is missing or broken."""
import json


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def make(root, clip):
    chapters = {
        "small/100/sea_fairies_0812_librivox_64kb_mp3": ["01_baum_sea_fairies_64kb",
                                                         "02_baum_sea_fairies_64kb"],
        "small/1001/awakening_pa_librivox_64kb_mp3": ["awakening_01_chopin_64kb"],
        "duplicate/100/sea_fairies_0812_librivox_64kb_mp3": ["01_baum_sea_fairies_64kb"],
    }
    seed = 0
    for folder, names in chapters.items():
        for name in names:
            seed += 1
            clip(root / folder / f"{name}.flac", seconds=1, seed=seed)
            if name.startswith("02"):
                continue
            write(root / folder / f"{name}.json", json.dumps({
                "speaker": folder.split("/")[1],
                "book_meta": {"id": "2512", "title": "Sea F\u00e4iries, \"The\"",
                              "genre": ["Children's Fiction"], "language": "English"},
                "snr": 10.5, "voice_activity": [[0.0, 0.4], [0.5, 0.9]]}, indent=1))
    write(root / "small" / "1001" / "awakening_pa_librivox_64kb_mp3"
          / "awakening_01_chopin_64kb.json", "{broken")
    clip(root / "small" / "stray.flac", seed=99)


BOOK = "sea_fairies_0812_librivox_64kb_mp3"

EXPECTED = {
    "utterances": 4,
    "rejects": {"orphan_audio": (1, 0)},
    "domains": {"libri-light/small": 3, "libri-light/duplicate": 1},
    "languages": {"en": 4},
    "speakers": 2,
    "ids": {
        f"small/100/{BOOK}/01_baum_sea_fairies_64kb": {
            "text": None, "split": None, "speaker": "libri-light/100", "document": BOOK,
            "seconds": 1.0, "codec": "flac",
            "extras": {"book_id": "2512", "book_title": "Sea F\u00e4iries, \"The\"", "snr": "10.5"}},
        f"small/100/{BOOK}/02_baum_sea_fairies_64kb": {"text": None},
        f"duplicate/100/{BOOK}/01_baum_sea_fairies_64kb": {"domain": "libri-light/duplicate"},
    },
}

CASES = {
    "": (make, EXPECTED),
    "a subset": (make, {"root": "small", "utterances": 3,
                        "ids": {f"small/100/{BOOK}/01_baum_sea_fairies_64kb": {"text": None}}}),
}
