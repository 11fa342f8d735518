"""Common Voice, scripted speech: the columns of every release, and rows that break other
readers."""
import json
import shutil
import tarfile

OLD = "client_id path sentence up_votes down_votes age gender accent".split()
V5_0 = "client_id path accent sentence up_votes down_votes gender age".split()
V5_1 = OLD + ["locale", "segment"]
V8 = [name.replace("accent", "accents") for name in V5_1]
V9 = V8[:8] + ["accents"] + V8[8:]  # as once written
V13 = ("client_id path sentence up_votes down_votes age gender accents variant locale "
       "segment").split()
V17 = ("client_id path sentence_id sentence sentence_domain up_votes down_votes age gender accents "
       "variant locale segment").split()
ANNE, BODO, CLEO = "a" * 128, "b" * 128, "c" * 128


def row(path, sentence, client=ANNE, **more):
    return {"client_id": client, "path": path, "sentence": sentence, "up_votes": "2",
            "down_votes": "0", **more}


def write(path, columns, rows, end="\n", cut=None):
    lines = ["\t".join(columns)]
    for one in rows:
        lines.append("\t".join(one.get(name, "") for name in columns))
        if cut == one["path"]:
            lines[-1] = lines[-1].rstrip("\t")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode("utf-8"))


def clips(tree, clip, names, first=0, rate=32000):
    for i, name in enumerate(names):
        clip(tree / "clips" / name, seed=first + i, rate=rate)


def make_flat(root, clip):
    """Releases 1 to 4: no wrapper, eight columns, paths without extension."""
    tree = root / "cv-corpus-3_cy"
    names = ["e0" * 32, "e1" * 32, "e2" * 32]
    clips(tree, clip, [name + ".mp3" for name in names], 10, 48000)
    rows = [row(names[0], "Un", age="fourties", gender="male", accent="united_kingdom"),
            row(names[1], "Dau"), row(names[2], "Tri", BODO)]
    write(tree / "train.tsv", OLD, rows[:2])
    write(tree / "test.tsv", OLD, rows[2:])
    write(tree / "dev.tsv", OLD, [])
    write(tree / "validated.tsv", OLD, rows)


def make_middle(root, clip):
    """5.0 with its order of columns, 5.1 and 8.0, under one root: one folder per release."""
    for number, (release, columns, locale) in enumerate([
            ("cv-corpus-5-2020-06-22", V5_0, "eo"), ("cv-corpus-5.1-2020-06-22", V5_1, "zh-CN"),
            ("cv-corpus-8.0-2022-01-19", V8, "kmr"), ("cv-corpus-9.0-2022-04-27", V9, "uk"),
            ("cv-corpus-13.0-2023-03-09", V13, "rm-sursilv")]):
        tree = root / release / locale
        name = f"common_voice_{locale}_{number}.mp3"
        clips(tree, clip, [name], 20 + number)
        rows = [row(name, f"frazo {number}", age="teens", gender="other", accent="x", accents="y",
                    variant="v", locale=locale, segment="Singleword Benchmark")]
        write(tree / "validated.tsv", columns, rows)
        write(tree / "train.tsv", columns, rows, end="\r\n")


def make_new(root, clip):
    tree = (root / "cv-corpus-25.0-2026-03-09-de" / "cv-corpus-25.0-2026-03-09" / "de")
    prefix = "common_voice_de_"
    sound = [f"{prefix}{n}.mp3" for n in range(100, 116)]
    clips(tree, clip, sound, 40)
    clip(tree / "clips" / f"{prefix}100.mp3", rate=48000, seed=40)
    clip(tree / "clips" / f"{prefix}101.mp3", rate=44100, channels=2, seed=41)
    orphan = clip(tree / "clips" / f"{prefix}999.mp3", seed=99)
    (tree / "clips" / f"{prefix}200.mp3").write_bytes(b"")
    (tree / "clips" / f"{prefix}201.mp3").write_bytes(orphan.read_bytes()[:200])
    (tree / "clips" / f"{prefix}202.mp3").write_bytes(
        b"<!DOCTYPE html><html><head><title>403 Forbidden</title></head>" + b" " * 600)
    (tree / "clips" / "._common_voice_de_1.mp3").write_bytes(b"Mac")
    full = {"sentence_id": "5f" * 32, "locale": "de", "age": "fourties", "gender": "male_masculine",
            "accents": "Deutschland|Berlin, sonst 出生地:31 上海市", "variant": "",
            "sentence_domain": "general,news_current_affairs,healthcare"}
    text = {
        100: 'Er sagte "ja und ging.', 101: '"Nein', 102: "nan", 103: "null",
        104: "zurück\\nund\\tvor", 105: "Tom &amp; Jerry", 106: "می\u200cخواهم",
        107: "schöne Grüße", 108: "scho\u0308ne Gru\u0308ße", 109: "Schöne Grüße",
        110: "a\u2028b\u0085c\u000bd", 111: "in train und test", 112: "noch unklar",
        113: "Im Jahr 1984", 114: "validiert nur", 115: "letzte",
        200: "leer", 201: "kurz", 202: "verboten", 300: "fehlt"}
    rows = {n: row(f"{prefix}{n}.mp3", sentence, BODO if n % 2 else ANNE, **full)
            for n, sentence in text.items()}
    rows[102].update(age="", gender="", accents="", sentence_domain="", variant="")
    rows[103].update(gender="female", age="sixties", accents="", sentence_domain="")
    rows[113].update(up_votes="0", down_votes="2")
    train = [100, 101, 102, 103, 104, 105, 106, 107, 109, 111, 200, 300]
    dev = [110]
    test = [108, 111, 115]
    write(tree / "train.tsv", V17, [rows[n] for n in train])
    write(tree / "dev.tsv", V17, [rows[n] for n in dev])
    write(tree / "test.tsv", V17, [rows[n] for n in test])
    # The last columns are empty, and one row has lost their TABs.
    write(tree / "validated.tsv", V17,
          [rows[n] for n in train + dev + [108, 115] + [114, 201, 202]],
          cut=f"{prefix}114.mp3")
    write(tree / "other.tsv", V17, [rows[112]])
    write(tree / "invalidated.tsv", V17, [rows[113]])
    with open(tree / "train.tsv", "ab") as train_file:
        train_file.write((ANNE + f"\t{prefix}400.mp3" + "\tx" * 13 + "\n").encode())
        train_file.write((BODO + f"\t{prefix}100.mp3\tid\tzum zweiten Mal\n").encode())
    (tree / "reported.tsv").write_bytes(
        b"sentence\tsentence_id\tlocale\treason\nein \"Satz\nmit\tLF\tde\tx\ty\tz\nnoch\n")
    (tree / "validated_sentences.tsv").write_text(
        "sentence_id\tsentence\tsentence_domain\tsource\tis_used\tclips_count\n"
        'id\t"Er sagte ""ja"" und\nging."\t\tself\t1\t1\n', encoding="utf-8")
    (tree / "clip_durations.tsv").write_text(
        "clip\tduration[ms]\n" + "".join(f"{name}\t400\n" for name in sound[1:]))
    (tree / "README.md").write_text("# Common Voice 25.0\n")
    # A locale without a validated sentence yet.
    empty = tree.parent / "ab"
    clips(empty, clip, ["common_voice_ab_1.mp3"], 80)
    write(empty / "train.tsv", V17, [])
    write(empty / "validated.tsv", V17, [row("common_voice_ab_1.mp3", "Аԥсуа", CLEO, locale="ab")])


def make_odd(root, clip):
    """Invalid bytes in tables, and tables that do not list clips."""
    tree = root / "cv-corpus-25.0-2026-03-09" / "de"
    names = [f"common_voice_de_{n}.mp3" for n in range(8)]
    clips(tree, clip, names, 300)
    rows = [row(name, f"satz {n}", locale="de") for n, name in enumerate(names)]
    rows[1]["sentence"] = "lang " * 40000  # longer than the field limit of some CSV readers
    rows[2]["client_id"] = ""
    rows[3].update(locale="", accents="")
    rows[5]["sentence"] = "nul \0 und esc \x1b"
    write(tree / "validated.tsv", V17, rows)
    table = (tree / "validated.tsv").read_bytes().replace(b"satz 4", b"satz \xff4")
    table = table.replace(b"satz 6\t", b"satz 6\t\xfe\xff")  # in another column
    (tree / "validated.tsv").write_bytes(b"\xef\xbb\xbf" + table.removesuffix(b"\n"))
    (tree / "train.tsv").write_bytes(b"")
    (tree / "dev.tsv").write_bytes(b"\n")
    (tree / "clip_problems.tsv").write_text(
        "path\tlocale\treason\tstatus\ttimestamp\tvalue\n"
        "common_voice_de_7.mp3\tde\tDURATION_ZERO\texcluded\t1700000000\t0\n")
    (tree / "times.txt").write_text("common_voice_de_0.mp3 400\n")


def make_variants(root, clip):
    base = root / "cv-corpus-25.0-2026-03-09" / "cy"
    names = ["common_voice_cy_1.mp3", "common_voice_cy_2.mp3"]
    clips(base, clip, names, 120)
    rows = [row(name, "Bore da", locale="cy", variant="cy-southwes" if i else "")
            for i, name in enumerate(names)]
    write(base / "train.tsv", V17, rows)
    write(base / "validated.tsv", V17, rows)
    variant = root / "cv-corpus-25.0-2026-03-09-variants" / "cy-southwes"
    (variant / "clips").mkdir(parents=True)
    shutil.copy(base / "clips" / names[1], variant / "clips" / names[1])
    write(variant / "validated.tsv", V17, rows[1:])
    delta = root / "cv-corpus-25.0-delta-2026-03-09" / "sc"
    clips(delta, clip, ["common_voice_sc_1.mp3", "common_voice_sc_2.mp3"], 130)
    write(delta / "validated.tsv", V17, [row("common_voice_sc_1.mp3", "Bonas dies", locale="sc")])
    write(delta / "other.tsv", V17, [row("common_voice_sc_2.mp3", "Adiosu", locale="sc")])
    # The deltas of 11.0 came without their tables.
    clips(root / "cv-corpus-11.0-delta-2022-09-21" / "br", clip, ["common_voice_br_1.mp3"], 133)


def make_flat_archives(root, clip):
    """Releases 1 to 3 as published: one archive per locale, without folders."""
    for seed, locale in enumerate(("cy", "tt")):
        tree = root / locale
        name = f"{seed}e" * 32
        clips(tree, clip, [name + ".mp3"], 140 + seed)
        rows = [row(name, f"frawddeg {locale}")]
        write(tree / "train.tsv", OLD, rows)
        write(tree / "validated.tsv", OLD, rows)
        # The first name is correct; the other is a gzip whose name says tar twice.
        archive = root / (f"{locale}.tar.gz" if seed == 0 else f"cv-corpus-3_{locale}.tar.tar")
        with tarfile.open(archive, "w:gz") as tar:
            for part in ("clips", "train.tsv", "validated.tsv"):
                tar.add(tree / part, arcname=part)
        shutil.rmtree(tree)


def make_flat_archive(root, clip):
    make_flat_archives(root, clip)
    (root / "cv-corpus-3_tt.tar.tar").unlink()


def make_mirror(root, clip):
    """As on the Hugging Face hub, with its archives unpacked: two of them in train."""
    shards = {}
    for locale, seed in (("cy", 150), ("rm-vallader", 160)):
        places = {"train": (0, 0, 1), "dev": (0,), "test": (0,), "other": (0,), "invalidated": (0,),
                  "validated": ()}
        number = 0
        for split, archives in places.items():
            rows = []
            for archive in archives:
                name = f"common_voice_{locale}_{number}"
                clip(root / "audio" / locale / split / f"{locale}_{split}_{archive}" /
                     f"{name}.mp3", seed=seed + number)
                # The path has lost its extension in some releases.
                rows.append(row(name + (".mp3" if number else ""), f"{split} {number}",
                                locale=locale))
                number += 1
            write(root / "transcript" / locale / f"{split}.tsv", V17, rows)
        shards[locale] = {split: len(set(archives)) for split, archives in places.items()}
    clip(root / "audio" / "cy" / "dev" / "cy_dev_0" / "common_voice_cy_99.mp3", seed=190)
    (root / "n_shards.json").write_text(json.dumps(shards))
    (root / "README.md").write_text("# Common Voice\n")


def make_mirror_tarred(root, clip):
    make_mirror(root, clip)
    for folder in sorted((root / "audio").glob("*/*/*")):
        with tarfile.open(folder.parent / f"{folder.name}.tar", "w") as tar:
            tar.add(folder, arcname=folder.name)
        shutil.rmtree(folder)


MIRROR = {
    "utterances": 10, "rows_in": 14, "excluded": 4,
    "rejects": {"orphan_audio": (1, 0), "excluded_by_rule": (1, 0)},
    "domains": {"cv/cy": 5, "cv/rm-vallader": 5},
    "splits": {"train": 6, "dev": 2, "test": 2},
    "languages": {"cy": 5, "rm-vallader": 5},
    "ids": {
        "common_voice_cy_0": {"text": "train 0", "split": "train", "domain": "cv/cy",
                              "source": "audio/cy/train/cy_train_0/common_voice_cy_0.mp3"},
        "common_voice_cy_2": {"source": "audio/cy/train/cy_train_1/common_voice_cy_2.mp3"},
        "common_voice_cy_4": {"text": "test 4", "split": "test"},
        "common_voice_rm-vallader_3": {"split": "dev"},
    },
}

NEW = {
    "utterances": 15, "rows_in": 39, "merged": 16, "excluded": 2,
    "rejects": {
        "text_control_chars": (1, 0),
        "orphan_audio": (1, 0), "missing_audio": (1, 1), "empty_file": (1, 1),
        "tiny_file": (1, 1), "not_audio": (1, 1), "row_field_count": (1, 1), "dup_id": (1, 1),
        "split_conflict": (1, 0), "excluded_by_rule": (1, 0)},
    "domains": {"cv/de": 14, "cv/ab": 1},
    "splits": {"train": 9, "dev": 1, "test": 3, "validated": 2},
    "languages": {"de": 14, "ab": 1},
    "speakers": 3,
    "ids": {
        "common_voice_de_100": {
            "text": 'Er sagte "ja und ging.', "split": "train", "speaker": f"cv/{ANNE}",
            "domain": "cv/de", "language": "de", "sample_rate_hz": 48000,
            "extras": {"age": "fourties", "gender": "male_masculine", "up_votes": "2",
                       "down_votes": "0", "accents": "Deutschland|Berlin, sonst 出生地:31 上海市",
                       "sentence_domain": "general,news_current_affairs,healthcare",
                       "sentence_id": "5f" * 32, "variant": None, "locale": None}},
        "common_voice_de_101": {"text": '"Nein', "channels": 2, "sample_rate_hz": 44100},
        "common_voice_de_102": {"text": "nan", "sample_rate_hz": 32000,
                                "extras": {"age": None, "gender": None}},
        "common_voice_de_103": {"text": "null", "extras": {"gender": "female"}},
        "common_voice_de_104": {"text": "zurück\\nund\\tvor"},
        "common_voice_de_105": {"text": "Tom &amp; Jerry"},
        "common_voice_de_106": {"text": "می\u200cخواهم"},
        "common_voice_de_107": {"text": "schöne Grüße", "split": "train"},
        "common_voice_de_108": {"text": "scho\u0308ne Gru\u0308ße", "split": "test"},
        "common_voice_de_109": {"text": "Schöne Grüße"},
        "common_voice_de_110": {"text": "a\u2028b\u0085c\u000bd", "split": "dev"},
        "common_voice_de_111": {"split": "test"},
        "common_voice_de_112": None,
        "common_voice_de_113": None,
        "common_voice_de_114": {"text": "validiert nur", "split": "validated"},
        "common_voice_ab_1": {"split": "validated", "domain": "cv/ab"},
        "common_voice_de_999": None,
    },
}

def make_releases(root, clip):
    """Two releases side by side: the later one has all clips of the earlier one."""
    for number, release in enumerate(("cv-corpus-24.0", "cv-corpus-25.0")):
        rows = ["client_id\tpath\tsentence"]
        for i in range(3 + number):
            name = f"common_voice_ga_{i}.mp3"
            clip(root / release / "ga" / "clips" / name, seed=70 + i)
            rows.append(f"c{i}\t{name}\tabairt {i}")
        (root / release / "ga" / "validated.tsv").write_text("\n".join(rows) + "\n")


CASES = {
    "two releases": (make_releases, {
        "utterances": 4, "rejects": {"dup_id": (3, 3)},
        "stderr": "corpus/cv-corpus-24.0 too: two releases of one corpus?"}),
    "1 to 4": (make_flat, {
        "utterances": 3, "rows_in": 6, "merged": 3, "rejects": {}, "domains": {"cv/cy": 3},
        "splits": {"train": 2, "test": 1}, "languages": {"cy": 3}, "speakers": 2,
        "all_ids": ["e0" * 32, "e1" * 32, "e2" * 32],
        "ids": {"e0" * 32: {"text": "Un", "sample_rate_hz": 48000, "extras": {
            "age": "fourties", "gender": "male", "accent": "united_kingdom"}}}}),
    "1 to 4, archives": (make_flat_archives, {
        "utterances": 2, "rejects": {}, "merged": 2, "domains": {"cv/cy": 1, "cv/tt": 1},
        "splits": {"train": 2}, "languages": {"cy": 1, "tt": 1},
        "ids": {"0e" * 32: {"text": "frawddeg cy"}, "1e" * 32: {"text": "frawddeg tt"}}}),
    "1 to 4, an archive in a folder": (make_flat_archive, {
        "utterances": 1, "rejects": {}, "merged": 1, "domains": {"cv/cy": 1}}),
    "1 to 4, an archive": (make_flat_archives, {
        "root": "cv-corpus-3_tt.tar.tar", "utterances": 1, "rejects": {}, "merged": 1,
        "domains": {"cv/tt": 1}}),
    "mirror": (make_mirror, MIRROR),
    "mirror, archives": (make_mirror_tarred, MIRROR),
    "5 to 13": (make_middle, {
        "utterances": 5, "rows_in": 10, "merged": 5, "rejects": {"excluded_by_rule": (2, 0)}, "splits": {"train": 5},
        "domains": {"cv/eo": 1, "cv/zh-CN": 1, "cv/kmr": 1, "cv/uk": 1, "cv/rm-sursilv": 1},
        "ids": {
            "common_voice_eo_0": {"text": "frazo 0", "language": "eo",
                                  "extras": {"age": "teens", "gender": "other", "accent": "x"}},
            "common_voice_zh-CN_1": {"language": "zh-CN", "extras": {
                "segment": "Singleword Benchmark", "accent": "x"}},
            "common_voice_kmr_2": {"extras": {"accents": "y", "accent": None}},
            "common_voice_uk_3": {"extras": {"accents": "y", "locale": None}},
            "common_voice_rm-sursilv_4": {"extras": {"variant": "v"}}}}),
    "25": (make_new, NEW),
    "25, all buckets": (make_new, {
        "options": ["--split", "train,dev,test,validated,other,invalidated"],
        "utterances": 17, "rows_in": 39, "merged": 16,
        "rejects": {reason: count for reason, count in NEW["rejects"].items()
                    if reason != "excluded_by_rule"},
        "splits": {**NEW["splits"], "other": 1, "invalidated": 1},
        "ids": {"common_voice_de_112": {"split": "other"},
                "common_voice_de_113": {"split": "invalidated", "extras": {"down_votes": "2"}}}}),
    "25, by column": (make_new, {
        "options": ["--domain", "column:gender", "--split", "train"],
        "rows_in": 39, "merged": 16, "excluded": 10,
        "domains": {"male_masculine": 7, "female": 1, "default": 1}}),
    "odd bytes": (make_odd, {
        "utterances": 7, "rows_in": 8, "rejects": {"text_invalid_utf8": (1, 1), "text_control_chars": (1, 0)}, "speakers": 1,
        "domains": {"cv/de": 7}, "splits": {"validated": 7},
        "ids": {"common_voice_de_0": {"text": "satz 0"},
                "common_voice_de_1": {"text": "lang " * 40000},
                "common_voice_de_2": {"speaker": None},
                "common_voice_de_3": {"domain": "cv/de", "language": "de"},
                "common_voice_de_4": None,
                "common_voice_de_5": {"text": "nul \0 und esc \x1b"},
                "common_voice_de_6": {"extras": {"sentence_domain": "\ufffd\ufffd"}},
                "common_voice_de_7": {"text": "satz 7"}}}),
    "variant and delta": (make_variants, {
        "utterances": 4, "rows_in": 7, "merged": 2, "excluded": 1, "domains": {"cv/cy": 3, "cv/sc": 1},
        "splits": {"train": 2, "validated": 2}, "rejects": {"excluded_by_rule": (1, 0), "orphan_audio": (1, 0)},
        "ids": {"cy-southwes/common_voice_cy_2": {
                    "domain": "cv/cy", "split": "validated",
                    "extras": {"variant": "cy-southwes"}},
                "common_voice_cy_2": {"split": "train",
                                      "duplicate_of": "cy-southwes/common_voice_cy_2"},
                "common_voice_sc_1": {"split": "validated"}}}),
}
