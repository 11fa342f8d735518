#!/usr/bin/env python3
"""Augmentation from FEATURES.md, section 'Augmentation', in Python and double precision.

    augment_reference.py            compare with the files in augment/ next to this one
    augment_reference.py --write    write them again

augment/draws.txt: OPTIONS|SEED|EPOCH|KEY|SAMPLES|FRAMES|DIM|JSON, with 7 rooms named room-0 ...
room-6 and 11 noises named noise-0 ... noise-10 of 48,000 samples.

augment/samples.txt: SPEED|ROOM|SNR|GAIN|OUTPUTS, for the 700 samples, 300 samples of noise from
number 250 on, and 90 samples of a room, all from signal() below. ROOM is 0 or 1; SNR and GAIN are -
if they are unused. Outputs are rounded from double precision: single precision may differ by 1 if a
value is near a half.
"""

import math
import struct
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "augment"
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
SPEED, NOISE, ROOM, GAIN, TIME, FREQUENCY = range(1, 7)
ROOM_COUNT, NOISE_COUNT, NOISE_SAMPLES = 7, 11, 48000

# ---------------------------------------------------------------------------------------------- draws


def mix(x):
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


class Draw:
    def __init__(self, seed, epoch, key):
        self.arguments = (epoch, key)
        self.seed = seed

    def number(self, kind, n):
        x = mix((self.seed + GOLDEN) & MASK)
        for argument in (*self.arguments, kind * 65536 + n):
            x = mix(x ^ ((argument + GOLDEN) & MASK))
        return x

    def part(self, kind, n, whole):
        return self.number(kind, n) * whole >> 64

    def unit(self, kind, n):
        return (self.number(kind, n) >> 11) * 2.0**-53

    def happens(self, kind, probability):
        return self.unit(kind, 0) < single(probability)

    def between(self, kind, n, low, high):
        low, high = single(low), single(high)
        return single(low + (high - low) * self.unit(kind, n))


def shortest(value):
    """The shortest decimal that is the same in single precision, without an exponent."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if single(float(text)) == value:
            break
    text = f"{float(text):.12f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def masks(draw, kind, count, whole, longest):
    out = []
    for i in range(count):
        length = draw.part(kind, 2 * i, longest + 1)
        first = draw.part(kind, 2 * i + 1, whole - length + 1)
        if length:
            out.append(f"[{first}, {length}]")
    return "[" + ", ".join(out) + "]" if out else None


def draw_json(options, draw, samples, frames, dim):
    items = []
    speeds = options.get("speeds", [100])
    speed = speeds[draw.part(SPEED, 0, len(speeds))]
    if speed != 100:
        items.append(f'"speed": {shortest(single(speed / 100))}, "samples": {-(-samples * 100 // speed)}')
    if draw.happens(ROOM, options.get("room_probability", 0)):
        items.append(f'"room": {{"id": "room-{draw.part(ROOM, 1, ROOM_COUNT)}"}}')
    if draw.happens(NOISE, options.get("noise_probability", 0)):
        which = draw.part(NOISE, 1, NOISE_COUNT)
        start = draw.part(NOISE, 2, NOISE_SAMPLES)
        snr = draw.between(NOISE, 3, options["noise_snr_db_min"], options["noise_snr_db_max"])
        items.append(f'"noise": {{"id": "noise-{which}", "start": {start}, "snr_db": {shortest(snr)}}}')
    if draw.happens(GAIN, options.get("gain_probability", 0)):
        items.append(f'"gain_db": {shortest(draw.between(GAIN, 1, options["gain_db_min"], options["gain_db_max"]))}')
    share = single(options.get("time_mask_share_max", 0)) or 1.0
    longest = min(options.get("time_mask_frames_max", 0), math.floor(single(frames * share)), frames)
    time = masks(draw, TIME, options.get("time_masks", 0), frames, longest)
    bins = min(options.get("frequency_mask_bins_max", 0), dim)
    frequency = masks(draw, FREQUENCY, options.get("frequency_masks", 0), dim, bins)
    if time:
        items.append(f'"time_masks": {time}')
    if frequency:
        items.append(f'"frequency_masks": {frequency}')
    return "{" + ", ".join(items) + "}"


OPTIONS = [
    {},
    {"speeds": [90, 100, 110]},
    {"time_masks": 2, "time_mask_frames_max": 100, "frequency_masks": 2, "frequency_mask_bins_max": 27},
    {"speeds": [50, 97, 200], "noise_probability": 0.7, "noise_snr_db_min": -3.5, "noise_snr_db_max": 18,
     "room_probability": 0.6, "gain_probability": 0.5, "gain_db_min": -6, "gain_db_max": 8.25},
    {"noise_probability": 1, "noise_snr_db_min": 5, "noise_snr_db_max": 5, "time_masks": 16,
     "time_mask_frames_max": 40, "time_mask_share_max": 0.2, "frequency_masks": 3, "frequency_mask_bins_max": 200},
]  # fmt: skip


def options_text(options):
    values = ((n, ":".join(shortest(s / 100) for s in v) if n == "speeds" else v) for n, v in options.items())
    return ",".join(f"{name}={value}" for name, value in values)


def draw_lines():
    for number, options in enumerate(OPTIONS):
        for i in range(12):
            seed, epoch, key = mix(i * 3 + 1) if i % 2 else i, i // 3, mix(100 * number + i)
            samples, frames, dim = (i * 40009, i * 250, 80) if i else (1, 0, 1)
            json = draw_json(options, Draw(seed, epoch, key), samples, frames, dim)
            yield f"{options_text(options)}|{seed}|{epoch}|{key}|{samples}|{frames}|{dim}|{json}"


# ---------------------------------------------------------------------------------------------- samples


def signal(count, seed, peak):
    return [(mix(seed + i) >> 48) * 2 * peak // 65536 - peak for i in range(count)]


def bessel(x):
    return math.fsum(math.exp(2 * n * math.log(x / 2) - 2 * math.lgamma(n + 1)) for n in range(60)) if x else 1.0


def weight(d, half, cutoff):
    if abs(d) > half:
        return 0.0
    sinc = math.sin(math.pi * cutoff * d) / (math.pi * d) if d else cutoff
    return sinc * bessel(9 * math.sqrt(1 - (d / half) ** 2))


def change_speed(x, percent):
    slow = max(1, percent / 100)
    half = -(-60 * max(percent, 100) // 100)
    half = (half + 3) // 4 * 4
    rows = {}
    out = []
    for i in range(-(-len(x) * 100 // percent)):
        first, place = divmod(i * percent, 100)
        if place not in rows:
            row = [weight(t - (half - 1) - place / 100, half, 0.95 / slow) for t in range(2 * half)]
            rows[place] = [w / math.fsum(row) for w in row]
        first -= half - 1
        out.append(math.fsum(x[first + t] * w for t, w in enumerate(rows[place]) if 0 <= first + t < len(x)))
    return out


def power(x):
    return math.fsum(v * v for v in x)


def enter_room(x, response):
    strongest = max(range(len(response)), key=lambda k: (abs(response[k]), -k))
    wet = [
        sum(h * x[n + strongest - k] for k, h in enumerate(response) if 0 <= n + strongest - k < len(x))
        for n in range(len(x))
    ]
    level = math.sqrt(power(x) / power(wet))
    return [v * level for v in wet]


def augmented(speed, room, snr, gain):
    x = [float(v) for v in signal(700, 1, 9000)]
    if speed != 100:
        x = change_speed(x, speed)
    if room:
        x = enter_room(x, [v * (90 - k) // 90 for k, v in enumerate(signal(90, 2000, 20000))])
    if snr is not None:
        noise = signal(300, 3000, 1500)
        noise = [noise[(250 + i) % len(noise)] for i in range(len(x))]
        level = math.sqrt(power(x) / power(noise)) * 10 ** (-snr / 20)
        x = [v + level * n for v, n in zip(x, noise)]
    factor = 10 ** (gain / 20) if gain is not None else 1
    return [max(-32768, min(32767, round(v * factor))) for v in x]


CASES = [(90, 0, None, None), (110, 0, None, None), (97, 0, None, None), (200, 0, None, None), (100, 1, None, None),
         (100, 0, 10, None), (100, 0, -6.5, 3.25), (100, 0, None, 14), (50, 1, 5, -2)]  # fmt: skip


def sample_lines():
    for case in CASES:
        outputs = " ".join(map(str, augmented(*case)))
        yield "|".join("-" if value is None else str(value) for value in case) + "|" + outputs


def main():
    texts = {"draws.txt": draw_lines(), "samples.txt": sample_lines()}
    for name, lines in texts.items():
        text = "\n".join(lines) + "\n"
        if "--write" in sys.argv[1:]:
            (FOLDER / name).write_text(text)
        elif (FOLDER / name).read_text() != text:
            sys.exit(f"{name} is not what this script makes")


if __name__ == "__main__":
    main()
