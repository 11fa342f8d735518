"""A root that holds several corpora, leftovers, and what may not be guessed."""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def make_libri(top, clip):
    clip(top / "dev-clean" / "84" / "1" / "84-1-0000.flac", seed=1)
    write(top / "dev-clean" / "84" / "1" / "84-1.trans.txt", "84-1-0000 YES")


def make_kaldi(top, clip):
    clip(top / "wav" / "k1.wav", seed=2)
    write(top / "wav.scp", "k1 wav/k1.wav\n")
    write(top / "text", "k1 ja\n")


def make_several(root, clip):
    make_libri(root / "LibriSpeech", clip)
    make_kaldi(root / "own" / "data" / "train", clip)
    clip(root / "loose" / "x.wav", seed=3)
    clip(root / "._hidden" / "y.wav", seed=4)
    write(root / ".cache" / "wav.scp", "z nowhere.wav\n")


def make_tables(root, clip):
    for i, name in enumerate(("one", "two")):
        clip(root / name / "wavs" / f"{name}.wav", seed=10 + i)
        write(root / name / "table.csv", f"path,text\nwavs/{name}.wav,{name}\n")


def make_two_formats(root, clip):
    make_kaldi(root, clip)
    write(root / "metadata.csv", "file_name,text\nwav/k1.wav,ja\n")


CASES = {
    "several": (make_several, {
        "layout": "kaldi", "utterances": 2,
        "rejects": {"excluded_by_rule": (1, 0)},
        "all_ids": ["84-1-0000", "k1"],
        "ids": {"k1": {"source": "own/data/train/wav/k1.wav", "text": "ja"}},
        "stderr": "recognised as librispeech because",
    }),
    "leftovers": (make_several, {"layout": "kaldi", "stderr": "loose holds audio outside"}),
    "tables": (make_tables, {"layout": "table", "utterances": 2, "rejects": {},
                             "ids": {"wavs/two": {"source": "two/wavs/two.wav"}}}),
    "two formats": (make_two_formats, {"status": 1, "stderr": "--layout kaldi"}),
    "two formats, one chosen": (make_two_formats,
                                {"options": ["--layout", "audiofolder"], "utterances": 1,
                                 "all_ids": ["wav/k1"]}),
    "another layout forced": (make_tables, {"options": ["--layout", "common-voice"], "status": 1,
                                            "stderr": "no folder here holds clips and tables"}),
}
