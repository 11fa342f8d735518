"""Kaldi data directories: commands, archives, tabs, open segments, files that are not sorted."""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def make_train(root, clip):
    """Utterances are whole recordings. wav.scp is sorted, text is not."""
    data = root / "data" / "train_all"
    for name in ("a01", "a02", "a03", "a04", "a05", "a06", "a08", "a10", "sp0.9-a01"):
        clip(root / "corpus" / f"{name}.wav", seed=sum(name.encode()))
    clip(data / "near.flac", seed=1)
    clip(root / "corpus" / "with blank.wav", seed=2)
    marker = root / "was-run"
    entries = [
        ("a01", "corpus/a01.wav"),
        ("a02", str(root / "corpus" / "a02.wav")),
        ("a03", "flac -c -d -s corpus/a03.wav |"),
        ("a04", "sox corpus/a04.wav -t wav -r 16000 -b 16 - rate -h 16000 dither |"),
        ("a05", "ffmpeg -nostdin -loglevel error -i corpus/a05.wav -f wav -ar 16000 - |"),
        ("a06", "cat corpus/a06.wav|"),
        ("a07", "gunzip -c corpus/a07.wav.gz |"),
        ("a08", "sph2pipe -f wav -p -c 2 corpus/a08.wav |"),
        ("a09", f"touch {marker} ; cat corpus/a01.wav |"),
        ("a10", "foo.ark:1234"),
        ("a11", f"$(touch {marker}) |"),
        ("a12", "near.flac"),
        ("a13", "corpus/gone.wav"),
        ("a14", "https://example.org/a14.wav"),
        ("a15", "/usr/bin/sox 'corpus/with blank.wav' -t wav - remix 2 |"),
        ("sp0.9-a01", "corpus/sp0.9-a01.wav"),
        ("sp1.1-a01", "sox corpus/a01.wav -t wav - speed 1.1 |"),
    ]
    # One line is joined by a tab, and the last has no end.
    write(data / "wav.scp", "\n".join(
        name + ("\t" if name == "a02" else " ") + value for name, value in entries))
    write(data / "text", "a05 fünf\na01\tHELLO  WORLD\na02   padded  \na03\na04 nan\na12 near\n"
                         "a99 of nobody\na13 gone with it\na06 a\u2028b\n")
    write(data / "utt2spk", "".join(f"{name} spk{name[1]}\n" for name, _ in entries[:6]) +
          "a12 a12\n")
    write(data / "spk2gender", "spk0 f\n")
    write(data / "utt2uniq", "a01 a01\nsp0.9-a01 a01\nsp1.1-a01 a01\n")
    write(data / "._text", "a01 wrong\n")


def make_dev(root, clip):
    """Segments of long recordings, two channels, another language."""
    data = root / "data" / "dev"
    clip(data / "audio" / "call1.wav", seconds=3, channels=2, seed=3)
    clip(data / "audio" / "call2.wav", seconds=2, seed=4)
    clip(data / "audio" / "call3.wav", seconds=1, seed=5)
    write(data / "wav.scp", "call1-A audio/call1.wav\ncall1-B audio/call1.wav\n"
                            "call2 audio/call2.wav\ncall3 audio/call3.wav\n")
    write(data / "reco2file_and_channel", "call1-A call1 A\ncall1-B call1 B\n")
    write(data / "segments", "u1 call1-A 0.5 1.25\nu2 call1-B 0.50 1.25\nu3\tcall2\t1\t-1\n"
                             "u5 call2 0.2 0.1\nu4 call2 0 0.50\nu6 callX 0 1\nu7 call2 0\n")
    write(data / "text", "u1 one\nu2 two\nu3 three\nu4 \nu5 backwards\nu6 gone, too\n")
    write(data / "utt2spk", "u1 A\nu2 B\nu3 unknown\n")
    write(data / "utt2lang", "u1 de\nu2 de\nu3 fr\nu4 fr\n")


def make(root, clip):
    make_train(root, clip)
    make_dev(root, clip)
    write(root / "data" / "lang" / "phones.txt", "a 1\n")




EXPECTED = {
    "root": "data",
    "utterances": 13,
    "rejects": {
        # Six utterances that cannot be packed, and one note about the files that commands read.
        "command_source": (7, 6),
        "missing_audio": (2, 2),
        "remote_source": (1, 1),
        "orphan_text": (1, 0),
        "orphan_audio": (1, 0),
        "segment_range": (1, 1),
        "row_field_count": (1, 1),
        "augmented_copy": (1, 0),
    },
    "domains": {"train_all": 9, "de": 2, "fr": 2},
    "speakers": 3,
    "ids": {
        "a01": {"text": "HELLO  WORLD", "split": "train", "speaker": "spk0", "seconds": 0.4,
                "extras": {"gender": "f", "data_dir": "train_all"}},
        "a02": {"text": "padded"},
        "a03": {"text": ""},
        "a04": {"text": "nan"},
        "a05": {"text": "fünf"},
        "a06": {"text": "a\u2028b"},
        "a12": {"text": "near", "speaker": None, "source": "train_all/near.flac"},
        "a15": {"text": None, "extras": {"channel": "2"}},
        # A copy at another speed is a separate utterance; its original utterance stays known.
        "sp0.9-a01": {"extras": {"utt2uniq": "a01"}},
        "sp1.1-a01": None,
        "u1": {"text": "one", "split": "dev", "seconds": 0.75, "language": "de",
               "document": "call1-A", "extras": {"channel": "A"}},
        "u2": {"text": "two", "seconds": 0.75, "extras": {"channel": "B"}},
        "u3": {"seconds": 1.0, "domain": "fr", "speaker": None},
        "u4": {"text": "", "seconds": 0.5},
        "u5": None,
    },
}

def make_windows(root, clip):
    """After an editor: CR LF, and a byte order mark."""
    make(root, clip)
    for file in [*root.glob("data/train_all/*"), *root.glob("data/dev/*")]:
        if file.is_file() and file.suffix == "":
            file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))


def make_broken(root, clip):
    make(root, clip)
    (root / "data" / "dev" / "segments").unlink()
    (root / "data" / "dev" / "segments").mkdir()


def make_copies(root, clip):
    """Without utt2uniq, only ids with the prefix of perturbed copies are copies."""
    data = root / "train"
    names = ("a", "sp0.9-a", "sp1.1-a", "sp1-b", "sp.9-c", "sp1.1d", "spring-1.1-e")
    for i, name in enumerate(names):
        clip(data / "wav" / f"{name}.wav", seed=50 + i)
    write(data / "wav.scp", "".join(f"{name} wav/{name}.wav\n" for name in sorted(names)))


def make_odd_texts(root, clip):
    texts = {"a": "bell\x07", "b": "del\x7f", "c": "mark \ufeffhere", "d": "plain\tü\u2028\u00a0",
             "e": "\uff21\u3000\uffe5", "f": "carriage\rreturn"}
    for i, name in enumerate(texts):
        clip(root / "wav" / f"{name}.wav", seed=60 + i)
    write(root / "wav.scp", "".join(f"{name} wav/{name}.wav\n" for name in texts))
    write(root / "text", "".join(f"{name} {text}\n" for name, text in texts.items()))


CASES = {
    "": (make, EXPECTED),
    "odd texts": (make_odd_texts, {
        "utterances": 6, "rejects": {"text_control_chars": (4, 0)},
        "ids": {"a": {"text": "bell\x07"}, "c": {"text": "mark \ufeffhere"}}}),
    "copies": (make_copies, {
        "utterances": 7, "rejects": {"augmented_copy": (1, 0)},
        "told": ["(speed perturbation), packed unchanged: 2"]}),
    "CR LF": (make_windows, EXPECTED),
    "one split": (make, {"root": "data", "options": ["--split", "dev"], "utterances": 4,
                         "excluded": 17}),
    "above the data": (make, {"utterances": 13}),
    "a file that is none": (make_broken, {"root": "data", "status": 1,
                                          "stderr": "/data/dev: segments: not a regular file"}),
}
