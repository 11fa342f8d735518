"""augment_test.py COMMAND: `cat --augment` applies what `plan --show-augment` prints, exactly where
the test can tell."""
import json
import math
import pathlib
import random
import struct
import tempfile
import wave
import xml.etree.ElementTree as ElementTree

import cli_kit
from cli_kit import check, equal, finish

SVG = "{http://www.w3.org/2000/svg}"
RATE, COUNT = 16000, 24000
SEED = 20261121


def run(*words, status=0):
    done = cli_kit.run(*words)
    equal(done.returncode, status, f"exit status of {words}: {done.stderr}")
    return done


def write_wav(path, samples, channels=1, rate=RATE):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples))


def read_wav(path):
    with wave.open(str(path), "rb") as file:
        equal((file.getsampwidth(), file.getframerate()), (2, RATE), "kind of WAV")
        count = file.getnframes()
        return list(struct.unpack(f"<{count * file.getnchannels()}h", file.readframes(count)))


def pack(work, name, clips, rate=RATE):
    folder = work / f"{name}-files"
    folder.mkdir()
    for clip, (samples, channels) in clips.items():
        write_wav(folder / f"{clip}.wav", samples, channels, rate)
    dataset = work / f"{name}.spsh"
    run("pack", folder, "-o", dataset, "--quiet")
    return dataset


class Corpus:
    def __init__(self, work):
        chance = random.Random(SEED)
        print("seed", SEED)
        self.work = work
        self.voice = [round(6000 * math.sin(2 * math.pi * 220 * i / RATE) * (1 + math.sin(i / 900)) / 2)
                      for i in range(COUNT)]
        self.noises = {name: [chance.randrange(-3000, 3001) for _ in range(count)]
                       for name, count in (("rain", 60000), ("short", 5000))}
        self.room = [0] * 50 + [16000] + [0] * 99 + [8000] + [0] * 40
        both = [value for i in range(COUNT) for value in (self.voice[i], -self.voice[i] // 2)]
        self.speech = pack(work, "speech", {"voice": (self.voice, 1), "both": (both, 2), "empty": ([0] * 60, 1)})
        self.noise = pack(work, "noise", {name: (samples, 1) for name, samples in self.noises.items()})
        self.rooms = pack(work, "rooms", {"hall": (self.room, 1)})
        self.both = both

    def hear(self, name, text, *words):
        out = self.work / "heard.wav"
        run("cat", self.speech, name, "--augment", text, *words, "-o", out)
        return read_wav(out)

    def draws(self, name, text, epochs, *words):
        done = run("plan", self.speech, "--show-augment", name, "--augment", text, "--epochs", epochs, "--json", *words)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        equal([(line["id"], line["epoch"]) for line in lines], [(name, epoch) for epoch in range(epochs)], "lines")
        return [line["augment"] for line in lines]


def fit(samples, model):
    """The factor that makes the model most similar to the samples, and the residual in dB relative
    to the samples."""
    factor = sum(a * b for a, b in zip(samples, model)) / sum(b * b for b in model)
    left = sum((a - factor * b) ** 2 for a, b in zip(samples, model))
    return factor, 10 * math.log10(max(left, 1e-9) / sum(a * a for a in samples))


def check_nothing(corpus):
    equal(corpus.hear("voice", "none"), corpus.voice, "nothing is done")
    equal(corpus.draws("voice", "none", 2), [{}, {}], "nothing is told")
    mean = [(a + b + 1) >> 1 for a, b in zip(corpus.both[::2], corpus.both[1::2])]
    equal(corpus.hear("both", "none"), mean, "of two channels, their mean")
    equal(corpus.hear("voice", "none", "--seed", 3, "--epoch", 9), corpus.voice, "whatever seed and epoch")


def check_speed(corpus):
    draws = corpus.draws("voice", "speeds=0.9:1:1.1", 12)
    equal({draw.get("speed", 1) for draw in draws}, {0.9, 1, 1.1}, "speeds of 12 epochs")
    for epoch, draw in enumerate(draws[:6]):
        heard = corpus.hear("voice", "speeds=0.9:1:1.1", "--epoch", epoch)
        equal(len(heard), draw.get("samples", COUNT), "samples")
        equal(len(heard), -(-COUNT * 100 // round(100 * draw.get("speed", 1))), "by the formula")
    again = corpus.draws("voice", "speeds=0.9:1:1.1", 12)
    equal(again, draws, "the same again")
    check(corpus.draws("voice", "speeds=0.9:1:1.1", 12, "--seed", 1) != draws, "another seed, the same draws")
    check(corpus.draws("both", "speeds=0.9:1:1.1", 12) != draws, "another utterance, the same draws")


def check_gain(corpus):
    text = "gain_probability=0.7,gain_db_min=-12,gain_db_max=3"
    draws = corpus.draws("voice", text, 10)
    told = {"gain_db" in draw for draw in draws}
    equal(told, {True, False}, "some epochs with gain, some without")
    for epoch, draw in enumerate(draws):
        heard = corpus.hear("voice", text, "--epoch", epoch)
        factor = 10 ** (draw.get("gain_db", 0) / 20)
        check(-12 <= draw.get("gain_db", 0) <= 3, f"gain {draw}")
        worst = max(abs(a - factor * b) for a, b in zip(heard, corpus.voice))
        check(worst <= 0.51, f"gain of {draw}: {worst} off")


def check_noise(corpus):
    text = "noise_probability=1,noise_snr_db_min=3,noise_snr_db_max=12"
    words = ("--noise", corpus.noise)
    draws = corpus.draws("voice", text, 8, *words)
    equal({draw["noise"]["id"] for draw in draws}, {"rain", "short"}, "noises of 8 epochs")
    for epoch, draw in enumerate(draws[:5]):
        heard = corpus.hear("voice", text, "--epoch", epoch, *words)
        noise, start = corpus.noises[draw["noise"]["id"]], draw["noise"]["start"]
        added = [a - b for a, b in zip(heard, corpus.voice)]
        model = [noise[(start + i) % len(noise)] for i in range(COUNT)]
        _, left = fit(added, model)
        check(left < -50, f"what is added is {draw['noise']}: {left} dB are not")
        snr = 10 * math.log10(sum(b * b for b in corpus.voice) / sum(a * a for a in added))
        check(abs(snr - draw["noise"]["snr_db"]) < 0.05, f"{snr} dB, told {draw['noise']['snr_db']}")


def check_room(corpus):
    words = ("--room", corpus.rooms)
    draw = corpus.draws("voice", "room_probability=1", 1, *words)[0]
    equal(draw, {"room": {"id": "hall"}}, "a room")
    heard = corpus.hear("voice", "room_probability=1", *words)
    model = [value + (corpus.voice[i - 100] / 2 if i >= 100 else 0) for i, value in enumerate(corpus.voice)]
    _, left = fit(heard, model)
    check(len(heard) == COUNT and left < -50, f"an echo of half after 100 samples: {left} dB are not")


def check_order(corpus):
    """Each kind has separate draws: adding a kind does not change the others."""
    both = "speeds=0.9:1:1.1,gain_probability=0.5,gain_db_min=-6,gain_db_max=6"
    speed = [draw.get("speed") for draw in corpus.draws("voice", "speeds=0.9:1:1.1", 10)]
    equal([draw.get("speed") for draw in corpus.draws("voice", both, 10)], speed, "speeds beside gains")


def check_picture(corpus):
    text = "speeds=0.8,time_masks=3,time_mask_frames_max=40,frequency_masks=2,frequency_mask_bins_max=20"
    plot = corpus.work / "heard.svg"
    for epoch in range(3):
        draw = corpus.draws("voice", text, epoch + 1)[epoch]
        run("cat", corpus.speech, "voice", "--augment", text, "--epoch", epoch, "--plot", plot)
        root = ElementTree.fromstring(plot.read_bytes())
        image = [int(root.find(SVG + "image").get(key)) for key in ("x", "y", "width", "height")]
        masks = [[int(rect.get(key)) for key in ("x", "y", "width", "height")]
                 for rect in root.findall(SVG + "rect") if rect.get("class") == "mask"]
        frames = 1 + (-(-COUNT * 100 // 80) - 400) // 160
        wanted = [[image[0] + first * image[2] // frames, image[1],
                   (first + count) * image[2] // frames - first * image[2] // frames, image[3]]
                  for first, count in draw["time_masks"]]
        wanted += [[image[0], image[1] + image[3] - round((first + count) * image[3] / 80), image[2],
                    round(count * image[3] / 80)] for first, count in draw["frequency_masks"]]
        check(masks and all(abs(a - b) <= 1 for x, y in zip(masks, wanted) for a, b in zip(x, y)),
              f"masks {masks}, want {wanted}")
        equal(len(masks), len(wanted), "masks")
        texts = ["".join(element.itertext()) for element in root.findall(SVG + "text")]
        check(any(line.startswith(f"seed 0, epoch {epoch}: speed 0.8 (30000 samples), without frames") for line in texts),
              f"what was done: {texts}")
        check(any(line.startswith("1.88 s, 16000 Hz") for line in texts), f"its length: {texts}")
    run("cat", corpus.speech, "voice", "--augment", text, "--plot", plot, "--features", "kaldi-fbank,sample_rate_hz=8000",
        "-o", corpus.work / "low.wav")
    with wave.open(str(corpus.work / "low.wav"), "rb") as file:
        equal((file.getframerate(), file.getnframes()), (8000, 15000), "at the features' rate")


def check_words(corpus):
    text = "noise_probability=1,noise_snr_db_min=5,noise_snr_db_max=5,gain_probability=1,gain_db_min=2,gain_db_max=2"
    done = run("plan", corpus.rooms, corpus.speech, "--show-augment", "voice", "--augment", text, "--noise", corpus.noise,
               "--seed", 7, "--epoch", 4, "--epochs", 2)
    draws = [json.loads(line)["augment"] for line in
             run("plan", corpus.speech, "--show-augment", "voice", "--augment", text, "--noise", corpus.noise,
                 "--seed", 7, "--epoch", 4, "--epochs", 2, "--json").stdout.splitlines()]
    lines = done.stdout.splitlines()
    equal(lines[0], f"voice of {corpus.speech}, seed 7, 16000 Hz", "head")
    equal(lines[3:], [f"epoch {4 + i}: noise {draw['noise']['id']} from its sample {draw['noise']['start']} on at 5.0 dB, "
                      "gain 2.0 dB" for i, draw in enumerate(draws)], "words")
    equal(run("plan", corpus.speech, "--show-augment", "voice", "--augment", "none").stdout.splitlines()[-1],
          "epoch 0: as it is", "nothing in words")


def check_refused(corpus):
    speech, work = corpus.speech, corpus.work
    out = work / "never.wav"
    for words, wanted in ((("--augment", "time_masks=99"), "time_masks"),
                          (("--augment", "speed-pertub"), "speed-perturb"),
                          (("--augment", "noise_probability=1"), "no datasets of noises are given; give --noise DATASET"),
                          (("--augment", "room_probability=0.5"), "room_probability is 0.5, but no datasets of rooms are given; give --room"),
                          (("--augment", "none", "--noise", corpus.noise), "noise_probability is 0"),
                          (("--noise", corpus.noise), "--augment TEXT"),
                          (("--augment", "none", "--payload"), "--payload"),
                          (("--augment", "none", "--epoch", "x"), "--epoch")):
        check(wanted in run("cat", speech, "voice", "-o", out, *words, status=2).stderr, f"{words}: no {wanted}")
    run("cat", speech, "nobody", "--augment", "none", "-o", out, status=1)
    run("cat", speech, "voice", "--augment", "noise_probability=1", "--noise", work / "no.spsh", "-o", out, status=1)
    for words, wanted in ((("--augment", "none"), "--show-augment ID"),
                          (("--show-augment", "voice"), "--show-augment needs --augment TEXT"),
                          (("--show-augment", "voice", "--augment", "none", "--compare", "--alpha 0"), "--compare"),
                          (("--show-augment", "voice", "--augment", "gain_db_max=99"), "gain_db")):
        check(wanted in run("plan", speech, *words, status=2).stderr, f"{words}: no {wanted}")
    check("nobody" in run("plan", speech, "--show-augment", "nobody", "--augment", "none", status=1).stderr, "unknown id")
    check(not out.exists(), "a file in spite of an error")
    equal(list(work.glob("*.tmp*")), [], "temporary files")


def main():
    with tempfile.TemporaryDirectory() as name:
        corpus = Corpus(pathlib.Path(name))
        for part in (check_nothing, check_speed, check_gain, check_noise, check_room, check_order, check_picture,
                     check_words, check_refused):
            part(corpus)
    finish()


main()
