"""report_test.py COMMAND MAKE_CLIP: the reports of pack: hostile names, many domains, copies,
levels.

The page must be well-formed, must contain no markup from the corpus, and must not depend on the
number of threads. The numbers in pack.json must match the corpus.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import wave

from cli_kit import check, check_head, equal, finish, read_page, run

MAKE_CLIP = sys.argv[2]
HOSTILE = [
    "<script>alert(1)</script>",
    "</title></svg><b>bold</b>",
    "\"quoted\" & 'apostrophes'",
    "]]> <!-- comment --> &lt;entity&gt; %s %n",
    "שלום עולם",
    "مرحبا \u202e override",
    "\ufffe no character",
    "名前" * 120,
]
ELEMENTS = {"html", "head", "meta", "title", "style", "body", "main", "section", "div", "h1", "h2", "p", "b", "i", "span",
            "code", "pre", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "br", "bdi", "details", "summary",
            "svg", "rect", "line", "text"}


def write_wav(path, samples, rate=8000, channels=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(struct.pack(f"<{len(samples)}h", *samples))


def square(seconds, amplitude, rate=8000, shift=0):
    """Its RMS is its peak; shift makes clips differ."""
    return [amplitude if (i + shift) // 4 % 2 else -amplitude for i in range(int(seconds * rate))]


def pack(work, corpora, name, *options):
    dataset = work / name
    done = run("pack", *corpora, "-o", dataset, "--max-rejects", "100%", *options)
    check(done.returncode == 0, f"pack: {done.stderr}")
    report = json.loads((dataset / "reports" / "pack.json").read_text(encoding="utf-8"))
    return dataset, report, done


def check_page(dataset, what):
    return read_page(dataset / "reports" / "pack.html", ELEMENTS, what)


def text_of(root):
    return "".join(root.itertext())


def check_hostile(work):
    corpus = work / "hostile"
    rows = ["path\ttext\tdomain\tsplit\tspeaker"]
    for i, name in enumerate(HOSTILE):
        write_wav(corpus / f"{i}.wav", square(0.2, 1000, shift=i))
        rows.append(f"{i}.wav\ttext\t{name}\t{name}\tsomebody")
    for name in HOSTILE[:3]:
        rows.append(f"missing {name}.wav\ttext\t{name}\ttrain\t")
    (corpus / "table.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    dataset, report, done = pack(work, [corpus / "table.tsv"], "hostile.spsh", "--layout", "table-raw")
    root = check_page(dataset, "hostile names")
    rows = check_head(root, "hostile names")
    equal("".join(rows["command"].itertext()), "speechshard pack CORPUS -o DATASET --layout table-raw --codec keep --dedupe bytes "
          "--order hash --shard-size 1073741824", "command")
    name = rows["dataset"][0]
    equal((name.get("data-up"), name.get("data-last")), ("2", "1"), "the dataset is the folder above the page's")
    text = text_of(root)
    for name in HOSTILE:
        check(name.replace("\ufffe", "\ufffd") in text, f"{name!r} is not on the page as it is written")
    check("missing <script>alert(1)</script>.wav" in text, "no example of missing audio")
    equal(sorted(domain["name"] for domain in report["domains"]), sorted(HOSTILE), "domains")
    check(max(len(line) for line in done.stdout.splitlines()) < 100, "a line of the table has 100 columns")
    check("\u202e" not in done.stdout, "a mark of direction is on the terminal")
    rows = report["rows_in"], report["packed"], report["rejected"]
    equal(rows, (len(HOSTILE) + 3, len(HOSTILE), 3), "rows in, packed, rejected")


def check_many(work):
    """300 domains of falling length, in three splits."""
    corpus = work / "many"
    rows = ["path\ttext\tdomain\tsplit"]
    for i in range(300):
        name = f"{i:03}.wav"
        write_wav(corpus / name, square(0.02 + 0.001 * (300 - i), 500, shift=i % 8) + [i])
        rows.append(f"{name}\ttext\tdomain {i}\t{('train', 'dev', 'test')[i % 3]}")
    (corpus / "table.tsv").write_text("\n".join(rows) + "\n")
    dataset, report, done = pack(work, [corpus / "table.tsv"], "many.spsh", "-j", 1)
    root = check_page(dataset, "300 domains")
    equal([domain["name"] for domain in report["domains"]], [f"domain {i}" for i in range(300)],
          "domains by length")
    check("and 270 more" in text_of(root), "the page does not say how many domains are folded")
    check("and 280 more" in done.stdout, "the terminal does not say how many domains there are")
    check("domain 299" in text_of(root), "the folded rows are not there")
    check(len(done.stdout.splitlines()) < 60, "the table is not cut")
    again, _, _ = pack(work, [corpus / "table.tsv"], "again.spsh", "-j", 4)
    for name in ("pack.json", "pack.html", "rejects.jsonl"):
        equal((again / "reports" / name).read_bytes(), (dataset / "reports" / name).read_bytes(),
              f"{name} with one thread and with four")


def check_levels(work):
    corpus = work / "levels"
    clips = {                            # peak, RMS: bins of one dB below full scale
        "full": square(0.3, 32767),      # 0.0003 dB below: bin 0
        "half": square(0.3, 16384),      # -6.02
        "tenth": square(0.3, 3277),      # -20.0
        "silent": [0] * 2400,            # the last bin
        "click": [0] * 2396 + [32767] + [0] * 3,   # peak 0, RMS -33.8
        "quiet": square(0.3, 20),        # -64.3
    }
    for name, samples in clips.items():
        write_wav(corpus / f"{name}.wav", samples)
    _, report, done = pack(work, [corpus], "levels.spsh")
    levels = report["levels"]
    equal({i: n for i, n in enumerate(levels["peaks"]) if n}, {0: 2, 6: 1, 19: 1, 64: 1, 99: 1}, "peaks")
    equal({i: n for i, n in enumerate(levels["rms"]) if n}, {0: 1, 6: 1, 19: 1, 33: 1, 64: 1, 99: 1}, "RMS")
    equal((levels["recordings"], levels["clipped"], levels["silent"]), (6, 1, 2), "recordings, clipped, silent")
    check("as good as silent, RMS below -60 dBFS: 2 of 6 (33.3 %)" in done.stdout, "nothing is said of silence")
    check("at full scale: 1 of 6 (16.7 %)" in done.stdout, "nothing is said of clipping")
    dataset, report, _ = pack(work, [corpus], "trusted.spsh", "--trust-headers")
    equal(report["levels"], None, "levels of what was not decoded")
    check("Levels" not in text_of(check_page(dataset, "trusted headers")), "levels that were not measured")


def check_too_long(work):
    """A header that states more than can be read again is not trusted."""
    corpus = work / "too-long"
    write_wav(corpus / "short.wav", square(1, 900))
    subprocess.run([MAKE_CLIP, str(corpus / "long.flac"), "1", "8000", "1", "1"], check=True)
    data = bytearray((corpus / "long.flac").read_bytes())
    stated = int.from_bytes(data[18:26], "big") >> 36 << 36 | 1 << 31  # STREAMINFO: the lowest 36 bits are samples
    data[18:26] = stated.to_bytes(8, "big")
    (corpus / "long.flac").write_bytes(data)
    dataset, report, _ = pack(work, [corpus], "too-long.spsh", "--layout", "folder", "--trust-headers")
    rejects = [json.loads(line) for line in (dataset / "reports" / "rejects.jsonl").read_text().splitlines()]
    equal([(reject["reason"], reject["id"]) for reject in rejects], [("too_long", "long")], "rejects")
    equal(report["seconds"], 1.0, "seconds of what is left")


def check_copies(work):
    """Copies within a domain, between domains, and from test to train; rates and channels that
    differ."""
    first, second = work / "first", work / "second"
    write_wav(first / "train" / "a.wav", square(1, 900))
    write_wav(first / "train" / "b.wav", square(1, 900))
    write_wav(second / "test" / "c.wav", square(1, 900))
    write_wav(second / "test" / "d.wav", square(0.5, 700, rate=16000), rate=16000)
    write_wav(second / "test" / "e.wav", square(0.5, 600), channels=2)
    (first / "table.csv").write_text("path,split,domain\ntrain/a.wav,train,one\ntrain/b.wav,train,one\n")
    (second / "table.csv").write_text("path,split,domain\ntest/c.wav,test,two\ntest/d.wav,test,two\n"
                                      "test/e.wav,test,two\n")
    dataset, report, done = pack(work, [first, second], "copies.spsh", "--order", "source")
    copies = {domain["name"]: domain["copies"] for domain in report["domains"]}
    equal(copies, {"one": {"utterances": 1, "seconds": 1.0, "of_others": 0},
                   "two": {"utterances": 1, "seconds": 1.0, "of_others": 1}}, "copies by domain")
    check("copies of audio in another split: 1\n" in done.stdout, "nothing is said of the leak")
    check("sample rates differ" in done.stdout, "nothing is said of the rates")
    check("numbers of channels differ" in done.stdout, "nothing is said of the channels")
    equal([(source["corpus"], source["root"], source["packed"]) for source in report["sources"]],
          [(1, ".", 2), (2, ".", 3)], "sources")
    equal({(kind["sample_rate_hz"], kind["channels"]): kind["utterances"] for kind in report["audio"]},
          {(8000, 1): 3, (16000, 1): 1, (8000, 2): 1}, "kinds of audio")
    seconds = {percentile["percent"]: percentile["seconds"]
               for percentile in report["durations"]["percentiles"]}
    equal((seconds[1], seconds[25], seconds[50], seconds[99]), (0.25, 0.5, 1.0, 1.0), "percentiles")
    equal((report["durations"]["min_seconds"], report["durations"]["max_seconds"]), (0.25, 1.0), "extremes")
    equal(report["seconds"], 3.75, "seconds")
    check("Duplicates by domain" in text_of(check_page(dataset, "copies")), "no section on duplicates")


def write_mls(root, split, names):
    """Hard links of a few clips: the counts are what matters."""
    folder = root / "mls_polish" / split
    clip = root / "clip.flac"
    folder.mkdir(parents=True)
    if not clip.exists():
        root.mkdir(exist_ok=True)
        subprocess.run([MAKE_CLIP, str(clip), "0.02", "8000", "1", "1"], check=True)
    for name in names:
        speaker, book, _ = name.split("_")
        path = folder / "audio" / speaker / book / f"{name}.flac"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.hardlink_to(clip)
    (folder / "transcripts.txt").write_text("".join(f"{name}\ttekst\n" for name in names))


def mls_names(count):
    return [f"1_2_{number:06}" for number in range(count)]


def check_published(work):
    corpus = work / "published"
    write_mls(corpus, "train", mls_names(60))    # 60 of 25,043: a selection
    write_mls(corpus, "dev", [f"2_2_{number:06}" for number in range(256)])  # 256 of 512: half a download
    write_mls(corpus, "test", [f"3_2_{number:06}" for number in range(520)])  # all
    dataset, report, done = pack(work, [corpus / "mls_polish"], "published.spsh", "--domain", "mine")
    line = "MLS polish dev: 256 of 512 published utterances found (50 %)"
    check(line in done.stderr, "the terminal does not tell of the mismatch while it scans")
    check(line in done.stdout, "the terminal does not tell of the mismatch")
    check("polish t" not in done.stderr, "a selection, or a whole part, is called a mismatch")
    equal([(part["part"], part["found"], part["published"]) for part in report["published"]],
          [("polish train", 60, 25043), ("polish dev", 256, 512), ("polish test", 520, 520)], "published")
    equal(report["rejects"], {"count_mismatch": {"events": 1, "rows": 0}}, "rejects")
    rejects = [json.loads(text) for text in
               (dataset / "reports" / "rejects.jsonl").read_text().splitlines()]
    equal([(reject["reason"], reject["detail"], reject["rows"]) for reject in rejects],
          [("count_mismatch", line, 0)], "rejects.jsonl")
    check("Compared with the published releases" in text_of(check_page(dataset, "published")),
          "no section on published counts")


def check_common_voice(work):
    """Clips of all tables count, also of tables that were not requested. Missing clips and deltas
    do not count."""
    corpus = work / "common_voice"
    header = "client_id\tpath\tsentence\n"
    trees = {"cv-corpus-25.0-2026-03-09/fr": {"train": (0, 1), "validated": (0, 1, 2), "other": (3, 4, 9)},
             "cv-corpus-25.0-delta-2026-03-09/rw": {"other": (5,), "validated": (6,)},
             "cv-corpus-24.0-2025-12-05/de": {"train": (7,)}}
    for tree, tables in trees.items():
        clips = corpus / tree / "clips"
        clips.mkdir(parents=True)
        for table, numbers in tables.items():
            (corpus / tree / f"{table}.tsv").write_text(
                header + "".join(f"me\tclip_{number}.mp3\ttext {number}\n" for number in numbers))
            for number in numbers:
                if number != 9:
                    subprocess.run([MAKE_CLIP, str(clips / f"clip_{number}.mp3"), "0.2", "16000", "1",
                                    str(number)], check=True)
    want = [("25.0 fr", 5, 864728)]
    for root in (corpus, corpus / "cv-corpus-25.0-2026-03-09" / "fr"):
        _, report, _ = pack(work, [root], f"{root.name}.spsh")
        equal([(part["part"], part["found"], part["published"]) for part in report["published"]], want,
              f"clips of the release below {root.name}")


def main():
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        check_hostile(work)
        check_many(work)
        check_levels(work)
        check_too_long(work)
        check_copies(work)
        check_published(work)
        check_common_voice(work)


main()
finish()
