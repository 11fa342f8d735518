"""A root with several corpora, leftovers, and files that must not be guessed."""


import shutil
import tarfile
import zipfile


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


def into_tar(folder, archive):
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=folder.name)
    shutil.rmtree(folder)


def make_archives(root, clip):
    """Two corpora in archives, and other files of a download folder."""
    make_libri(root / "LibriSpeech", clip)
    into_tar(root / "LibriSpeech", root / "dev-clean.tar.gz")
    make_kaldi(root / "own", clip)
    with zipfile.ZipFile(root / "own.zip", "w") as archive:
        for path in sorted(root.glob("own/**/*")):
            archive.write(path, path.relative_to(root))
    shutil.rmtree(root / "own")
    write(root / "README.pdf", "%PDF-1.4")
    with zipfile.ZipFile(root / "papers.zip", "w") as archive:
        archive.writestr("papers/one.pdf", "%PDF-1.4")
    write(root / "code" / "main.py", "print(1)\n")
    into_tar(root / "code", root / "code.tar.gz")
    write(root / "mls_polish.tar.gz", "\n<!DOCTYPE html><title>403 Forbidden</title>")
    write(root / "mls_dutch.tar", "")
    write(root / "mls_german.tar.gz", "version https://git-lfs.github.com/spec/v1\nsize 12\n")
    write(root / "old.rar", "Rar!" + "x" * 600)
    with tarfile.open(root / "nothing.tar", "w"):
        pass


def make_failed_download(root, clip):
    write(root / "cv-corpus-25.0-2026-03-09-de.tar.gz", "<html>403 Forbidden</html>")


def make_beside(root, clip):
    make_libri(root / "LibriSpeech", clip)
    with tarfile.open(root / "dev-clean.tar.gz", "w:gz") as tar:
        tar.add(root / "LibriSpeech", arcname="LibriSpeech")
    clip(root / "loose.wav", seed=5)


def make_locked(root, clip):
    clip(root / "a.wav", seed=1)
    with zipfile.ZipFile(root / "a.zip", "w") as archive:
        archive.write(root / "a.wav", "a.wav")
    (root / "a.wav").unlink()
    data = bytearray((root / "a.zip").read_bytes())
    data[6] |= 1  # that it is encrypted, for the member and in the directory
    data[data.index(b"PK\1\2") + 8] |= 1
    (root / "a.zip").write_bytes(data)


def make_nested(root, clip):
    make_libri(root / "outer" / "LibriSpeech", clip)
    make_kaldi(root / "outer" / "inner", clip)
    into_tar(root / "outer" / "inner", root / "outer" / "inner.tar.gz")
    into_tar(root / "outer", root / "outer.tar.gz")


def make_parquet(root, clip):
    write(root / "data" / "train-00000-of-00001.parquet", "PAR1" + "x" * 100 + "PAR1")


def make_gone(root, clip):
    write(root / "wav.scp", "k1 gone.wav\nk2 gone.wav\n")


CASES = {
    "archives": (make_archives, {
        "archive": False,  # most of the tree is not an archive
        "layout": "librispeech", "utterances": 2, "all_ids": ["84-1-0000", "k1"],
        "rejects": {"bad_container": (3, 0), "unreadable": (1, 0)},
        "ids": {"k1": {"source": "own/wav/k1.wav"},
                "84-1-0000": {"source": "LibriSpeech/dev-clean/84/1/84-1-0000.flac"}},
        "stderr": "mls_polish.tar.gz: has the name of an archive, but looks like an HTML page",
    }),
    "archives, by exit status": (make_archives, {
        "options": ["--max-rejects", "99%"], "status": 1,
        "stderr": "not published: 3 archives or manifests are damaged"}),
    "archives, no loss allowed": (make_archives, {"options": ["--strict"], "status": 1,
                                                  "stderr": "--strict allows no loss"}),
    "failed download": (make_failed_download, {
        "status": 1, "stderr": "has the name of an archive, but looks like an HTML page"}),
    "unpacked beside its archive": (make_beside, {
        "layout": "librispeech", "all_ids": ["84-1-0000"],
        "rejects": {"excluded_by_rule": (1, 0), "orphan_audio": (1, 0)}, "archive": False}),
    "locked": (make_locked, {"status": 1, "stderr": "the first: a.zip/a.wav: it is encrypted"}),
    "archive in an archive": (make_nested, {
        "archive": False, "layout": "librispeech", "all_ids": ["84-1-0000"],
        "rejects": {"excluded_by_rule": (1, 0)},
        "stderr": "outer.tar.gz/outer/inner.tar.gz: is an archive in an archive"}),
    "parquet": (make_parquet, {"status": 1, "stderr": "python -m speechshard.parquet"}),
    "a parquet file": (make_parquet, {"root": "data/train-00000-of-00001.parquet", "status": 1,
                                      "stderr": "python -m speechshard.parquet"}),
    "nothing left": (make_gone, {"status": 1, "stderr": "corpus: nothing to pack: no utterance is left of 2 rows; "
                                                "2 are missing_audio, the first gone.wav in line 1 ("}),
    "nothing asked for": (make_several, {"options": ["--split", "eval"], "status": 2,
                                         "stderr": "--split eval: no row of the corpus is of this split"}),
    "several": (make_several, {
        "layout": "kaldi", "utterances": 2,
        "rejects": {"excluded_by_rule": (1, 0)},
        "all_ids": ["84-1-0000", "k1"],
        "ids": {"k1": {"source": "own/data/train/wav/k1.wav", "text": "ja"}},
        "stderr": "recognized as librispeech because",
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
