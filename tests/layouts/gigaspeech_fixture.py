"""GigaSpeech: the object of long recordings, and tables of cut segments."""
import hashlib
import json

from bad_types import bad_rows


def segment(sid, begin, end, text, subsets, **more):
    return {"sid": sid, "speaker": "N/A", "begin_time": begin, "end_time": end, "text_tn": text,
            "subsets": subsets, **more}


def audio(aid, path, segments, **more):
    return {"title": f"Title of {aid}, \"quoted\" ]}}}}", "url": f"https://example.org/{aid}", "path": path, "aid": aid,
            "source": "podcast", "codec": "opus", "channels": 1, "sample_rate": 16000, "md5": "0" * 32,
            "category": "Science and Technology", "duration": 2.0, "segments": segments, **more}


XL = ["{XL}"]
NESTED = ["{XL}", "{L}", "{M}", "{S}", "{XS}"]

AUDIOS = [
    audio("POD0000000025", "audio/podcast/P0001/POD0000000025.opus", [
        segment("POD0000000025_S0000001", 0.25, 0.75, "DOUGLAS <COMMA> AND <PERIOD>", NESTED),
        segment("POD0000000025_S0000002", 0.75, 1.5, "É \u2028 ]}, {[", XL, speaker="HOST_1"),
        segment("POD0000000025_S0000003", 1.5, 1.5, "NOTHING", XL),
        "no object",
    ]),
    audio("YOU0000000001", "audio/youtube/P0002/YOU0000000001.opus", [
        segment("YOU0000000001_S0000001", 0, 0.5, "<MUSIC>", ["{DEV}"]),
        segment("YOU0000000001_S0000002", 0.5, 1, "DEV TEXT", ["{DEV}"]),
    ], speaker="N/A"),
    audio("AUD0000000009", "audio/audiobook/P0003/AUD0000000009.opus", [
        segment("AUD0000000009_S0000001", 0.0, 1.0, "TEST TEXT", ["{TEST}"])]),
    audio("POD0000000099", "audio/podcast/P0001/POD0000000099.opus", [
        segment("POD0000000099_S0000001", 0.0, 1.0, "GONE", NESTED),
        segment("POD0000000099_S0000002", 1.0, 2.0, "GONE", XL)]),
    audio("POD0000000100", "audio/podcast/P0001/POD0000000100.opus", [
        segment("POD0000000100_S0000001", 0.0, 1.0, "EMPTY FILE", XL)]),
    "not a recording",
    audio("NONE", "audio/podcast/P0001/POD0000000025.opus", None),
]


def make_audio(root, clip):
    for i, path in enumerate(("podcast/P0001/POD0000000025", "youtube/P0002/YOU0000000001",
                              "audiobook/P0003/AUD0000000009")):
        clip(root / "audio" / f"{path}.opus", seconds=2.0, seed=i + 1)
    (root / "audio" / "podcast" / "P0001" / "POD0000000100.opus").touch()


def make_json(root, clip):
    make_audio(root, clip)
    md5 = hashlib.md5((root / AUDIOS[1]["path"]).read_bytes()).hexdigest()
    AUDIOS[1]["md5"] = md5
    whole = {"dataset": "GigaSpeech", "version": "v1.0.0", "notes": {"audios": [1, "]"]},
             "audios": AUDIOS, "behind": []}
    (root / "GigaSpeech.json").write_bytes(
        b"\xef\xbb\xbf" + json.dumps(whole, indent=2, ensure_ascii=False).encode())


def make_truncated(root, clip):
    make_json(root, clip)
    text = (root / "GigaSpeech.json").read_bytes()
    (root / "GigaSpeech.json").write_bytes(text[:text.index(b"AUD0000000009_S0000001")])


JSON = {
    "utterances": 5,
    "rejects": {"segment_range": (1, 1), "row_syntax": (3, 3), "missing_audio": (1, 2), "empty_file": (1, 1)},
    "domains": {"podcast": 2, "youtube": 2, "audiobook": 1},
    "splits": {"train": 2, "dev": 2, "test": 1},
    "languages": {"en": 5},
    "speakers": 1,
    "ids": {
        "POD0000000025_S0000001": {
            "text": "DOUGLAS <COMMA> AND <PERIOD>", "start_sample": 12000, "samples": 24000, "speaker": None,
            "document": "POD0000000025", "source": "audio/podcast/P0001/POD0000000025.opus",
            "extras": {"category": "Science and Technology", "url": "https://example.org/POD0000000025",
                       "title": "Title of POD0000000025, \"quoted\" ]}}", "md5": "0" * 32,
                       "subsets": NESTED, "non_speech": None}},
        "POD0000000025_S0000002": {"text": "É \u2028 ]}, {[", "speaker": "gigaspeech/HOST_1"},
        "YOU0000000001_S0000001": {"text": "<MUSIC>", "split": "dev", "extras": {"non_speech": True}},
        "YOU0000000001_S0000002": {"extras": {"non_speech": None, "subsets": ["{DEV}"]}},
    },
}

HEADER = "sid,speaker,text_tn,begin_time,end_time,title,url,path,aid,source,category\n"
ROW = '{sid},{speaker},"{text}",1.0,1.4,"A title, quoted",https://example.org,audio/x/{sid}.opus,{aid},{source},7\n'


def make_tables(root, clip):
    """Subsets as on the hub, with their archives unpacked: S contains XS as well."""
    rows = {f"{aid}_S{i:07}": ROW.format(sid=f"{aid}_S{i:07}", speaker="N/A", source=source, aid=aid,
                                         text=f'A <COMMA> ""QUOTED"" {i}')
            for source, aid in enumerate(("AUD0000000001", "POD0000000001", "YOU0000000001")) for i in range(2)}
    ids = list(rows)
    subsets = {"xs": ids[:2], "s": ids[:4], "dev": ids[4:5], "test": ids[5:]}
    for subset, sids in subsets.items():
        chunk = f"{subset}_chunks_0000"
        table = root / "data" / "metadata" / f"{subset}_metadata" / f"{chunk}_metadata.csv"
        table.parent.mkdir(parents=True)
        text = HEADER.replace("sid", "segment_id").replace("text_tn", "text") if subset == "dev" else HEADER
        table.write_text(text + "".join(rows[sid] for sid in sids))
        for sid in sids:
            if sid != ids[3]:
                clip(root / "data" / "audio" / f"{subset}_files" / chunk / f"{sid}.wav", seed=ids.index(sid))


TABLES = {
    "utterances": 5,
    "rows_in": 8,
    "merged": 2,
    "rejects": {"missing_audio": (1, 1), "excluded_by_rule": (1, 0)},
    "domains": {"audiobook": 2, "podcast": 1, "youtube": 2},
    "splits": {"train": 3, "dev": 1, "test": 1},
    "ids": {
        "AUD0000000001_S0000001": {"text": 'A <COMMA> "QUOTED" 1', "speaker": None, "document": "AUD0000000001",
                                   "seconds": 0.4, "extras": {"subset": "s", "title": "A title, quoted",
                                                              "path": "audio/x/AUD0000000001_S0000001.opus"}},
        "YOU0000000001_S0000000": {"split": "dev"},
    },
}

def make_types(root, clip):
    make_audio(root, clip)
    good = audio("A", "audio/podcast/P0001/POD0000000025.opus", [segment("S", 0.25, 0.75, "RIGHT", XL)])
    bad = bad_rows(good, {"path": "text", "aid": "text", "subsets": "list", "speaker": "name", "segments.0.sid": "text",
                          "segments.0.begin_time": "name", "segments.0.end_time": "name", "segments.0.text_tn": "text",
                          "segments.0.speaker": "name", "segments.0.subsets": "list"})
    (root / "GigaSpeech.json").write_text(json.dumps({"dataset": "GigaSpeech", "audios": [*bad, good]}))


CASES = {
    "types": (make_types, {"all_ids": ["S"], "ids": {"S": {"text": "RIGHT", "document": "A"}},
                           "rejects": {"row_syntax": (34, 34)}}),
    "json": (make_json, JSON),
    "json file": (make_json, {**JSON, "root": "GigaSpeech.json"}),
    "xs": (make_json, {"options": ["--split", "XS"], "all_ids": ["POD0000000025_S0000001"], "excluded": 7,
                       "rejects": {"excluded_by_rule": (1, 0), "missing_audio": (1, 1), "row_syntax": (3, 3)}}),
    "dev": (make_json, {"options": ["--split", "dev"], "utterances": 2, "excluded": 7}),
    "category": (make_json, {"options": ["--domain", "column:category"], "domains": {"Science and Technology": 5}}),
    "truncated": (make_truncated, {"utterances": 4, "rejects": {"segment_range": (1, 1), "row_syntax": (1, 1),
                                                                "truncated": (1, 0)}}),
    "tables": (make_tables, TABLES),
    "tables xs": (make_tables, {"options": ["--split", "xs"], "utterances": 2, "excluded": 6}),
}
