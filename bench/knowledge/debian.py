#!/usr/bin/env python3
"""Measure the speech in Debian's archive with knowledge.py.

    debian.py WORK RESULTS [--only NAME]... [--speechshard PROGRAM]

Downloads the packages below WORK (`apt-get download`, 2.4 GB), unpacks them without installing
them, writes a table of the recordings if the package has transcripts or languages, and runs
knowledge.py. RESULTS gets NAME.json per corpus. The name in it has the version of the packages.
Complete datasets in WORK are reused.
`pack` decodes G.722 with FFmpeg, so the plug-in for FFmpeg must be installed.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
MANIFEST = os.path.join(HERE, "..", "..", "tools", "quickstart-manifest.sh")
LANGUAGES = ("en", "es", "fr", "it", "ru")
AUDIO = (".ogg", ".opus", ".wav", ".oga")


def files(root, folder):
    """Paths of audio below a folder, relative to root, in order."""
    for parent, folders, names in os.walk(os.path.join(root, folder)):
        folders.sort()
        for name in sorted(names):
            if name.endswith(AUDIO):
                yield os.path.relpath(os.path.join(parent, name), root)


def klettres(root):
    """Letters and syllables: sounds.xml of a language names the file of each."""
    base = "usr/share/klettres"
    for path in sorted(glob.glob(os.path.join(root, base, "*", "sounds.xml"))):
        language = os.path.basename(os.path.dirname(path))
        texts = {}
        for sound in ElementTree.parse(path).iter("sound"):
            texts.setdefault(sound.get("file"), sound.get("name"))
        for audio in files(root, os.path.join(base, language)):
            name = os.path.relpath(audio, base)
            yield audio, name, texts.get(name, ""), "", language, name.split("/")[1]


def ktuberling(root):
    """Names of things, in a folder per language."""
    for audio in files(root, "usr/share/ktuberling/sounds"):
        name = audio.split("/", 4)[4]
        yield audio, name, "", "", name.split("/")[0], "ktuberling"


def gcin(root):
    """Mandarin syllables: the folder is the syllable in Zhuyin, and each file another recording."""
    for audio in files(root, "usr/share/gcin-voice/ogg"):
        syllable, number = audio.split("/")[4:]
        yield audio, f"{syllable}-{number}", syllable, "", "zh", "gcin"


def fillets(root):
    """Dialogs: sound/LEVEL/LANGUAGE/ID.ogg, with texts in script/LEVEL/*dialogs_LANGUAGE.lua."""
    base = "usr/share/games/fillets-ng"
    said = re.compile(r'dialogId\("([^"]+)",\s*"[^"]*",\s*"((?:[^"\\]|\\.)*)"\)(?:\s*dialogStr\("((?:[^"\\]|\\.)*)"\))?')
    texts = {}
    for path in glob.glob(os.path.join(root, base, "script", "*", "*dialogs_*.lua")):
        language = path.rpartition("dialogs_")[2][:-len(".lua")]
        with open(path, encoding="utf-8") as file:
            for name, english, translated in said.findall(file.read()):
                text = english if language == "en" else translated
                texts[os.path.basename(os.path.dirname(path)), language, name] = text.replace('\\"', '"')
    for audio in files(root, os.path.join(base, "sound")):
        parts = audio[len(base) + 1:].split("/")
        if len(parts) > 3:  # without effects, which have no language
            name, language = os.path.splitext(parts[-1])[0], parts[-2]
            yield audio, "/".join(parts[1:]), texts.get((parts[1], language, name), ""), "", language, parts[1]


def tuxpaint(root):
    """NAME_desc[_LANGUAGE].ogg; NAME.txt has the English text, then lines LANGUAGE.utf8=TEXT."""
    spoken = re.compile(r"(.*)_desc(?:_([a-z]{2}(?:_[a-zA-Z]+)?))?\.(?:ogg|wav)$")
    for audio in files(root, "usr/share/tuxpaint/stamps"):
        match = spoken.match(audio)
        if not match:
            continue
        language, text = match[2] or "en", ""
        try:
            with open(os.path.join(root, match[1] + ".txt"), encoding="utf-8") as file:
                lines = file.read().splitlines()
            translated = {key: value for key, found, value in (line.partition(".utf8=") for line in lines[1:]) if found}
            text = lines[0] if language == "en" else translated.get(language, "")
        except OSError:
            pass
        yield audio, audio.split("/", 4)[4], text, "", language, "tuxpaint"


def hedgewars(root):
    """Voices of a game: one folder per voice, the same phrases in each."""
    for audio in files(root, "usr/share/games/hedgewars/Data/Sounds/voices"):
        name = audio.rpartition("voices/")[2]
        yield audio, name, "", name.split("/")[0], "", "hedgewars"


def festvox_ru(root):
    """Read sentences; lines of etc/txt.done.data are ( NAME "TEXT" )."""
    base = "usr/share/festival/voices/russian/msu_ru_nsh_clunits"
    with open(os.path.join(root, base, "etc/txt.done.data"), encoding="utf-8") as file:
        texts = dict(re.findall(r'^\(\s*(\S+)\s+"(.*)"\s*\)', file.read(), re.MULTILINE))
    for audio in files(root, os.path.join(base, "wav")):
        name = os.path.basename(audio)
        yield audio, name, texts.get(os.path.splitext(name)[0], ""), "msu_ru_nsh", "ru", "festvox"


def voices_0ad(root):
    """Calls of units, in a folder per language."""
    for audio in files(root, "audio/voice"):
        if "/global/" not in audio:  # dogs
            yield audio, audio[len("audio/voice/"):], "", "", audio.split("/")[2], "0ad"


def voices_warzone(root):
    """Announcements and briefings."""
    for audio in files(root, "audio"):
        if not audio.startswith(("audio/sfx/", "audio/radclick/")):
            yield audio, audio[len("audio/"):], "", "", "en", audio.split("/")[1]


# Name: packages (the first one has the version), and the table or the folder of the recordings.
CORPORA = {
    "klettres": (["klettres-data"], klettres),
    "ktuberling": (["ktuberling-data"], ktuberling),
    "gcin-voice": (["gcin-voice"], gcin),
    "fillets-ng": (["fillets-ng-data", "fillets-ng-data-cs", "fillets-ng-data-nl"], fillets),
    "tuxpaint-stamps": (["tuxpaint-stamps-default"], tuxpaint),
    "festvox-ru": (["festvox-ru"], festvox_ru),
    "hedgewars-voices": (["hedgewars-data"], hedgewars),
    "0ad-voices": (["0ad-data"], voices_0ad),
    "warzone2100-voices": (["warzone2100-data"], voices_warzone),
    "asterisk-core-wav": ([f"asterisk-core-sounds-{language}{form}" for language in LANGUAGES for form in ("", "-wav")], "prompts.tsv"),
    "asterisk-core-all-codecs": ([f"asterisk-core-sounds-{language}-{form}" for language in LANGUAGES
                                  for form in ("wav", "gsm", "g722")], "usr/share/asterisk/sounds"),
    "asterisk-it-menardi": ([f"asterisk-prompt-it-menardi-{form}" for form in ("wav", "gsm", "alaw")], "usr/share/asterisk/sounds"),
    "asterisk-es-co": (["asterisk-prompt-es-co"], "usr/share/asterisk/sounds"),
    "asterisk-fr-armelle": (["asterisk-prompt-fr-armelle"], "usr/share/asterisk/sounds"),
    "codec2-examples": (["codec2-examples"], "usr/share/codec2"),
    "pocketsphinx-testdata": (["pocketsphinx-testdata"], "usr/share/pocketsphinx/test/data"),
    "alsa-utils": (["alsa-utils"], "usr/share/sounds/alsa"),
}


# Zip archives inside a package, whose folder audio/ is unpacked, too.
ARCHIVES = {
    "0ad-voices": "usr/share/games/0ad/mods/public/public.zip",
    "warzone2100-voices": "usr/share/games/warzone2100/base.wz",
}


def fetch(packages, cache):
    """Paths of the packages, after a download of those that are missing."""
    os.makedirs(cache, exist_ok=True)
    missing = [name for name in packages if not glob.glob(os.path.join(cache, f"{name}_*.deb"))]
    if missing:
        user = subprocess.run(["id", "-un"], capture_output=True, check=True, text=True).stdout.strip()
        subprocess.run(["apt-get", "download", "-qq", "-o", f"APT::Sandbox::User={user}", *missing], cwd=cache, check=True)
    return [max(glob.glob(os.path.join(cache, f"{name}_*.deb"))) for name in packages]


def write_table(rows, path):
    with open(path, "w", encoding="utf-8") as table:
        table.write("path\tid\ttext\tspeaker\tlanguage\tdomain\n")
        for row in rows:
            table.write("\t".join(" ".join(field.split()) if number else field for number, field in enumerate(row)) + "\n")


def prepare(name, work):
    """Unpack the packages of a corpus. Returns its input and options of pack, and its version."""
    packages, source = CORPORA[name]
    archives = fetch(packages, os.path.join(work, "debs"))
    root = os.path.join(work, name, "root")
    if not os.path.isdir(root):
        os.makedirs(root + ".partial", exist_ok=True)
        for archive in archives:
            subprocess.run(["dpkg-deb", "-x", archive, root + ".partial"], check=True)
        if name in ARCHIVES:
            with zipfile.ZipFile(os.path.join(root + ".partial", ARCHIVES[name])) as archive:
                archive.extractall(root + ".partial", [member for member in archive.namelist() if member.startswith("audio/")])
        os.rename(root + ".partial", root)
    version = subprocess.run(["dpkg-deb", "-f", archives[0], "Version"], capture_output=True, check=True, text=True).stdout.strip()
    if source == "prompts.tsv":
        with open(os.path.join(root, source), "wb") as table:
            subprocess.run(["sh", MANIFEST, root], stdout=table, check=True)
    elif callable(source):
        write_table(source(root), os.path.join(root, "recordings.tsv"))
        source = "recordings.tsv"
    path = os.path.join(root, source)
    return path, ["--layout", "table-raw"] if path.endswith(".tsv") else ["--layout", "folder", "--decoder", "ffmpeg"], version


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("results")
    parser.add_argument("--only", action="append", choices=CORPORA, metavar="NAME", help="one of: " + ", ".join(CORPORA))
    parser.add_argument("--speechshard", default="speechshard", metavar="PROGRAM", help="the command (default: speechshard)")
    options = parser.parse_args()
    os.makedirs(options.results, exist_ok=True)
    for name in options.only or CORPORA:
        path, pack, version = prepare(name, options.work)
        out = os.path.join(options.work, name, "out")
        done = subprocess.run([sys.executable, os.path.join(HERE, "knowledge.py"), path, "-o", out, "--name", f"{name} {version}",
                               "--speechshard", options.speechshard, "--", *pack], check=False)
        if done.returncode != 0:
            sys.exit(f"{name}: knowledge.py failed with exit status {done.returncode}")
        shutil.copy(os.path.join(out, "knowledge.json"), os.path.join(options.results, f"{name}.json"))


if __name__ == "__main__":
    main()
