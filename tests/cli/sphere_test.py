"""sphere_test.py COMMAND: SPHERE files pack without any plug-in, to the samples of the WAV file
that they equal."""
import json
import pathlib
import random
import struct
import tempfile

from cli_kit import check, equal, run, run_tests

RATE = 8000


def sphere(samples, coding="pcm", order="01", sample_bytes=2, channels=1, count=None, size=1024, more=()):
    """A file as LDC's tools write it. samples: bytes in file order."""
    lines = ["NIST_1A", f"{size:7d}", "database_id -s4 TEST", f"channel_count -i {channels}",
             f"sample_count -i {len(samples) // sample_bytes // channels if count is None else count}",
             f"sample_rate -i {RATE}", f"sample_n_bytes -i {sample_bytes}", f"sample_byte_format -s{len(order)} {order}",
             f"sample_coding -s{len(coding)} {coding}", *more, "end_head"]
    head = "\n".join(lines).encode() + b"\n"
    return head + b" " * (size - len(head)) + samples


def wav(samples, tag=1, sample_bytes=2, channels=1):
    block = sample_bytes * channels
    form = struct.pack("<HHIIHH", tag, channels, RATE, RATE * block, block, 8 * sample_bytes)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


def swapped(samples, sample_bytes):
    return b"".join(samples[i:i + sample_bytes][::-1] for i in range(0, len(samples), sample_bytes))


def pack(work, name, files, *options):
    folder = work / name
    (folder / "clips").mkdir(parents=True)
    rows = ["path\tid\ttext\tnote"]
    for key, content in files.items():
        (folder / "clips" / key).write_bytes(content)
        rows.append(f"clips/{key}\t{key}\tsome words\tn")
    (folder / "corpus.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    done = run("pack", folder / "corpus.tsv", "-o", folder / "d.spsh", *options, "--max-rejects", "100%")
    listed = run("ls", "--json", folder / "d.spsh")
    rejects = folder / "d.spsh/reports/rejects.jsonl"
    lines = rejects.read_text(encoding="utf-8").splitlines() if rejects.exists() else []
    return done, [json.loads(line) for line in listed.stdout.splitlines()], [json.loads(line) for line in lines]


def test_equals_wav(work):
    noise = random.Random(4).randbytes(2 * 3 * RATE)
    pairs = {
        "little": (sphere(noise), wav(noise)),
        "big": (sphere(swapped(noise, 2), order="10"), wav(noise)),
        "stereo": (sphere(noise, channels=2), wav(noise, channels=2)),
        "mulaw": (sphere(noise, coding="ulaw", order="1", sample_bytes=1), wav(noise, tag=7, sample_bytes=1)),
        "alaw": (sphere(noise, coding="alaw", order="1", sample_bytes=1), wav(noise, tag=6, sample_bytes=1)),
        "three": (sphere(swapped(noise, 3), order="210", sample_bytes=3), wav(noise, sample_bytes=3)),
        "after": (sphere(noise, count=RATE) + b"tail", wav(noise[:2 * RATE])),
        "no-coding": (sphere(noise).replace(b"sample_coding -s3 pcm\n", b"; there is no coding \n"), wav(noise)),
    }
    for codec in ("keep", "flac", "pcm"):
        for kind, number in (("sph", 0), ("wav", 1)):
            files = {f"{name}.{kind}": pair[number] for name, pair in pairs.items()}
            done, rows, _ = pack(work, f"{codec}-{kind}", files, "--codec", codec, "--dedupe", "none")
            equal(done.returncode, 0, done.stderr)
            if kind == "sph":
                of_sphere = {row["id"][:-4]: row for row in rows}
        equal(sorted(of_sphere), sorted(pairs), f"{codec}: packed")
        for row in rows:
            other = of_sphere[row["id"][:-4]]
            for member in ("pcm_hash", "samples", "channels", "sample_rate_hz", "codec", "bits_per_sample"):
                equal(other[member], row[member], f"{codec}, {row['id']}: {member}")
            equal((other["extras"]["note"], len(other["extras"]["source_xxh3_128"])), ("n", 32), f"extras: {other['extras']}")
            equal(row["extras"], {"note": "n"}, "extras of a WAV file")
        equal(run("verify", "--decode", work / f"{codec}-sph/d.spsh").returncode, 0, "verify")


def test_copies(work):
    """A SPHERE file and a WAV file of its samples are stored as the same bytes, and once."""
    noise = random.Random(8).randbytes(2 * RATE)
    files = {"a.sph": sphere(noise), "b.wav": wav(noise), "c.sph": sphere(swapped(noise, 2), order="10"), "d.sph": sphere(noise)}
    for codec in ("keep", "flac"):
        done, rows, _ = pack(work, f"copies-{codec}", files, "--codec", codec)
        equal(done.returncode, 0, done.stderr)
        equal(sum(row["duplicate_of"] is None for row in rows), 1, f"{codec}: stored")
        equal(run("verify", "--decode", work / f"copies-{codec}/d.spsh").returncode, 0, f"{codec}: verify")


def test_damage(work):
    noise = random.Random(5).randbytes(2 * RATE)
    good = sphere(noise)
    wrong = {
        "cut.sph": (good[:-2], "truncated", "SPHERE: the header states 16000 bytes of samples, but the file has 15998"),
        "head.sph": (good[:900], "truncated", "the header states a size of 1024 bytes"),
        "shorten.sph": (sphere(noise, coding="pcm,embedded-shorten-v2.00"), "unsupported_codec", "sph2pipe"),
        "order.sph": (sphere(noise, order="1"), "bad_container", "sample_byte_format '1'"),
        "apart.sph": (sphere(noise, channels=2, more=["channels_interleaved -s5 FALSE"]), "unsupported_codec", "one after"),
        "coding.sph": (sphere(noise, coding="g721"), "unsupported_codec", "coding g721"),
        "rate.sph": (good.replace(b"sample_rate -i 8000", b"sample_ratio -i 800"), "bad_container", "sample_rate"),
        "count.sph": (good.replace(b"sample_count -i 8000", b"sample_count -i 8x00"), "bad_container", "sample_count"),
        "huge.sph": (good.replace(b"sample_count -i 8000", b"sample_count -i " + b"9" * 30), "bad_container", "sample_count"),
        "channels.sph": (good.replace(b"channel_count -i 1", b"channel_count -i 99"), "too_long", "channel_count"),
        "end.sph": (good.replace(b"end_head", b"endXhead"), "bad_container", "no end_head"),
        "none.sph": (sphere(b""), "zero_duration", ""),
    }
    done, rows, rejects = pack(work, "damage", {"good.sph": good} | {name: case[0] for name, case in wrong.items()})
    equal([row["id"] for row in rows], ["good.sph"], "packed")
    found = {line["source"].rpartition("/")[2]: line for line in rejects}
    for name, (_, reason, detail) in wrong.items():
        line = found.get(name, {})
        equal(line.get("reason"), reason, f"{name}: {line}")
        check(detail in line.get("detail", ""), f"{name}: {line}")


def test_every_cut_and_flip(work):
    """No damaged header crashes the packer or yields more samples than the file has."""
    noise = random.Random(6).randbytes(512)
    good = sphere(noise, size=512)
    chance = random.Random(7)
    files = {f"cut-{n}.sph": good[:n] for n in range(1, len(good), 37)}
    for n in range(150):
        content = bytearray(good)
        content[chance.randrange(300)] ^= 1 << chance.randrange(8)
        files[f"flip-{n}.sph"] = bytes(content)
    done, rows, rejects = pack(work, "flips", files)
    check(done.returncode in (0, 1), f"the pack: {done.returncode}: {done.stderr}")
    equal(len(rows) + len([line for line in rejects if line["rows"]]), len(files), "each is packed or rejected")
    for row in rows:
        check(row["samples"] * row["channels"] <= 512, f"{row['id']}: {row['samples']}")


with tempfile.TemporaryDirectory() as folder:
    run_tests([test_equals_wav, test_copies, test_damage, test_every_cut_and_flip], pathlib.Path(folder))
