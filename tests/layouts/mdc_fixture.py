"""Datasets with the schema.yaml of the Mozilla Data Collective: tables that only the schema
explains."""

SCHEMA = '''# made by hand
dataset_id: "cmk0example"
task: 'ASR'   # speech
format: csv
encoding: "utf-8-sig"

index_file: "data/metadata.csv"
base_audio_path:
  - "data/recipes/"
  - 'data/${Folder}/'

columns:
  audio_path:
    source_column: "Sentence  ID"
    file_extension: ".wav"
    dtype: "file_path"
    path_template: "${Speaker ID}_khm_${value}"
  transcription:
    source_column: Sentences
    dtype: string
  topic:
    source_column: Topic
    optional: true
  speaker_id:
    source_column: "Speaker ID"
  split: {split}
    source_column: Part
  missing:
    source_column: "Not there"
    optional: true
checksum: ""
'''


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def make(root, clip):
    """The schema is next to the folder that the archive was unpacked to."""
    write(root / "schema.yaml", SCHEMA.replace(" {split}", ""))
    data = root / "khmer-corpus" / "data"
    clip(data / "recipes" / "s1_khm_001.wav", seed=1)
    clip(data / "gifts" / "s2_khm_002.wav", seed=2)
    clip(data / "gifts" / "s2_khm_003.WAV", seed=3)
    write(data / "metadata.csv", "\ufeffSentence  ID, Speaker ID ,Sentences,Topic,Folder,Part,Notes\r\n"
          '001,s1,"one, ""two""",rice,x,train,\r\n'
          "002,s2,two  blanks ,,gifts,dev,kept\r\n"
          "003.WAV,s2,nan,,gifts,dev,\r\n"
          "004,s2,lost,,gifts,dev,\r\n"
          ",s2,nothing,,gifts,dev,\r\n"
          "005,s2,too,many,gifts,dev,a,b\r\n")


def make_texts(root, clip):
    """No header; transcripts in files; a separator that no transcript contains."""
    write(root / "schema.yaml", "\n".join([
        "dataset_id: speech-x", "task: TTS", "index_file: list.txt", 'separator: "|"',
        "has_header: false", "base_audio_path: wavs", "columns:",
        "    audio_path:", "        source_column: 0", "        dtype: file_path",
        "        file_extension: .flac",
        "    transcription:", "        source_column: 1", "        dtype: file_content",
        "        file_extension: .txt",
        "    language:", "        source_column: 2", ""]))
    for seed, name in enumerate(("a", "b")):
        clip(root / "wavs" / f"{name}.flac", seed=10 + seed)
    write(root / "wavs" / "a.txt", "read from a file\n")
    write(root / "list.txt", 'a|a|wo\nb||"wo\n')


def make_sections(root, clip):
    columns = ("columns:\n  audio_path:\n    source_column: clip_filename\n"
               "  transcription:\n    source_column: text\n")
    write(root / "schema.yaml",
          "dataset_id: lin\ntask: TTS\nformat: tsv\nroot_strategy: multi_sections\n"
          "section_root: Lingala\nsections:\n- One\n- Two\n- Gone\nindex_file: text.tsv\n"
          "base_audio_path: clips/\n" + columns)
    for seed, section in enumerate(("One", "Two", "Three")):
        clip(root / "Lingala" / section / "clips" / "1.mp3", seed=20 + seed)
        write(root / "Lingala" / section / "text.tsv", f'clip_filename\ttext\n1.mp3\t"{section}\n')


def make_bad(root, clip):
    """A file that is not understood does not count as a schema; the layout that fits without it is
    used."""
    write(root / "schema.yaml", "dataset_id: x\ntask: TTS\nindex_file: [a, b]\n")
    clip(root / "a.wav", seed=1)
    write(root / "metadata.csv", "file_name,text\na.wav,one\n")


def make_flow(root, clip):
    """The schema in YAML as a program may write it: in brackets, folded, with escapes."""
    write(root / "schema.yaml",
          '%YAML 1.1\n---\n{dataset_id: flow, "task": ASR, index_file: list.txt, separator: "\\x7C",\n'
          "base_audio_path: [gone, wavs], columns: {audio_path: {source_column: File\n  name},\n"
          "  transcription: {source_column: 'Text', optional: ~}}, splits: []}\n")
    clip(root / "wavs" / "a.wav", seed=30)
    write(root / "list.txt", "File name|Text\na.wav|one\n")


def make_alias(root, clip):
    """A YAML alias, which stands for a value elsewhere, is rejected, and so is the schema."""
    make_flow(root, clip)
    write(root / "schema.yaml", "dataset_id: &x list.txt\ntask: ASR\nseparator: '|'\nindex_file: *x\n"
          "base_audio_path: wavs\ncolumns:\n  audio_path:\n    source_column: File name\n")


ONE = "khmer-corpus/data/recipes/s1_khm_001"

CASES = {
    "index": (make, {
        "utterances": 3, "domains": {"mdc/cmk0example": 3}, "splits": {"train": 1, "dev": 2},
        "speakers": 2,
        "rejects": {"missing_audio": (2, 2), "row_field_count": (1, 1)},
        "ids": {
            ONE: {"text": 'one, "two"', "speaker": "mdc/cmk0example/s1", "source": ONE + ".wav",
                  "extras": {"topic": "rice", "Folder": "x", "Notes": None, "Part": None}},
            "khmer-corpus/data/gifts/s2_khm_002": {"text": "two  blanks ",
                                                   "extras": {"topic": None, "Notes": "kept"}},
            "khmer-corpus/data/gifts/s2_khm_003": {"text": "nan"}}}),
    "index, one split": (make, {"options": ["--split", "train"], "utterances": 1, "excluded": 4,
                                "splits": {"train": 1}}),
    "texts in files": (make_texts, {
        "utterances": 2, "rejects": {}, "domains": {"mdc/speech-x": 2},
        "ids": {"wavs/a": {"text": "read from a file", "language": "wo"},
                "wavs/b": {"text": None, "language": '"wo'}}}),
    "sections": (make_sections, {
        "utterances": 2, "rejects": {"unreadable": (1, 0)}, "domains": {"mdc/lin": 2},
        "ids": {"Lingala/One/clips/1": {"text": '"One', "extras": {"section": "One"}},
                "Lingala/Two/clips/1": {"text": '"Two'}}}),
    "in brackets": (make_flow, {
        "utterances": 1, "rejects": {}, "domains": {"mdc/flow": 1},
        "ids": {"wavs/a": {"text": "one"}}}),
    "with an alias": (make_alias, {"layout": "table", "utterances": 1}),
    "not understood": (make_bad, {"layout": "audiofolder", "utterances": 1}),
}
