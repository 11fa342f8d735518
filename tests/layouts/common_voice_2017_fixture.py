"""The first Common Voice: comma-separated and quoted, with one folder per table, and numbers from 0
in each."""

HEADER = "filename,text,up_votes,down_votes,age,gender,accent,duration\n"


def make(root, clip):
    tree = root / "cv_corpus_v1"
    tables = {
        "cv-valid-train": ['cv-valid-train/sample-000000.mp3,"learn to say ""no"", he said",1,0,,,,\n',
                           "cv-valid-train/sample-000001.mp3,plain,2,0,twenties,female,us,4\n",
                           "cv-valid-train/sample-000070.mp3,\"two\nlines\",1,0,,,,\n",
                           "cv-valid-train/sample-000071.mp3,no sound,1,0,,,,\n"],
        "cv-valid-dev": ["cv-valid-dev/sample-000000.mp3,other folder,1,0,,,,\n"],
        "cv-valid-test": [],
        "cv-other-train": ["cv-other-train/sample-000000.mp3,undecided,1,1,,,,\n"],
        "cv-invalid": ["cv-invalid/sample-000000.mp3,bad,0,1,,,,\n"],
    }
    seed = 0
    for name, rows in tables.items():
        (tree / name).mkdir(parents=True)
        (tree / f"{name}.csv").write_text(HEADER + "".join(rows))
        for row in rows:
            seed += 1
            if "no sound" not in row:
                clip(tree / row.split(",")[0], rate=48000, seed=seed)
    clip(tree / "cv-valid-dev" / "sample-000009.mp3", seed=90)


EXPECTED = {
    "utterances": 4, "excluded": 2,
    "rejects": {"missing_audio": (1, 1), "orphan_audio": (1, 0), "excluded_by_rule": (1, 0),
                "duration_mismatch": (1, 0)},
    "domains": {"cv/en": 4},
    "splits": {"train": 3, "dev": 1},
    "languages": {"en": 4},
    "ids": {
        "cv-valid-train/sample-000000": {"text": 'learn to say "no", he said', "speaker": None},
        "cv-valid-train/sample-000001": {"extras": {"age": "twenties", "gender": "female",
                                                    "accent": "us", "up_votes": "2", "duration": "4"}},
        "cv-valid-train/sample-000070": {"text": "two\nlines"},
        "cv-valid-dev/sample-000000": {"split": "dev", "seconds": 0.4},
        "cv-other-train/sample-000000": None,
    },
}
