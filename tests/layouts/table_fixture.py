"""Tables: byte order mark, CR LF, quoted commas, lines in fields, milliseconds, quotes of two
kinds."""


def make_csv(root, clip):
    for i, name in enumerate(("one", "two", "three", "four")):
        clip(root / "audio" / f"{name}.wav", seconds=1.0, seed=i)
    (root / "corpus.csv").write_bytes(
        b"\xef\xbb\xbfPath,Transcript,speaker_id,Start_ms,Duration_MS,Mood\r\n"
        b'audio/one.wav,"yes, he said ""no""",s1,,,calm\r\n'
        b'audio/two.wav,"two\nlines",N/A,250,500,\r\n'
        b"audio/three.wav,,s2,0.5,1,\r\n"
        b"audio/four.wav,text,s2,900,900,\r\n"  # ends past the end of its file
        b"audio/none.wav,gone,s2,,,\r\n"
        b"audio/one.wav,more,s1,,,calm,extra\r\n"
        b",empty,s1,,,\r\n")


def make_raw(root, clip):
    for i in range(4):
        clip(root / "clips" / f"c{i}.wav", seed=i)
    (root / "t.tsv").write_text(
        'path\tsentence\tclient_name\n'
        'c0\t"unbalanced\tx\n'
        "c1.wav\tnull\t\n"
        'c2.wav\tin the "middle\ty\n'
        "c3.wav\ta\u2028b\x0bc\tz\n", encoding="utf-8")


def make_unclear(root, clip):
    clip(root / "a.wav", seed=1)
    (root / "t.tsv").write_text('path\ttext\na.wav\t"quoted"\n')


def make_two(root, clip):
    clip(root / "a.wav", seed=1)
    for name in ("train.csv", "dev.csv"):
        (root / name).write_text("path,text\na.wav,hello\n")


def make_three(root, clip):
    """One table per split; a separate clip per row."""
    for i, name in enumerate(("train", "val", "test")):
        for j in range(2):
            clip(root / "audio" / f"{name}{j}.wav", seed=10 * i + j)
        (root / f"{name}.csv").write_text("file,class\n" + "".join(
            f"audio/{name}{j}.wav,word{j}\n" for j in range(2)))


def make_own_split(root, clip):
    make_three(root, clip)
    (root / "val.csv").write_text("file,class,split\naudio/val0.wav,word,dev\n")


def make_deepspeech(root, clip):
    clip(root / "a b.wav", seconds=0.5, seed=1)
    (root / "train.csv").write_text("wav_filename,wav_filesize,transcript\n./a b.wav,16044,hello\n")


def make_seconds(root, clip):
    for i in range(5):
        clip(root / f"{i}.wav", seconds=2.0, seed=i)
    (root / "list.csv").write_text(
        "file,text,start,end,duration\n0.wav,a,0.5,1.25,\n1.wav,b,0,1e0,\n2.wav,c,0.5,,\n"
        "3.wav,d,0.25,,0.5\n4.wav,e,,,1999\n")


CASES = {
    "seconds": (make_seconds, {
        "utterances": 5, "rejects": {"duration_mismatch": (1, 0)},
        "reject_details": {"4": "the metadata state 1999.000 s, but the audio has 2.000 s"},
        "ids": {"0#500000000-1250000000": {"seconds": 0.75}, "1#0-1000000000": {"seconds": 1.0},
                "2#500000000-end": {"seconds": 1.5}, "3#250000000-750000000": {"seconds": 0.5},
                "4": {"seconds": 2.0, "extras": {"duration": "1999"}}}}),
    "csv": (make_csv, {
        "utterances": 3,
        "rejects": {"segment_range": (1, 1), "missing_audio": (2, 2), "row_field_count": (1, 1)},
        "speakers": 2,
        "ids": {
            "audio/one": {"text": 'yes, he said "no"', "speaker": "s1", "extras": {"Mood": "calm"}},
            "audio/two#250000000-750000000": {"text": "two\nlines", "speaker": None, "seconds": 0.5},
            "audio/three#500000-1500000": {"text": None, "seconds": 0.001},
        }}),
    "raw tsv": (make_raw, {
        "utterances": 4, "rejects": {"text_control_chars": (1, 0)},
        "ids": {"c0": {"text": '"unbalanced', "extras": {"client_name": "x"}},
                "c1": {"text": "null"}, "c2": {"text": 'in the "middle'},
                "c3": {"text": "a\u2028b\x0bc"}}}),
    "unclear quotes": (make_unclear, {"status": 1, "stderr": "table-raw"}),
    "said raw": (make_unclear, {"options": ["--layout", "table-raw"], "utterances": 1,
                                "ids": {"a": {"text": '"quoted"'}}}),
    "said rfc": (make_unclear, {"options": ["--layout", "table-rfc"], "utterances": 1,
                                "ids": {"a": {"text": "quoted"}}}),
    "two tables": (make_two, {"utterances": 1, "splits": {"dev": 1}, "rejects": {"dup_id": 1}}),
    "splits": (make_three, {
        "utterances": 6, "splits": {"train": 2, "val": 2, "test": 2},
        "noted": ["train.csv has no text column", "kept as extras: class (--column text=NAME",
                  "val.csv: all rows have the split 'val'", "--split-from none"],
        "ids": {"audio/train0": {"text": None, "extras": {"class": "word0"}}}}),
    "splits by operands": (make_three, {
        "roots": ["train.csv", "test.csv"], "archive": False,  # operands must be tables, not archives
        "utterances": 4, "splits": {"train": 2, "test": 2}}),
    "one of the splits": (make_three, {"options": ["--split", "val"], "utterances": 2, "excluded": 4,
                                       "splits": {"val": 2}, "rejects": {"excluded_by_rule": (2, 0)}}),
    "no splits": (make_three, {"options": ["--split-from", "none"], "utterances": 6, "splits": {"": 6}}),
    "own split": (make_own_split, {"status": 1, "stderr": "several tables"}),
    "columns": (make_three, {
        "options": ["--column", "text=Class", "--column", "id=file"], "utterances": 6,
        "not_noted": ["kept as extras"],
        "ids": {"audio/train0.wav": {"text": "word0", "extras": {}}}}),
    "no such column": (make_three, {"options": ["--column", "text=klass", "--layout", "table"],
                                    "status": 1, "stderr": "text=klass"}),
    "wrong field": (make_three, {"options": ["--column", "texts=class"], "status": 2,
                                 "stderr": "FIELD is audio, text"}),
    "deepspeech": (make_deepspeech, {"utterances": 1, "rejects": {},
                                     "ids": {"a b": {"text": "hello", "seconds": 0.5}}}),
}
