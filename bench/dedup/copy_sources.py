"""Recordings for copies_kit.py: which files there are, in which language, and which are held back.

Two folders hold them: DATA, the folder of real speech of the tests, and DEBIAN, into which fetch()
unpacks packages of Debian 12. Every third speaker (or file, if the speaker is the whole corpus) is
held back: only seeds for final tables hear it.
"""

import array
import collections
import itertools
import os
import random
import re
import subprocess
import zlib

from copy_transforms import RATE

PACKAGES = ("klettres-data", "ktuberling-data", "gcin-voice", "fillets-ng-data", "fillets-ng-data-cs", "fillets-ng-data-nl",
            *(f"asterisk-core-sounds-{language}-{codec}" for language in ("en", "es", "fr", "it", "ru") for codec in ("wav", "gsm", "g722")),
            "asterisk-moh-opsound-wav", "libopencore-amrnb0", "libvo-amrwbenc0")
ROOM = "spatialaudio-rir/data/rir_clap.wav"
LANGUAGES = ("en", "de", "nl", "cs", "es", "fr", "it", "ru", "zh", "other")
BINS = ((0.5, 0.8), (0.8, 1.2), (1.2, 2.0), (2.0, 3.0), (3.0, 6.0))

# Corpus; path, with the language, the speaker and the word if it names them.
CORPORA = (
    ("librispeech", r"/librispeech-351/.*/(?P<en>)(?P<voice>\d+)-[^/]*\.flac$"),
    ("ljspeech", r"/ljspeech-3codecs/.*(?P<en>)\.wav$"),
    ("kerstin", r"/kerstin-pairs/cleaned/(?P<de>)[^/]*\.flac$"),
    ("fillets", r"/fillets-ng/sound/\w+/(?P<language>cs|nl|en)/[^/]*\.ogg$"),
    ("klettres", r"/klettres/(?P<language>\w+)/.*/(?P<word>[^/]*)\.ogg$"),
    ("ktuberling", r"/ktuberling/sounds/(?P<language>\w+)/(?P<word>[^/]*)\.(?:ogg|opus|wav)$"),
    ("gcin", r"/gcin-voice/ogg/(?P<zh>)(?P<word>[^/]*)/(?P<voice>\d)\.ogg$"),
    ("prompts", r"/asterisk-core-sounds-\w\w-wav/.*/sounds/(?P<language>\w\w)_\w+/(?P<word>.*)\.wav$"),
    ("digits", r"/fsdd/recordings/(?P<en>)(?P<word>\d)_(?P<voice>\w+)_\d+\.wav$"),
    ("yesno", r"/yesno/.*(?P<he>)/[^/]*\.wav$"),
    ("music", r"/asterisk/moh/(?P<none>)[^/]*\.wav$"),
)
NOISES = ("noise", r"/esc10-noise/\d+ - (?P<none>)(?P<word>[^/]*)/[^/]*\.ogg$")  # only in copy_others.py
ONLY_NEGATIVE = {"digits", "yesno", "music"}
VOICES = {"librispeech", "digits"}  # held back by voice


class Recording(collections.namedtuple("Recording", "path corpus language voice word")):
    @property
    def take(self):
        """Recordings of one take: its authors also publish parts of a take as prompts of other names, which end alike."""
        if self.corpus in ("prompts", "ktuberling"):
            return f"{self.voice}/{re.split('[-_/]', self.word)[-1]}"
        return self.path


def fetch(folder):
    """Download and unpack the packages. Files that exist stay."""
    os.makedirs(folder, exist_ok=True)
    for package in PACKAGES:
        target = os.path.join(folder, package)
        if os.path.isdir(target):
            continue
        subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True)
        name = next(name for name in os.listdir(folder) if name.startswith(package + "_") and name.endswith(".deb"))
        subprocess.run(["dpkg-deb", "-x", name, package], cwd=folder, check=True)


def versions(folder):
    return sorted(name.rsplit("_", 1)[0].replace("_", " ").replace("%3a", ":") for name in os.listdir(folder) if name.endswith(".deb"))


def find(*folders, corpora=CORPORA):
    """All recordings, in the order of their paths. Links to folders are not followed."""
    found = []
    for folder in folders:
        for path in sorted(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names):
            for corpus, pattern in corpora:
                match = re.search(pattern, path)
                if match and not os.path.islink(path):
                    parts = match.groupdict()
                    language = parts.get("language") or next(name for name, value in parts.items() if value == "")
                    found.append(Recording(path, corpus, language[:2], parts.get("voice", corpus + language), parts.get("word", "")))
                    break
    return found


def is_held_back(recording):
    key = recording.voice if recording.corpus in VOICES else "/".join(recording.path.split("/")[-3:])
    return zlib.crc32(f"{recording.corpus} {key}".encode()) % 3 == 0


def language_of(recording):
    return recording.language if recording.language in LANGUAGES else "other"


def decode(path, *options):
    command = ["ffmpeg", "-nostdin", "-v", "error", *options, "-i", path, "-ac", "1", "-ar", str(RATE), "-f", "s16le", "-"]
    raw = subprocess.run(command, capture_output=True, check=False).stdout
    return array.array("h", raw[: len(raw) // 2 * 2])


def active_seconds(samples):
    """Blocks of 20 ms that are at most 30 dB below the loudest one."""
    size = RATE // 50
    energies = [sum(x * x for x in samples[i : i + size : 4]) for i in range(0, len(samples) - size, size)]
    floor = max(energies, default=0) / 30**2
    return sum(energy > floor for energy in energies) * size / RATE


def has_speech(samples):
    seconds = len(samples) / RATE
    return abs(max(samples, key=abs, default=0)) > 300 and active_seconds(samples) >= max(seconds / 2, 0.3)


def draw_clip(samples, low, high, draw):
    """The samples, if they are low to high seconds long, or a part of them of a random length; else None."""
    if low <= len(samples) / RATE < high:
        return samples if has_speech(samples) else None
    count = int(RATE * draw.uniform(low, high))
    for _ in range(8):
        if count >= len(samples):
            return None
        first = draw.randrange(len(samples) - count)
        if has_speech(samples[first : first + count]):
            return samples[first : first + count]
    return None


def in_turns(recordings, draw):
    """The recordings in random order, each corpus in turn."""
    by_corpus = collections.defaultdict(list)
    for recording in recordings:
        by_corpus[recording.corpus].append(recording)
    for files in by_corpus.values():
        draw.shuffle(files)
    turns = itertools.zip_longest(*(by_corpus[corpus] for corpus in sorted(by_corpus)))
    return [recording for turn in turns for recording in turn if recording is not None]


class Pool:
    """Draws each recording of a language at most once. Recordings with equal samples count as one."""

    def __init__(self, recordings, seed, is_final, language):
        self.draw = random.Random(f"{seed} {language}")
        self.files = in_turns([r for r in recordings if r.corpus not in ONLY_NEGATIVE and is_held_back(r) == is_final
                               and language_of(r) == language], self.draw)
        self.seen = set()

    def take(self, low, high):
        """(recording, its samples, samples of the clip), or None after 20 files that do not fit."""
        for _ in range(min(20, len(self.files))):
            recording = self.files.pop(0)
            samples = decode(recording.path)
            clip = draw_clip(samples, low, high, self.draw)
            digest = hash(samples.tobytes())
            if clip is not None and digest not in self.seen:
                self.seen.add(digest)
                return recording, samples, clip
            if digest not in self.seen:
                self.files.append(recording)
        return None


def siblings(recording):
    """Yield the same recording as its authors published it elsewhere: transform, path, input options."""
    if recording.corpus == "prompts":
        for codec, options in (("gsm", ()), ("g722", ("-f", "g722"))):
            path = recording.path.replace("-wav/", f"-{codec}/")
            yield f"natural_{codec}", os.path.splitext(path)[0] + "." + codec, options
    elif recording.corpus == "kerstin":
        folder, name = os.path.split(recording.path)
        original = os.path.join(os.path.dirname(folder), "original")
        for other in os.listdir(original):
            if os.path.splitext(other)[0] == os.path.splitext(name)[0]:
                yield "natural_webm", os.path.join(original, other), ()
    elif recording.corpus == "ljspeech":
        folder, name = os.path.split(recording.path)
        for codec in ("mp3", "flac"):
            name_there = os.path.splitext(name)[0] + "." + codec
            for root, _, names in os.walk(os.path.dirname(folder)):
                if name_there in names:
                    yield f"natural_{codec}", os.path.join(root, name_there), ()
