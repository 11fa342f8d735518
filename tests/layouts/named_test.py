"""named_test.py COMMAND MAKE_CLIP [--all]: files that are passed by name, and folders of links.

A file that is named is the corpus, whatever is around it.

A manifest of each layout is packed by its name twice: in its own tree, and again with the trees of
all fixtures and a truncated archive in its folder. Both datasets must be equal byte by byte. Files
that no layout takes are refused by name. With --all every file of every fixture is named that is
neither audio nor an archive.

With --follow-links a folder that holds only links to corpora gives the dataset of a folder that
holds the corpora. With --all this is tried for each fixture.
"""
import pathlib
import shutil
import sys
import tempfile

from layout_test import LITTLE_MEMORY, Checks, clip_maker, files_below, load_cases, read_lines, run
from tars import Clips, write_tar

AUDIO = (".wav", ".WAV", ".flac", ".mp3", ".opus", ".ogg")
NEIGHBORS = "other-corpora"
LOOSE = "talks-000000.tar"
CV = "cv-corpus-3_cy/validated.tsv"
LIBRI_LIGHT = "small/1001/awakening_pa_librivox_64kb_mp3/awakening_01_chopin_64kb.json"

# Fixture, case, file below the fixture's root, layout; None: no layout takes this file by itself.
MANIFESTS = (
    ("audiofolder", "csv", "metadata.csv", "table"),
    ("common_voice", "1 to 4", CV, "table"),
    ("common_voice_2017", "", "cv_corpus_v1/cv-valid-train.csv", "table"),
    ("common_voice_spontaneous", "", "sps-corpus-3.0-2026-03-09-cy/ss-corpus-cy.tsv", "table"),
    ("folder", "texts", "a/one.txt", None),
    ("gigaspeech", "json", "GigaSpeech.json", "gigaspeech"),
    ("kaldi", "", "data/dev/wav.scp", "kaldi"),
    ("kaldi", "", "data/dev/text", None),
    ("lhotse", "one cuts file", "demo_cuts_train.jsonl.gz", "lhotse"),
    ("lhotse", "pairs", "demo_supervisions_train-clean.jsonl.gz", "lhotse"),
    ("lhotse_shar", "shards", "train-clean/cuts.000000.jsonl.gz", "lhotse-shar"),
    ("lhotse_shar", "shards", "train-clean/cuts.000001.jsonl", "lhotse-shar"),
    ("libri_light", "", LIBRI_LIGHT, None),
    ("librispeech", "", "LibriSpeech/dev-clean/84/121123/84-121123.trans.txt", None),
    ("ljspeech", "metadata", "metadata.csv", "ljspeech"),
    ("ljspeech", "list", "train.txt", "ljspeech"),
    ("mdc", "index", "schema.yaml", None),
    ("mls", "flac", "mls_polish/dev/transcripts.txt", None),
    ("nemo", "file", "dev.jsonl", "nemo"),
    ("nemo_tarred", "file", "tarred_audio_manifest.json", "nemo-tarred"),
    ("peoples_speech", "a manifest", "train/dirty_sa.json", "peoples-speech"),
    ("peoples_speech", "unpacked", "train/clean.json", "peoples-speech"),
    ("table", "csv", "corpus.csv", "table"),
    ("voxpopuli", "tables", "voxpopuli/transcribed_data/hr/asr_train.tsv", None),
    ("wenet", "file", "data.list", "wenet"),
    ("wenet_shards", "file", "data/train/data.list", "wenet-shards"),
)
# Walked, found as trees, found in the folders right below, in archives; two together are two
# sources.
LINKED = (("folder", "texts"), ("common_voice", "1 to 4, archives"), ("kaldi", ""), ("nemo_tarred", "folder"))
FIXTURES = sorted({name for name, *_ in MANIFESTS} | {"webdataset", "corpora"})


def make_tree(root, name, case, clip):
    root.mkdir(parents=True)
    load_cases(name)[case][0](root, clip)
    return root


def make_neighbors(root, clip):
    for name in FIXTURES:
        make_tree(root / name, name, next(iter(load_cases(name))), clip)
    return root


def pack(command, file, dataset, *words):
    # Ignore the exit status: fixtures contain rows that are rejected.
    return run(command, "pack", file, "-o", dataset, "--max-rejects", "100%", "--jobs", 2, *LITTLE_MEMORY,
               *words)


def compare(checks, got, want, what):
    for name in sorted(want.keys() | got.keys()):
        if want.get(name) != got.get(name):
            checks.fail(f"{name} is not {what}")


def check_refused(checks, file, packed, dataset):
    checks.equal("exit status", packed.returncode, 1)
    if f"{file}: " not in packed.stderr:
        checks.fail(f"{file} is not named in {packed.stderr!r}")
    written = files_below(dataset).keys() - {"reports/rejects.jsonl"}
    if written:
        checks.fail(f"{sorted(written)} were written")


def check_beside(checks, command, file, loose, want, layout):
    """Pack the file next to a copy of the archive `loose`. want: the dataset without the copy;
    None: pack must fail."""
    dataset = file.parent.parent / f"{file.name}.spsh"
    shutil.copy(loose, file.parent / LOOSE)
    packed = pack(command, file, dataset)
    (file.parent / LOOSE).unlink()
    if want is None:
        check_refused(checks, file, packed, dataset)
        return
    if layout is not None and f"{file}: recognized as {layout} because " not in packed.stderr:
        checks.fail(f"not recognized as {layout}: {packed.stderr}")
    compare(checks, files_below(dataset), want, "that of the file alone")
    if NEIGHBORS in packed.stderr or LOOSE in packed.stderr:
        checks.fail(f"other corpora are named in {packed.stderr}")
    shutil.rmtree(dataset)


def check_file(checks, command, file, neighbors, loose, layout):
    alone = file.parent.parent / f"{file.name}.spsh"
    packed = pack(command, file, alone)
    want = files_below(alone) if packed.returncode == 0 else None
    if layout is not None and want is None:
        checks.fail(f"refused: {packed.stderr}")
    shutil.rmtree(alone, ignore_errors=True)
    neighbors.rename(file.parent / NEIGHBORS)
    check_beside(checks, command, file, loose, want, layout)
    (file.parent / NEIGHBORS).rename(neighbors)


def check_issue(checks, command, folder, clip):
    """A table, the archive of another corpus, and a page about both."""
    audio = Clips(folder, clip)
    folder.mkdir()
    for i in range(3):
        clip(folder / "clips" / f"{i}.wav", seconds=0.3, seed=100 + i)
    rows = [f"u{i}\tclips/{i}.wav\ttext {i}\ts{i}\ttrain\n" for i in range(3)]
    (folder / "ars.tsv").write_text("id\tpath\ttext\tspeaker\tsplit\n" + "".join(rows))
    (folder / "FILE.md").write_text("# Two corpora\n\nars.tsv is a table.\n")
    write_tar(folder / "pb" / "shar" / "recording.000000.tar",
              [member for i in range(4) for member in ((f"{i}.flac", audio("flac")),
                                                       (f"{i}.json", b'{"text": "other"}'))])
    dataset = folder.parent / "ars.spsh"
    packed = pack(command, folder / "ars.tsv", dataset)
    ids = [row["id"] for row in read_lines(run(command, "ls", "--json", dataset).stdout)]
    checks.equal("exit status", packed.returncode, 0)
    checks.equal("ids of ars.tsv", sorted(ids), ["u0", "u1", "u2"])
    for name in ("FILE.md", "clips/0.wav"):
        dataset = folder.parent / "page.spsh"
        check_refused(checks, folder / name, pack(command, folder / name, dataset), dataset)
    for layout in ("webdataset", "folder", "librispeech", "wenet-shards"):
        packed = run(command, "pack", folder / "ars.tsv", "-o", dataset, "--layout", layout)
        check_refused(checks, folder / "ars.tsv", packed, dataset)


def check_damage(checks, command, folder, clip):
    """Rows that an archive lost: its damage is reported, because other rows are in it."""
    audio = Clips(folder, clip)
    folder.mkdir()
    tar = write_tar(folder / "clips.tar", [(f"clips/{i}.wav", audio(seconds=0.3)) for i in range(4)], end=False)
    tar.write_bytes(tar.read_bytes()[:-2000])
    (folder / "t.tsv").write_text("path\ttext\n" + "".join(f"clips/{i}.wav\ttext {i}\n" for i in range(4)))
    dataset = folder.parent / "damage.spsh"
    packed = run(command, "pack", folder / "t.tsv", "-o", dataset)
    checks.equal("exit status", packed.returncode, 1)
    checks.equal("a dataset was made", (dataset / "manifest.spsh").exists(), False)
    pack(command, folder / "t.tsv", dataset)
    rejects = read_lines((dataset / "reports" / "rejects.jsonl").read_text())
    checks.equal("rejects", sorted((reject["reason"], reject["source"]) for reject in rejects),
                 [("missing_audio", "clips/3.wav"), ("truncated", "clips.tar")])


def check_links(checks, command, work, trees):
    """trees: trees of several fixtures. One folder contains them, and another one links to them."""
    real, linked = work / "real" / "corpus", work / "linked" / "corpus"
    real.mkdir(parents=True)
    linked.mkdir(parents=True)
    for i, tree in enumerate(trees):
        tree.rename(real / f"c{i}")
        (linked / f"c{i}").symlink_to(real / f"c{i}")
    want, got = work / "real.spsh", work / "linked.spsh"
    pack(command, real, want, "--follow-links")
    packed = pack(command, linked, got, "--follow-links")
    checks.equal("a dataset was made", (got / "manifest.spsh").exists(), (want / "manifest.spsh").exists())
    if checks.failures:
        print(packed.stderr)
    compare(checks, files_below(got), files_below(want), "that of the folder with the corpora")
    shutil.rmtree(work)


def check_loops(checks, command, folder, clip):
    """Links that form loops: each folder must be entered only once."""
    for i in range(3):
        clip(folder / "far" / "a" / f"{i}.wav", seconds=0.3, seed=i)
    make_tree(folder / "cv", "common_voice", "1 to 4", clip)
    for corpus, links in (("walk", (("far", "../far"), ("again", "../far/a"), ("loop", "."), ("up", ".."))),
                          ("trees", (("cv", "../cv"), ("again", "../cv"), ("loop", ".")))):
        dataset = folder.parent / f"{corpus}.spsh"
        (folder / corpus).mkdir()
        for name, target in links:
            (folder / corpus / name).symlink_to(target)
        layout = ("--layout", "folder") if corpus == "walk" else ()
        packed = pack(command, folder / corpus, dataset, "--follow-links", *layout)
        checks.equal(f"{corpus}: exit status", packed.returncode, 0)
        rejects = (dataset / "reports" / "rejects.jsonl").read_text()
        checks.equal(f"{corpus}: an id twice", "dup_id" in rejects, False)


def every_file(name, case, root):
    tars = (".tar", ".gz", ".zip", ".tgz", ".xz", ".rar")
    return [(name, case, str(path.relative_to(root)), None) for path in sorted(root.rglob("*"))
            if path.is_file() and path.suffix not in AUDIO and
            (path.suffix not in tars or path.name.endswith(".jsonl.gz"))]


def main():
    command, make_clip, *words = sys.argv[1:]
    clip = clip_maker(make_clip)
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work).resolve()
        checks = Checks("a table beside an archive")
        (work / "issue").mkdir()
        check_issue(checks, command, work / "issue" / "m", clip)
        check_damage(checks, command, work / "issue" / "d", clip)
        check_loops(checks, command, work / "issue" / "l", clip)
        failures += checks.failures
        neighbors = make_neighbors(work / "neighbors", clip)
        loose = write_tar(work / LOOSE, [("a.json", b"{}"), ("a.wav", b"RIFF" * 400)], end=False)
        loose.write_bytes(loose.read_bytes()[:-700])
        trees, wanted = {}, list(MANIFESTS)
        for name, case, *_ in MANIFESTS:
            if (name, case) not in trees:
                trees[name, case] = make_tree(work / f"tree-{len(trees)}" / "corpus", name, case, clip)
                if "--all" in words:
                    wanted += every_file(name, case, trees[name, case])
        for name, case, path, layout in wanted:
            checks = Checks(f"{name}: {path}")
            check_file(checks, command, trees[name, case] / path, neighbors, loose, layout)
            failures += checks.failures
        linked = [(case,) for case in LINKED] + [LINKED[0:1] + LINKED[2:3]]
        if "--all" in words:
            linked = [((name, case),) for name in FIXTURES for case in load_cases(name)] + linked[-1:]
        for cases in linked:
            checks = Checks(f"links: {cases}")
            made = [make_tree(work / f"links-{i}", name, case, clip) for i, (name, case) in enumerate(cases)]
            check_links(checks, command, work / "links", made)
            failures += checks.failures
    return 1 if failures else 0


sys.exit(main())
