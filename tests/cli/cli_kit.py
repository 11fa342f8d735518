"""cli_kit.py: helpers for tests of the command that are written in Python.

    from cli_kit import check, equal, finish, run

    done = run("ls", dataset)
    equal(done.returncode, 0, f"ls: {done.stderr}")
    finish()

The first argument of a test is the program under test; a test that calls speech() has make_speech
as its second. A failed check is reported and counted, and the test continues.
"""
import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

COMMAND = str(pathlib.Path(sys.argv[1]).resolve())
DATA = pathlib.Path(os.environ.get("SPEECHSHARD_TEST_DATA") or pathlib.Path(__file__).parents[3] / "shared" / "data")
environment = {"LC_ALL": os.environ.get("LC_ALL", "C.UTF-8"), "LOCPATH": os.environ.get("LOCPATH", ""),
               "PATH": "/usr/bin:/bin"}
FEWER = os.environ.get("SPEECHSHARD_TEST_FEWER") == "1"  # under sanitizers, which are ten times slower
failures = 0


def check(good, what):
    global failures
    if not good:
        failures += 1
        print("FAILED:", what)


def equal(got, want, what):
    check(got == want, f"{what}: {got!r}, want {want!r}")


def finish():
    sys.exit(1 if failures else 0)


def run_tests(tests, *arguments):
    """Each with its line, then the end."""
    for test in tests:
        before = failures
        test(*arguments)
        print("ok" if failures == before else "FAILED", test.__name__)
    finish()


# AddressSanitizer marks each allocated byte, and most of the default gigabytes stay untouched here.
LITTLE_MEMORY = {"pack": "32M", "dedupe": "128M", "audit": "128M"} if FEWER else {}


def run(*words, cwd=None, **variables):
    """variables: added to the environment."""
    if words and words[0] in LITTLE_MEMORY and "--memory" not in words:
        words += ("--memory", LITTLE_MEMORY[words[0]])
    return subprocess.run([COMMAND, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          encoding="utf-8", env={**environment, **variables}, cwd=cwd)


def speech(path, *pieces, rate=16000):
    """Write pieces SEED:START:SECONDS of synthetic voices, in the format of the extension."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.argv[2], path, str(rate), *pieces], check=True)


TINY_TRAINING = """vocabulary: words.vocabulary
features: kaldi-fbank,sample_rate_hz=8000,mel_count=16
data:
  train: ["speech.spsh"]
  dev: ["speech.spsh"]
  max_padded_seconds: 4
model:
  preset: ds2-tiny
  hidden: 8
  layers: 1
  conv_channels: 2
train:
  backend: cpu
  threads: 1
"""


def training_corpus(work, texts, config):
    """Pack a clip of 0.5 to 1.5 s for each transcript as speech.spsh, and write tiny.yaml and its
    vocabulary."""
    rows = ["path\tid\ttext"]
    for number, text in enumerate(texts):
        speech(work / f"clips/{number}.wav", f"{number + 1}:0:{1 + number % 3 / 2}")
        rows.append(f"clips/{number}.wav\tu{number}\t{text}")
    (work / "corpus.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (work / "tiny.yaml").write_text(config, encoding="utf-8")
    for words in (("pack", "corpus.tsv", "-o", "speech.spsh"), ("train", "tiny.yaml", "--make-vocab")):
        done = run(*words, cwd=work)
        equal(done.returncode, 0, f"{words}: {done.stderr}")


def need_data(*names):
    """Folders of real speech. Without one of them the test is skipped, or fails if skips are not
    allowed."""
    missing = [name for name in names if not (DATA / name).is_dir()]
    if missing:
        print("skipped:", DATA, "lacks", *missing)
        sys.exit(1 if os.environ.get("SPEECHSHARD_REQUIRE_DATA") == "1" else 77)


HEAD_ELEMENTS = {"dl", "dt", "dd", "script"}


def tag_of(element):
    return element.tag.rpartition("}")[2]


def check_head(root, what):
    """The list at the top, and the only script, which the page's policy names by its hash."""
    lists = [element for element in root.iter() if tag_of(element) == "dl"]
    equal(len(lists), 1, f"{what}: lists at the top")
    rows = {name.text: value for name, value in zip(lists[0][::2], lists[0][1::2])}
    check({"command", "page", "written"} <= set(rows), f"{what}: rows at the top: {set(rows)}")
    check("".join(rows["command"].itertext()).startswith("speechshard "), f"{what}: its command")
    equal((rows["page"].get("data-up"), rows["written"].get("data-written")), ("0", "1"), f"{what}: place and date")
    metas = {meta.get("http-equiv") or meta.get("name"): meta.get("content") for meta in root[0] if tag_of(meta) == "meta"}
    equal(metas["viewport"], "width=device-width, initial-scale=1", f"{what}: width")
    scripts = ["".join(element.itertext()) for element in root.iter() if tag_of(element) == "script"]
    equal(len(scripts), 1, f"{what}: scripts")
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    equal(metas["Content-Security-Policy"],
          f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'", f"{what}: policy")
    return rows


def check_tables(root, what):
    """Each table scrolls within its own box."""
    boxes = [table for box in root.iter() if box.get("class") == "wide" for table in box if tag_of(table) == "table"]
    equal(len([table for table in root.iter() if tag_of(table) == "table"]), len(boxes), f"{what}: tables that scroll")


def read_page(path, elements, what, has_head=True):
    """Well-formed, made of these elements only; nothing is run or fetched, except the script of the
    head, which pages of the command have."""
    content = path.read_text(encoding="utf-8")
    root = ElementTree.fromstring(content.encode())
    tags = {tag_of(element) for element in root.iter()}
    if has_head and tag_of(root) == "html":
        check_head(root, what)
        check_tables(root, what)
        tags -= HEAD_ELEMENTS
        content = content.replace("http-equiv", "")
    check(tags <= elements, f"{what}: elements {tags - elements}")
    names = {name for element in root.iter() for name in element.attrib}
    check(not [name for name in names if name.startswith("on") or name in ("href", "src")],
          f"{what}: attributes {names}")
    for own in ("http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"):
        content = content.replace(own, "")
    check("http" not in content, f"{what} names another resource")
    check("url(" not in content and "@import" not in content, f"{what}: its style names another resource")
    return root
