"""Detect the corpus of a set of parquet files, and convert its rows to utterances.

A corpus is detected from its columns. Ids, domains, splits, speakers, and extras are the same as
from the layout for the corpus in its original form (layouts.md), so that both give the same
dataset.

The methods of a corpus:

    match(table)   return the evidence as a sentence, or None; table: column names, first id, file
    arrange()      return the files in reading order; the others go to `excluded`
    utterance()    convert a row to (id, members of the JSON); None: skip a repeat; raises Reject
"""

import hashlib
import math
import posixpath
import re
from array import array

AUDIO_EXTENSIONS = frozenset(
    "wav flac mp3 opus ogg oga wave gsm m4a aac wma webm amr sph aif aiff aifc au snd caf w64 rf64 voc "
    "spx mka".split()
)
MLS_LANGUAGES = {
    "english": "en",
    "german": "de",
    "dutch": "nl",
    "french": "fr",
    "spanish": "es",
    "italian": "it",
    "portuguese": "pt",
    "polish": "pl",
}
PEOPLES_SPEECH_LICENCES = {
    "clean": "CC BY",
    "dirty": "CC BY",
    "clean_sa": "CC BY-SA",
    "dirty_sa": "CC BY-SA",
}
OPUS_RATE_HZ = 16000  # rate of the MLS material, whose Opus files decode at 48000
AUDIO_PATH = "/audio/path"  # key in a row for the path in the audio column, or ""


class Reject(Exception):
    """A row that is rejected, and the reason. rows is 0 if the row was not a separate utterance."""

    def __init__(self, reason, detail=None, rows=1, utterance=None):
        super().__init__(reason)
        self.reason, self.detail, self.rows, self.utterance = reason, detail, rows, utterance


class Invalid:
    """A string that is not UTF-8. An error in a text or a name; an extra gets U+FFFD instead."""

    def __init__(self, value):
        self.replaced = value.decode(errors="replace")


def text_of(value):
    """Return a value as text, "" for None."""
    if value is None:
        return ""
    if isinstance(value, Invalid):
        raise Reject("text_invalid_utf8")
    return value if isinstance(value, str) else str(value)


def known(value):
    """Like text_of, but return "" for placeholders such as "-" and "unknown"."""
    text = text_of(value)
    return "" if text.lower() in ("", "-", "n/a", "nan", "unknown", "<unk>") else text


def stem(name):
    """Remove an audio extension."""
    base, dot, extension = name.rpartition(".")
    return base if dot and base and base[-1] != "/" and extension.lower() in AUDIO_EXTENSIONS else name


def clean_name(name):
    """Escape control characters, and "%" if it looks like an escape, as the other layouts do."""
    return re.sub(r"[\x00-\x1f\x7f]|%(?=[0-9a-fA-F]{2})", lambda m: f"%{ord(m[0]):02X}", name)


def is_locale(name):
    return re.fullmatch(r"[a-z]{2,3}(-[A-Za-z0-9-]*)?", name) is not None


def extra_value(value):
    """Return a JSON value, or None for empty and unsupported values."""
    if isinstance(value, Invalid):
        return value.replaced
    if value is None or value == "" or isinstance(value, (bytes, list, dict)):
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool)) else str(value)


def seconds_text(value):
    """Format seconds as segments.txt does: two decimals, or more if the value has more."""
    return f"{value:.2f}" if round(value, 2) == value else repr(value)


class NameSet:
    """Maps names to numbers below 8, with 8 bytes per slot: open addressing over hashes."""

    def __init__(self):
        self._slots = array("Q", bytes(8 << 10))
        self.count = 0

    def _find(self, key):
        mask = len(self._slots) - 1
        at = (key >> 3) & mask
        while self._slots[at] and self._slots[at] >> 3 != key >> 3:
            at = (at + 1) & mask
        return at

    def add(self, name, number):
        """Return the number of a known name. Store a new name with number, and return None."""
        digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest()
        key = (int.from_bytes(digest, "little") | 8) & ~7
        at = self._find(key)
        if self._slots[at]:
            return self._slots[at] & 7
        self._slots[at] = key | number
        self.count += 1
        if self.count * 5 > len(self._slots) * 3:
            self._grow()
        return None

    def _grow(self):
        old, self._slots = self._slots, array("Q", bytes(16 * len(self._slots)))
        for slot in old:
            if slot:
                self._slots[self._find(slot)] = slot


class Corpus:
    """Base class of the corpora. places: its files, sorted."""

    name = ""
    split_names = {}  # {split in file names: split in the original corpus}
    only_when_asked = ()  # splits that are packed only if --split names them
    hidden = ()  # columns that do not become extras

    def __init__(self, places, wanted):
        self.places = places
        self.wanted = wanted  # names given to --split, or None
        self.excluded = []  # (place, why)

    def split(self, place):
        return self.split_names.get(place.split, place.split)

    def is_wanted(self, *names):
        return self.wanted is None or any(name in self.wanted for name in names if name)

    def arrange(self):
        chosen = []
        for place in self.places:
            split = self.split(place)
            if self.wanted is None and split in self.only_when_asked:
                self.excluded.append((place, f"'{split}' is packed when --split names it"))
            elif not self.is_wanted(split, place.split, *self.aliases(place)):
                self.excluded.append((place, "another split was asked for"))
            else:
                chosen.append(place)
        return chosen

    def aliases(self, place):
        """Return other names by which --split may select the file."""
        return ()

    @staticmethod
    def nominal_rate(extension):
        """Return the rate of the material if the container has another rate, else None."""
        return None

    def leave_out(self, place, why):
        self.excluded.append((place, why))

    def without(self, config, places):
        """Exclude a config that repeats all others, if the others are there."""
        if all(place.config == config for place in places):
            return places
        for place in (p for p in places if p.config == config):
            self.leave_out(place, f"the config '{config}' repeats the others")
        return [place for place in places if place.config != config]

    def extras(self, row):
        return {
            key: extra_value(value)
            for key, value in row.items()
            if key != AUDIO_PATH and key not in self.hidden
        }


class Mls(Corpus):
    """Multilingual LibriSpeech. The column chapter_id has the number of the book."""

    name = "mls"
    limited = {"9_hours": "9hr", "1_hours": "1hr"}
    split_names = {"9_hours": "train", "1_hours": "train"}
    order = ("train", "dev", "test", "9_hours", "1_hours")
    hidden = (
        "id",
        "file",
        "original_path",
        "begin_time",
        "end_time",
        "transcript",
        "text",
        "speaker_id",
        "chapter_id",
        "book_id",
        "gender",
    )

    def __init__(self, places, wanted):
        super().__init__(places, wanted)
        self.supervision = {}  # {id: "9hr" or "1hr"}, a few thousand
        self.left = set()  # ids of supervision that no row of train had so far

    @staticmethod
    def match(table):
        columns = table.columns
        if {"original_path", "begin_time", "end_time", "transcript", "speaker_id"} <= columns:
            return "it has the columns original_path, begin_time, end_time and transcript"
        if {"file", "text", "speaker_id", "chapter_id", "id"} <= columns and re.fullmatch(
            r"\d+_\d+_\d+", table.first_id
        ):
            return f"it has the columns speaker_id and chapter_id and ids like {table.first_id}"
        return None

    def arrange(self):
        """Sort the files. Read the ids of the files with limited supervision first: their rows
        repeat rows of train, and are packed only if train lacks them."""
        chosen = super().arrange()
        for place in chosen:
            if place.split in self.limited and "id" in place.columns:
                for name in place.read_column("id"):
                    self.supervision.setdefault(text_of(name), self.limited[place.split])
        self.left = set(self.supervision)
        rank = {split: number for number, split in enumerate(self.order)}
        return sorted(chosen, key=lambda p: (p.folder, rank.get(p.split, len(rank)), p.relative))

    @staticmethod
    def language(place):
        for name in reversed(place.names):
            name = name[: -len("_opus")] if name.endswith("_opus") else name
            if name.startswith("mls_") and len(name) > 4:
                return name[4:]
            if name in MLS_LANGUAGES:
                return name
        return "unknown"

    def utterance(self, row, place, number):
        name = text_of(row.get("id")) or stem(posixpath.basename(text_of(row.get("file"))))
        parts = re.fullmatch(r"([0-9]+)_([0-9]+)_[0-9]+", name)
        if parts is None:
            raise Reject("row_syntax", "the id is not speaker_book_index, in digits", utterance=name)
        if place.split in self.limited and name not in self.left:
            return None
        self.left.discard(name)
        language = self.language(place)
        extras = {
            "gender": text_of(row.get("gender")),
            "limited_supervision": self.supervision.get(name),
            "source_url": text_of(row.get("original_path")),
        }
        for key, column in (("source_start", "begin_time"), ("source_end", "end_time")):
            if isinstance(row.get(column), float):
                extras[key] = seconds_text(row[column])
        text = row["transcript"] if "transcript" in row else row.get("text")
        return name, {
            "text": None if text is None else text_of(text),
            "speaker": f"mls/{parts[1]}",
            "language": MLS_LANGUAGES.get(language),
            "domain": f"mls/{language}",
            "split": self.split(place),
            "document": parts[2],
            "extras": {**extras, **self.extras(row)},
        }

    @staticmethod
    def nominal_rate(extension):
        return OPUS_RATE_HZ if extension == "opus" else None


class PeoplesSpeech(Corpus):
    """The People's Speech. Each config has the same validation and test splits. microset is a part
    of the other configs."""

    name = "peoples-speech"
    configs = ("clean", "clean_sa", "dirty", "dirty_sa", "microset", "validation", "test")

    @classmethod
    def match(cls, table):
        if not {"id", "duration_ms", "text"} <= table.columns or len(table.columns) > 4:
            return None
        if any(name in cls.configs for name in table.place.names):
            return f"it has the columns id, audio, duration_ms and text below {table.place.config}/"
        if "_SLASH_" in table.first_id or "_DOT_" in table.first_id:
            return "it has the columns id, audio, duration_ms and text, and _SLASH_ or _DOT_ in ids"
        return None

    def aliases(self, place):
        return (self.subset(place),)

    def subset(self, place):
        if place.split in ("validation", "test"):
            return place.split
        names = [name for name in reversed(place.names) if name in self.configs]
        return names[0] if names else ""

    def arrange(self):
        chosen = super().arrange()
        for split in ("validation", "test"):
            rows = {}
            for place in (p for p in chosen if p.split == split):
                rows[place.folder] = rows.get(place.folder, 0) + place.rows
            if rows:
                best = min(rows, key=lambda f: (-rows[f], posixpath.basename(f) != split, f))
                why = f"every config has the same {split}; that of {best} is packed"
                chosen = [
                    p for p in chosen if p.split != split or p.folder == best or self.leave_out(p, why)
                ]
        if any(self.subset(p) in PEOPLES_SPEECH_LICENCES for p in chosen):
            chosen = [
                p
                for p in chosen
                if self.subset(p) != "microset"
                or self.leave_out(p, "microset repeats a part of the other configs")
            ]
        return chosen

    def utterance(self, row, place, number):
        name = stem(posixpath.basename(text_of(row["id"])) or posixpath.basename(row[AUDIO_PATH]))
        subset = self.subset(place)
        # An id is identifier + "/" + recording, in which "/", ".", and " " are encoded.
        document = re.sub(r"_[0-9]{5}$", "", name).split("_SLASH_")[0]
        document = document.replace("_DOT_", ".").replace("_SPACE_", " ")
        return name, {
            "text": text_of(row["text"]) or None,
            "language": "en",
            "domain": f"ps/{subset}" if subset else "ps",
            "split": self.split(place),
            "document": document,
            "extras": {
                "licence": PEOPLES_SPEECH_LICENCES.get(subset),
                "duration_ms": row["duration_ms"],
            },
        }


class Clips(Corpus):
    """Corpora of several tables in which the same clip may appear."""

    order = ("test", "dev", "train")  # a clip belongs to the first split that has it
    split_names = {"validation": "dev"}
    holds_others = ()  # splits that repeat clips of other splits by design

    def __init__(self, places, wanted):
        super().__init__(places, wanted)
        self.seen = NameSet()
        self.folder = None

    def arrange(self):
        rank = {split: number for number, split in enumerate(self.order)}
        return sorted(
            super().arrange(), key=lambda p: (p.folder, rank.get(self.split(p), len(rank)), p.relative)
        )

    def take(self, name, place):
        """Return whether to pack this row: True for the first row of a clip, False for an expected
        repeat. Raises Reject for any other repeat."""
        if place.folder != self.folder:
            self.seen, self.folder = NameSet(), place.folder
        split = self.split(place)
        number = self.order.index(split) if split in self.order else len(self.order)
        before = self.seen.add(name, number)
        if before is None:
            return True
        if before == number:
            raise Reject("dup_id", "an earlier row of the split has this clip", utterance=name)
        if split in self.holds_others and before < self.order.index(split):
            return False
        raise Reject(
            "split_conflict",
            f"{self.order[before]} has this clip too, and keeps it",
            rows=0,
            utterance=name,
        )

    def all_texts(self, row):
        """Return the extras as text, as in the original tables of these corpora."""
        return {key: text_of(value) for key, value in self.extras(row).items()}


class CommonVoice(Clips):
    name = "common-voice"
    order = ("test", "dev", "train", "validated", "other", "invalidated")
    only_when_asked = ("other", "invalidated")
    holds_others = ("validated",)
    hidden = ("client_id", "path", "sentence", "locale")

    @staticmethod
    def match(table):
        if {"client_id", "path", "sentence"} <= table.columns:
            return "it has the columns client_id, path and sentence"
        return None

    @staticmethod
    def locale(row, place):
        found = known(row.get("locale"))
        if found:
            return found
        for name in reversed(place.names):
            if is_locale(name):
                return name
            end = re.split("[_-]", name)[-1]
            if name.startswith(("cv-", "common_voice")) and is_locale(end):
                return end
        return "unknown"

    def utterance(self, row, place, number):
        written = text_of(row["path"]) or row[AUDIO_PATH]
        if not written:
            raise Reject("missing_audio", "the row names no clip")
        clip = stem(posixpath.basename(written))
        locale = self.locale(row, place)
        name = clean_name(clip)
        if place.config.startswith(locale + "-"):
            name = f"{place.config}/{name}"  # a variant, with copies of clips of its base locale
        if not self.take(clip, place):
            return None
        speaker = known(row["client_id"])
        language = locale.split("_")[0]
        return name, {
            "text": text_of(row["sentence"]) or None,
            "speaker": f"cv/{speaker}" if speaker else None,
            "language": language if is_locale(language) else None,
            "domain": f"cv/{locale}",
            "split": self.split(place),
            "extras": self.all_texts(row),
        }


class VoxPopuli(Clips):
    name = "voxpopuli"
    hidden = ("audio_id", "id", "normalized_text", "speaker_id", "language", "split")

    def arrange(self):
        return self.without("multilang", super().arrange())

    @staticmethod
    def match(table):
        if {"raw_text", "normalized_text", "speaker_id"} <= table.columns:
            return "it has the columns raw_text, normalized_text and speaker_id"
        return None

    def utterance(self, row, place, number):
        name = text_of(row.get("audio_id") or row.get("id"))
        name = name or stem(posixpath.basename(row[AUDIO_PATH]))
        if not name:
            raise Reject("bad_id", "the row has no id")
        if not self.take(name, place):
            return None
        speaker = known(row["speaker_id"])
        language = known(row.get("language")) or place.config or "unknown"
        code = language.split("_")[0]
        return name, {
            "text": text_of(row["normalized_text"]) or None,
            "speaker": f"voxpopuli/{speaker}" if speaker else None,
            "language": code if is_locale(code) else None,
            "domain": f"voxpopuli/{language}",
            "split": self.split(place),
            "extras": self.all_texts(row),
        }


class LibriSpeech(Corpus):
    name = "librispeech"
    hidden = ("id", "file", "text", "speaker_id", "chapter_id")

    @staticmethod
    def match(table):
        if {"file", "text", "speaker_id", "chapter_id", "id"} <= table.columns and re.fullmatch(
            r"\d+-\d+-\d+", table.first_id
        ):
            return f"it has the columns speaker_id and chapter_id and ids like {table.first_id}"
        return None

    def aliases(self, place):
        return (place.split.replace(".", "-"),)

    def arrange(self):
        return self.without("all", super().arrange())

    def split(self, place):
        first = re.split("[.-]", place.split)[0]
        return "dev" if first == "validation" else first

    def utterance(self, row, place, number):
        name = text_of(row["id"])
        parts = re.fullmatch(r"([0-9]+)-([0-9]+)-[0-9]+", name)
        if parts is None:
            raise Reject("row_syntax", "an id is reader-chapter-index, in digits", utterance=name)
        subset = place.split.replace(".", "-")
        kind = [k for k in ("clean", "other") if k in re.split("-", subset) + [place.config]]
        if subset in ("train", "validation", "test", "dev") and kind:
            subset = f"{self.split(place)}-{kind[0]}"
        return name, {
            "text": text_of(row["text"]) or None,
            "speaker": f"librispeech/{parts[1]}",
            "language": "en",
            "domain": f"librispeech/{kind[0]}" if kind else "librispeech",
            "split": self.split(place),
            "document": parts[2],
            "extras": {"subset": subset, **self.extras(row)},
        }


ROLES = {
    "text": "text sentence transcript transcription transcript_text normalized_text label",
    "id": "id key utt_id utterance_id segment_id sid audio_id",
    "speaker": "speaker speaker_id spk client_id",
    "language": "lang language locale",
    "domain": "domain",
    "split": "split",
}
AUDIO_NAMES = (
    "audio speech wav file path file_name filename audio_path audio_filepath audio_file wav_path "
    "wav_filename clip utt_path".split()
)


def plain(name):
    return re.sub("[- ]", "_", name.lower())


def column_of(names, role_names):
    """Return the column with the first of the role's names that exists, or None."""
    by_name = {}
    for name in names:
        by_name.setdefault(plain(name), name)
    return next((by_name[name] for name in role_names if name in by_name), None)


class Generic(Corpus):
    """Any other corpus. The names of columns decide their roles, as for tables."""

    name = "generic"

    def __init__(self, places, wanted):
        super().__init__(places, wanted)
        self.place = None  # file to which columns and hidden apply
        self.columns = {}

    @staticmethod
    def match(table):
        return f"it has audio in the column {table.audio}"

    def aliases(self, place):
        return (place.config,)

    @staticmethod
    def roles(place):
        """Return {role: column}. The text column must hold strings, not numbers or classes."""
        return {
            role: column_of(place.texts if role == "text" else place.columns, words.split())
            for role, words in ROLES.items()
        }

    def utterance(self, row, place, number):
        if place is not self.place:
            self.place, self.columns = place, self.roles(place)
            self.hidden = {column for column in self.columns.values() if column}
        value = {
            role: known(row[column]) if column and role != "text" else ""
            for role, column in self.columns.items()
        }
        split = value["split"] or place.split
        if value["split"] and not self.is_wanted(split, *self.aliases(place)):
            return None
        text = self.columns["text"]
        return self.id_of(value["id"], row[AUDIO_PATH], split, number), {
            "text": text_of(row[text]) or None if text else None,
            "speaker": value["speaker"],
            "language": value["language"],
            "domain": value["domain"] or value["language"] or posixpath.basename(place.below),
            "split": split,
            "extras": self.extras(row),
        }

    def id_of(self, name, written, split, number):
        """Return an id: from the id column, else from the path, below the folder and the split,
        else from the row number."""
        written = clean_name(stem(written))
        if name or not written:
            return name or f"{stem_of_file(self.place.relative)}#{number}"
        if "://" in written or written.startswith("/"):
            written = posixpath.basename(written)
        return posixpath.normpath(posixpath.join(self.place.below, split, written))

    def arrange(self):
        chosen = []
        for place in self.places:
            # If there is a split column, utterance() selects the rows.
            if column_of(place.columns, ["split"]) or self.is_wanted(place.split, *self.aliases(place)):
                chosen.append(place)
            else:
                self.leave_out(place, "another split was asked for")
        return chosen


def stem_of_file(path):
    return path[: -len(".parquet")] if path.endswith(".parquet") else path


CORPORA = (Mls, PeoplesSpeech, CommonVoice, VoxPopuli, LibriSpeech, Generic)
