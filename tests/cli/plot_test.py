"""plot_test.py COMMAND: pictures of utterances, read by Python: the XML, and the pixels of the
features."""
import base64
import math
import pathlib
import re
import struct
import subprocess
import tempfile
import wave
import xml.etree.ElementTree as ElementTree
import zlib

from cli_kit import COMMAND, check, equal, finish, run

SVG = "{http://www.w3.org/2000/svg}"
LEFT, COLUMNS, HEAT = 56, 920, 240


def cat(*words, status=0):
    done = run("cat", *words)
    equal(done.returncode, status, f"exit status of cat {words}: {done.stderr}")
    return done


def write_wav(path, rate, channels, seconds, sample):
    count = round(rate * seconds)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(b"".join(struct.pack("<h", round(32767 * sample(i / rate, c)))
                                  for i in range(count) for c in range(channels)))


def tone(hertz, level=0.5):
    return lambda t, c: level * math.sin(2 * math.pi * hertz * t)


LONG_TEXT = "word " * 2000
# name -> (rate, channels, seconds, sample, text)
CLIPS = {
    "tone": (16000, 1, 2, tone(1000), "a <b>tone</b> & \"more\" 'of' it"),
    "low": (16000, 1, 1, tone(300), ""),
    "burst": (16000, 1, 2, lambda t, c: tone(2000)(t, c) if 1 <= t < 1.5 else 0, "burst"),
    "stereo": (44100, 2, 0.5, lambda t, c: tone(440)(t, c) if c == 0 else 0,
               "\u0645\u0631\u062d\u0628\u0627 \u202eevil\u202c \u0628\u0627\u0644\u0639\u0627\u0644\u0645"),
    "tiny": (16000, 1, 0.005, tone(1000), "Stra\u00dfe \u4f60\u597d"),
    "silence": (8000, 1, 1, lambda t, c: 0, LONG_TEXT),
    "minutes": (8000, 1, 150, lambda t, c: 0.3 if int(t * 8000) == 600000 else 0, "one click in the middle"),
}


def pack(work):
    folder = work / "files"
    folder.mkdir()
    rows = ["path\ttext\tspeaker"]
    for name, (rate, channels, seconds, sample, text) in CLIPS.items():
        write_wav(folder / f"{name}.wav", rate, channels, seconds, sample)
        rows.append(f"{name}.wav\t{text}\tA")
    (folder / "table.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    dataset = work / "d.spsh"
    done = run("pack", folder / "table.tsv", "-o", dataset, "--layout", "table-raw")
    check(done.returncode == 0, done.stderr)
    return dataset


# ---- readers ----

def read_png(data):
    """Width, height, palette, rows of numbers of colours; every checksum is checked."""
    equal(data[:8], b"\x89PNG\r\n\x1a\n", "signature")
    at, packed, palette, names = 8, b"", [], []
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        equal(struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0], zlib.crc32(name + body), f"CRC of {name}")
        names.append(name)
        if name == b"IHDR":
            width, height, depth, kind, _, _, interlace = struct.unpack(">IIBBBBB", body)
            equal((depth, kind, interlace), (8, 3, 0), "kind of PNG")
        elif name == b"PLTE":
            palette = [tuple(body[i:i + 3]) for i in range(0, size, 3)]
        elif name == b"IDAT":
            packed += body
        at += 12 + size
    equal((names[0], names[-1], at), (b"IHDR", b"IEND", len(data)), "order of chunks")
    raw = zlib.decompress(packed)
    equal(len(raw), height * (width + 1), "pixels")
    rows = []
    for y in range(height):
        kind, row = raw[y * (width + 1)], raw[y * (width + 1) + 1:(y + 1) * (width + 1)]
        equal(kind, 0, "filter of a row")  # a palette gains nothing from others
        rows.append(row)
    return width, height, palette, rows


def read_svg(path):
    root = ElementTree.fromstring(path.read_bytes())
    equal(root.tag, SVG + "svg", "root")
    return root


def image_of(root):
    """The features of an SVG: its place, and columns and rows of numbers of colours, the top row
    first."""
    image = root.findall(SVG + "image")[0]
    href = image.get("href")
    check(href.startswith("data:image/png;base64,"), "an image that is not in the file")
    width, height, palette, rows = read_png(base64.b64decode(href.split(",")[1], validate=True))
    equal(len(palette), 240, "colours")
    return [int(image.get(key)) for key in ("x", "y", "width", "height")], width, height, rows


def texts_of(root):
    return ["".join(text.itertext()) for text in root.findall(SVG + "text")]


def hz_ticks(root):
    """Height on the page -> Hz, by the labels of the upright axis."""
    return {int(text.get("y")) - 4: float(text.text) for text in root.findall(SVG + "text")
            if text.get("text-anchor") == "end" and int(text.get("x")) < LEFT and text.text.isdigit()}


# ---- what is seen ----

def brightest(rows, column):
    values = [row[column] for row in rows]
    return values.index(max(values)), max(values)


def mel(hertz):
    return 1127 * math.log(1 + hertz / 700)


def check_tone(work, dataset):
    svg = work / "tone.svg"
    cat(dataset, "tone", "--plot", svg)
    root = read_svg(svg)
    place, columns, rows, pixels = image_of(root)
    equal((columns, rows), (198, 80), "frames and bins of 2 s")
    equal(place[3], HEAT, "height")
    # whole windows: the first frame is 7.5 to 17.5 ms
    equal(place[0], LEFT + round(0.0075 / 2 * COLUMNS), "left edge of the first frame")
    bin_of = round((mel(1000) - mel(20)) / (mel(8000) - mel(20)) * 81 - 1)
    for column in range(0, columns, 20):
        row, value = brightest(pixels, column)
        check(abs(rows - 1 - row - bin_of) <= 1 and value == 239, f"brightest at row {row}, {value}")
        check(pixels[5][column] < 40, "it is dark far from the tone")
    ticks = hz_ticks(root)
    check({1000, 2000, 4000, 500} <= set(ticks.values()), f"ticks {ticks}")
    at = next(y for y, hertz in ticks.items() if hertz == 1000)
    want = place[1] + HEAT * (rows - bin_of - 0.5) / rows
    check(abs(at - want) <= 3, f"1 kHz is labelled at {at}, the tone is at {want}")
    texts = texts_of(root)
    check("tone" in texts and "0 s" in texts and "2 s" in texts, f"labels: {texts}")
    check("a <b>tone</b> & \"more\" 'of' it" in texts, f"transcript: {texts}")
    check(any(text.startswith("2.00 s, 16000 Hz, wav, peak -6.0 dB") for text in texts), f"facts: {texts}")
    equal(root.find(SVG + "title").text, "tone", "title")
    check("kind=mel,sample_rate_hz=16000" in root.find(SVG + "desc").text, "features in the description")
    envelope = [path for path in root.findall(SVG + "path") if path.get("class") == "c0"]
    equal(len(envelope), 1, "lanes of one channel")
    heights = [int(point.split(",")[1]) for point in re.findall(r"-?\d+,-?\d+", envelope[0].get("d"))]
    check(max(heights) - min(heights) >= 90, "the envelope is as high as its lane")


def check_time(work, dataset):
    svg = work / "burst.svg"
    cat(dataset, "burst", "--plot", svg, "--features", "kaldi-fbank,mel_count=40,edges=mirror")
    _, columns, rows, pixels = image_of(read_svg(svg))
    equal((columns, rows), (200, 40), "mirrored: a frame each 10 ms")
    loud = [column for column in range(columns) if brightest(pixels, column)[1] > 200]
    check(98 <= loud[0] <= 100 and 149 <= loud[-1] <= 151, f"the burst is in frames {loud[0]} to {loud[-1]}")

    cat(dataset, "minutes", "--plot", work / "minutes.svg")
    root = read_svg(work / "minutes.svg")
    _, columns, _, pixels = image_of(root)
    equal(columns, COLUMNS, "columns of 15,000 frames")
    sums = [sum(row[column] for row in pixels) for column in range(columns)]
    equal(abs(sums.index(max(sums)) - COLUMNS // 2) <= 1, True, "one click in 150 s is in the middle")
    check({"0:00", "1:00", "2:00"} <= set(texts_of(root)), f"minutes: {texts_of(root)}")
    path = next(path for path in root.findall(SVG + "path")).get("d")
    peak = min(re.findall(r"(-?\d+),(-?\d+)", path), key=lambda point: int(point[1]))
    check(abs(int(peak[0]) - LEFT - COLUMNS // 2) <= 1, f"one sample of 1.2 million is seen: {peak}")
    check((work / "minutes.svg").stat().st_size < 200_000, "size of a long one")


def check_kinds(work, dataset):
    cat(dataset, "tone", "--plot", work / "s.svg", "--features", "spectrogram")
    root = read_svg(work / "s.svg")
    place, _, rows, pixels = image_of(root)
    equal(rows, 257, "bins of a spectrum")
    equal(rows - 1 - brightest(pixels, 50)[0], 32, "1 kHz of 31.25 Hz each")
    ticks = hz_ticks(root)
    at = next(y for y, hertz in ticks.items() if hertz == 1000)
    check(abs(at - (place[1] + HEAT * (257 - 32.5) / 257)) <= 1, f"1 kHz at {at}")
    check("dB" in texts_of(root), "powers are in dB")
    cat(dataset, "tone", "--plot", work / "m.svg", "--features", "kaldi-mfcc")
    root = read_svg(work / "m.svg")
    equal(image_of(root)[2], 13, "cepstra")
    check("Hz" not in texts_of(root) and "10" in texts_of(root), "coefficients are counted")
    cat(dataset, "low", "--plot", work / "e.svg", "--features", "kaldi-fbank,energy=raw")
    equal(image_of(read_svg(work / "e.svg"))[2], 81, "energy is a row of its own")
    for text in ("whisper-logmel", "deepspeech", "whisper-logmel,pad_us=3000000", "kaldi-fbank,norm=mean-variance",
                 "spectrogram,sample_rate_hz=8000,window_us=200000"):
        cat(dataset, "burst", "--plot", work / "k.svg", "--features", text)
        equal(len(set(b"".join(image_of(read_svg(work / "k.svg"))[3]))) > 20, True, f"{text} shows something")
    cat(dataset, "tone", "--plot", work / "again.svg", "--features", "kaldi-mfcc")
    equal((work / "again.svg").read_bytes(), (work / "m.svg").read_bytes(), "the same again")


def check_odd(work, dataset):
    cat(dataset, "stereo", "--plot", work / "o.svg")
    root = read_svg(work / "o.svg")
    lanes = [path.get("d") for path in root.findall(SVG + "path")]
    equal(len(lanes), 2, "lanes of two channels")
    spans = [max(ys) - min(ys) for ys in ([int(y) for _, y in re.findall(r"(-?\d+),(-?\d+)", lane)] for lane in lanes)]
    check(spans[0] > 50 and spans[1] <= 1, f"the second channel is silent: {spans}")
    written = (work / "o.svg").read_text(encoding="utf-8")
    check("\u202e" not in written and "\u2068\u0645\u0631" in written, "the transcript's direction is its own")
    check(any("2 channels" in text for text in texts_of(root)), "channels")

    cat(dataset, "tiny", "--plot", work / "t.svg")
    root = read_svg(work / "t.svg")
    check(any("shorter than a window" in text for text in texts_of(root)), "no frames")
    equal(len(root.findall(SVG + "image")), 0, "an image of nothing")
    equal(root.find(SVG + "desc").text.split("\n")[0], "Stra\u00dfe \u4f60\u597d", "text")

    cat(dataset, "silence", "--plot", work / "q.svg")
    root = read_svg(work / "q.svg")
    equal(set(b"".join(image_of(root)[3])), {0}, "silence is dark")
    check(any(text.endswith("silent") for text in texts_of(root)), "silence is told")
    shown = next(text for text in texts_of(root) if "word" in text)
    check(len(shown) < 160 and shown.endswith("\u2026\u2069"), f"a long transcript is cut: {shown}")


def check_files(work, dataset):
    wav, svg = work / "both.wav", work / "both.svg"
    done = cat(dataset, "tone", "--plot", svg, "-o", wav)
    equal((done.stdout, done.stderr), ("", ""), "nothing is said")
    equal(wav.read_bytes(), subprocess.run([COMMAND, "cat", dataset, "tone"], capture_output=True).stdout, "sound")
    check(svg.exists(), "and a picture")
    svg.write_text("old")
    cat(dataset, "tone", "--plot", svg)
    read_svg(svg)  # replaced, whole
    cat(dataset, "tone", "--plot", work / "no" / "such.svg", status=1)
    check("no/such" in cat(dataset, "tone", "--plot", work / "no" / "such.svg", status=1).stderr, "folder")
    check(not cat(dataset, "nobody", "--plot", work / "new.svg", status=1).stdout, "unknown id")
    check(not (work / "new.svg").exists(), "a picture of nobody")
    equal(list(work.glob("*.tmp*")), [], "temporary files")
    for words, wanted in ((("--plot", "x.jpg"), "'x.jpg' does not end in .svg"),
                          (("--plot", work / "x.png"), "--plot writes SVG"),
                          (("--plot", work / "x.svg", "--features", "kaldi-fbnk"), "kaldi-fbank"),
                          (("--plot", work / "x.svg", "--features", "kaldi-fbank,mel_count=0"), "mel_count"),
                          (("--features", "kaldi-fbank"), "--plot FILE")):
        done = cat(dataset, "tone", *words, status=2)
        check(wanted in done.stderr, f"{words}: {done.stderr}")
    check(not (work / "x.svg").exists() and not (work / "x.png").exists(), "a picture in spite of wrong options")


def check_stored(work, dataset):
    """A dataset of features: the stored features are drawn, without a waveform."""
    stored = work / "f.spsh"
    done = run("featgen", dataset, "-o", stored, "--features", "kaldi-fbank,mel_count=40")
    check(done.returncode == 0, done.stderr)
    cat(stored, "tone", "--plot", work / "f.svg")
    cat(dataset, "tone", "--plot", work / "g.svg", "--features", "kaldi-fbank,mel_count=40")
    found, wanted = read_svg(work / "f.svg"), read_svg(work / "g.svg")
    equal(image_of(found)[1:3], (198, 40), "stored rows")
    differ = max(abs(a - b) for x, y in zip(image_of(found)[3], image_of(wanted)[3]) for a, b in zip(x, y))
    check(differ <= 1, f"stored rows look like computed ones: {differ} of 240 levels")
    equal(len(found.findall(SVG + "path")), 0, "a waveform of features")
    check("198 frames" in " ".join(texts_of(found)), f"{texts_of(found)}")
    masks = ("--augment", "time_masks=1,time_mask_frames_max=90")
    cat(stored, "tone", *masks, "--plot", work / "f.svg")
    drawn = [rect for rect in read_svg(work / "f.svg").findall(SVG + "rect") if rect.get("class") == "mask"]
    equal(len(drawn), 1, "masks of stored rows")
    check("can only be masked" in cat(stored, "tone", "--augment", "speeds=0.9", "--plot", work / "n.svg", status=2).stderr,
          "features have no speed")
    check("holds features" in cat(stored, "tone", *masks, "-o", work / "n.wav", status=1).stderr, "nor sound")
    check(not (work / "n.svg").exists() and not (work / "n.wav").exists(), "files in spite of errors")


def check_norm(work, dataset):
    """Means and deviations of the dataset come from its statistics."""
    words = ("tone", "--plot", work / "n.svg", "--features", "kaldi-fbank,norm=dataset")
    check("--stats" in cat(dataset, *words, status=1).stderr, "what makes statistics is named")
    done = run("featgen", dataset, "--stats", "--features", "kaldi-fbank")
    check(done.returncode == 0, done.stderr)
    cat(dataset, *words)
    equal(image_of(read_svg(work / "n.svg"))[1:3], (198, 80), "normalised rows")


def main():
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        dataset = pack(work)
        check_tone(work, dataset)
        check_time(work, dataset)
        check_kinds(work, dataset)
        check_odd(work, dataset)
        check_files(work, dataset)
        check_stored(work, dataset)
        check_norm(work, dataset)
    finish()


main()
