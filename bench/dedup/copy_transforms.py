"""Transforms of a clip: codecs, and filters of ffmpeg. copies_kit.py describes the kit.

A transform is a name, its family, and a recipe. One ffmpeg process makes all transforms of a clip,
and a second one decodes the codecs that `pack` does not read into WAV files. The library of Debian
packages libopencore-amrnb0 and libvo-amrwbenc0 encodes AMR, which ffmpeg only decodes.
"""

import array
import collections
import ctypes
import glob
import itertools
import math
import os
import subprocess
import sys
import wave

RATE = 16000

# encoder, muxer: of ffmpeg. decoder: options of its input; None: `pack` reads the encoded file.
Codec = collections.namedtuple("Codec", "name encoder muxer options decoder")
PACKED = None
# Bars are set for these codecs and all pairs of them.
MAIN_CODECS = (
    Codec("wav_8", "pcm_s16le", "wav", "-ar 8000", PACKED),
    Codec("gsm_8", "libgsm", "gsm", "-ar 8000", PACKED),
    Codec("g722_16", "g722", "wav", "", ""),
    Codec("opus8_16", "libopus", "ogg", "-b:a 8k", PACKED),
    Codec("opus16_16", "libopus", "ogg", "-b:a 16k", PACKED),
    Codec("opus8_8", "libopus", "ogg", "-ar 8000 -b:a 8k", PACKED),
    Codec("mp3_16", "libmp3lame", "mp3", "-b:a 32k", PACKED),
    Codec("mp3_8", "libmp3lame", "mp3", "-ar 8000 -b:a 32k", PACKED),
)
# Every other lossy encoder of ffmpeg 5.1, by the lowest common rate and without tuning.
MORE_CODECS = tuple(Codec(encoder, encoder, muxer, options, decoder) for encoder, muxer, options, decoder in (
    ("aac", "ipod", "-b:a 24k", ""),
    ("ac3", "ac3", "-ar 32000 -b:a 48k", ""),
    ("ac3_fixed", "ac3", "-ar 32000 -b:a 48k", ""),
    ("adpcm_adx", "adx", "", ""),
    ("adpcm_argo", "argo_asf", "-ar 22050", ""),
    ("adpcm_ima_alp", "alp", "-ar 22050", ""),
    ("adpcm_ima_apm", "apm", "-ar 22050", ""),
    ("adpcm_ima_qt", "mov", "", ""),
    ("adpcm_ima_wav", "wav", "", ""),
    ("adpcm_ima_ws", "wsaud", "-ar 22050", ""),
    ("adpcm_ms", "wav", "", ""),
    ("adpcm_swf", "flv", "-ar 22050", ""),
    ("adpcm_yamaha", "nut", "", ""),
    ("aptx", "aptx", "-ar 44100 -ac 2", "-f aptx -ar 44100"),
    ("aptx_hd", "aptx_hd", "-ar 44100 -ac 2", "-f aptx_hd -ar 44100"),
    ("dca", "dts", "", ""),
    ("dfpwm", "dfpwm", "-ar 48000", "-f dfpwm -ar 48000"),
    ("eac3", "eac3", "-ar 32000 -b:a 32k", ""),
    ("g723_1", "nut", "-ar 8000", ""),
    ("g726", "wav", "-ar 8000 -b:a 16k", ""),
    ("g726le", "g726le", "-ar 8000", "-f g726le"),
    ("libcodec2", "codec2", "-ar 8000 -mode 3200", ""),
    ("libgsm_ms", "wav", "-ar 8000", ""),
    ("libshine", "mp3", "-ar 44100 -b:a 64k", ""),
    ("libspeex", "ogg", "-ar 8000 -b:a 8k", ""),
    ("libtwolame", "mp2", "-b:a 32k", ""),
    ("libvorbis", "ogg", "-q:a 0", ""),
    ("mp2", "mp2", "-b:a 32k", ""),
    ("mp2fixed", "mp2", "-b:a 32k", ""),
    ("nellymoser", "flv", "", ""),
    ("opus", "ogg", "-ar 48000 -b:a 32k", ""),
    ("pcm_alaw", "wav", "-ar 8000", ""),
    ("pcm_mulaw", "wav", "-ar 8000", ""),
    ("pcm_u8", "wav", "-ar 8000", ""),
    ("real_144", "rm", "-ar 8000", ""),
    ("roq_dpcm", "roq", "-ar 22050", ""),
    ("sbc", "sbc", "", "-f sbc"),
    ("sonic", "nut", "-ar 44100", "-strict -2"),
    ("vorbis", "nut", "-ac 2", ""),
    ("wmav1", "asf", "-b:a 24k", ""),
    ("wmav2", "asf", "-b:a 24k", ""),
))
# Encoders that need no recipe.
LOSSY_PCM = {"pcm_alaw", "pcm_mulaw", "pcm_s16le", "pcm_u8", "pcm_vidc"}
NO_LOSS = {"alac", "flac", "mlp", "s302m", "sonicls", "truehd", "tta", "wavpack"}
NO_RECIPE = {"comfortnoise": "encodes no waveform", "adpcm_ima_amv": "needs video", "pcm_vidc": "no container stores it",
             "adpcm_ima_ssi": "an assertion fails in ffmpeg 5.1"}

Amr = collections.namedtuple("Amr", "name library prefix encode frame_samples rate mode magic")
AMR_CODECS = (
    Amr("amr_8", "libopencore-amrnb.so.0", "Encoder_Interface_", "Encode", 160, 8000, 7, b"#!AMR\n"),
    Amr("amrwb_16", "libvo-amrwbenc.so.0", "E_IF_", "encode", 320, 16000, 2, b"#!AMR-WB\n"),
)

# Filters of ffmpeg. Input 0 is the clip, input 1 the response of a room.
FILTERS = (
    ("gain_-20", "gain", "[0:a]volume=-20dB"),
    ("gain_clip", "gain", "[0:a]volume={clipping}dB"),
    *((f"speed_{percent}", "speed", f"[0:a]asetrate={RATE * percent // 100},aresample={RATE}") for percent in (90, 95, 97, 103, 105, 110)),
    ("speed_drawn", "speed", f"[0:a]asetrate={{drawn_rate}},aresample={RATE}"),
    ("room", "room", "[1:a]aresample=16000[response];[0:a][response]afir,volume=20dB"),
)
# Speech above the rest, in dB. mixes() has the recipes. room_6: the clip 6 dB above its room.
LEVELS = {"noise": (20, 10, 5), "music": (10, 5, 0), "mixed": (10, 0)}
MIXES = {"room_6": "room", **{f"{kind}_{level}": "two channels" if kind == "mixed" else kind for kind, levels in LEVELS.items() for level in levels},
         "stereo": "two channels", "cut_60": "cut and joined", "joined_60": "cut and joined"}
# Copies of these have a second recording in common with other copies.
WITH_OTHER = {"joined_60", "mixed_10", "mixed_0", "stereo"}
WITH_MUSIC = {"music_10", "music_5", "music_0"}
FAMILY = {**{codec.name: "codec" for codec in (*MAIN_CODECS, *AMR_CODECS)}, **{codec.name: "more codecs" for codec in MORE_CODECS},
          **{name: family for name, family, _ in FILTERS}, **MIXES}
MAIN = ("wav_16", *(codec.name for codec in MAIN_CODECS), "amr_8")


def encoders():
    """Lossy audio encoders that this ffmpeg has."""
    text = subprocess.run(["ffmpeg", "-hide_banner", "-encoders"], capture_output=True, check=True, text=True).stdout
    names = {line.split()[1] for line in text.splitlines() if line.startswith(" A") and "=" not in line}
    return {name for name in names - NO_LOSS if not name.startswith("pcm_") or name in LOSSY_PCM}


def without_recipe():
    known = {codec.encoder for codec in (*MAIN_CODECS, *MORE_CODECS)} | set(NO_RECIPE)
    return sorted(encoders() - known)


def rms(samples):
    """Level of the louder half of the blocks of 20 ms."""
    size = RATE // 50
    energies = sorted(sum(x * x for x in samples[i : i + size]) / size for i in range(0, max(len(samples) - size, 1), size))
    louder = energies[len(energies) // 2 :]
    return max(math.sqrt(sum(louder) / len(louder)), 1.0)


def mix(clip, other, level):
    """Both at half their level, and other `level` dB below the clip."""
    scale = 0.5 * rms(clip) / rms(other) / 10 ** (level / 20)
    return array.array("h", (max(-32768, min(32767, round(0.5 * a + scale * b))) for a, b in zip(clip, other)))


def mixes(draw, clip, other, music):
    """Yield name, channels, samples. draw: random.Random. other: another talker. All as long as clip."""
    noise = array.array("h", (int(40000 * (draw.random() - 0.5)) for _ in clip))
    for kind, below in (("noise", noise), ("music", music), ("mixed", other)):
        for level in LEVELS[kind]:
            yield f"{kind}_{level}", 1, mix(clip, below, level)
    yield "stereo", 2, array.array("h", itertools.chain.from_iterable(zip(clip, other)))
    part = len(clip) * 6 // 10
    first = draw.randrange(len(clip) - part)
    yield "cut_60", 1, clip[first : first + part]
    yield "joined_60", 1, clip[first : first + part] + other[:part]


def filter_values(draw, clip):
    return {"clipping": 9 - 20 * math.log10(max(abs(max(clip, key=abs)), 1) / 32768), "drawn_rate": round(RATE * draw.uniform(0.9, 1.1))}


def write_wav(path, samples, channels=1):
    with wave.open(path, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())


def read_wav(path):
    with wave.open(path, "rb") as file:
        return array.array("h", file.readframes(file.getnframes()))


def ffmpeg(*arguments):
    command = ["ffmpeg", "-nostdin", "-v", "error", "-y", "-threads", "1", "-filter_complex_threads", "1", *arguments]
    result = subprocess.run(command, capture_output=True, check=False, text=True)
    return result.returncode == 0, result.stderr.strip()


def encode(inputs, outputs):
    """Write all outputs (name, options, path), or, if an encoder crashes, each by itself. Return the names."""
    good, _ = ffmpeg(*inputs, *(word for _, options, path in outputs for word in (*options, path)))
    if good:
        return [name for name, _, _ in outputs]
    made = []
    for name, options, path in outputs:
        good, message = ffmpeg(*inputs, *options, path)
        if good:
            made.append(name)
        else:
            print(f"{path}: {message}", file=sys.stderr)
            if os.path.exists(path):
                os.remove(path)
    return made


def encode_amr(codec, folder, wav_path, amr_path):
    """False: the library is not in the folder. wav_path: 16 bits at the rate of the codec."""
    places = glob.glob(os.path.join(folder, "**", codec.library), recursive=True)
    if not places:
        return False
    library = ctypes.CDLL(places[0])
    start, encode, end = (getattr(library, codec.prefix + name) for name in ("init", codec.encode, "exit"))
    start.restype = ctypes.c_void_p
    encode.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    end.argtypes = [ctypes.c_void_p]
    with wave.open(wav_path, "rb") as file:
        raw = file.readframes(file.getnframes())
    state, size = start(0), 2 * codec.frame_samples
    packet = ctypes.create_string_buffer(128)
    with open(amr_path, "wb") as out:
        out.write(codec.magic)
        for at in range(0, len(raw), size):
            frame = ctypes.create_string_buffer(raw[at : at + size].ljust(size, b"\0"), size)
            size_bytes = encode(state, codec.mode, frame, packet, 0)
            out.write(packet.raw[:size_bytes])
    end(state)
    return True


def copy_id(clip, transform):
    return f"{clip}@{transform}"


class Maker:
    """Makes the transforms of clips: OUT/audio/TRANSFORM/CLIP@TRANSFORM.EXT."""

    def __init__(self, out, debian, room):
        self.out, self.debian, self.room = out, debian, room
        have = encoders()
        codecs = (*MAIN_CODECS, *MORE_CODECS)
        self.codecs = [codec for codec in codecs if codec.encoder in have]
        self.missing = [codec.name for codec in codecs if codec.encoder not in have]
        for name in ["raw", *(os.path.join("audio", name) for name in ("wav_16", *FAMILY))]:
            os.makedirs(os.path.join(out, name), exist_ok=True)

    def path(self, clip, transform, extension):
        return os.path.join(self.out, "audio", transform, f"{copy_id(clip, transform)}.{extension}")

    def make(self, clip, names, draw, samples):
        """Return the transforms that were made, of the given names. clip: its name. samples: of the clip, of
        another talker, and of music, equally long."""
        source = self.path(clip, "wav_16", "wav")
        write_wav(source, samples[0])
        made = [name for name in MIXES if name in names and name != "room_6"]
        for name, channels, mixed in mixes(draw, *samples):
            if name in names:
                write_wav(self.path(clip, name, "wav"), mixed, channels)
        outputs, values = [], filter_values(draw, samples[0])
        for name, _, graph in FILTERS:
            if name in names:
                outputs.append((name, ["-filter_complex", f"{graph.format(**values)}[{name}]", "-map", f"[{name}]", "-c:a", "pcm_s16le"],
                                self.path(clip, name, "wav")))
        decoders = []
        for codec in self.codecs:
            if codec.name not in names and not (codec.name == "wav_8" and "amr_8" in names):
                continue
            path = self.path(clip, codec.name, codec.muxer)
            if codec.decoder is not PACKED:
                path = os.path.join(self.out, "raw", f"{clip}.{codec.name}.{codec.muxer}")
                decoders.append((codec.name, codec.decoder.split() + ["-i", path], path))
            outputs.append((codec.name, ["-map", "0:a", "-c:a", codec.encoder, "-strict", "-2", *codec.options.split(), "-f", codec.muxer], path))
        made += encode(["-i", source, "-i", self.room], outputs)
        if "room_6" in names and "room" in made:
            write_wav(self.path(clip, "room_6", "wav"), mix(samples[0], read_wav(self.path(clip, "room", "wav")), 6))
            made.append("room_6")
        for codec in AMR_CODECS:
            path = os.path.join(self.out, "raw", f"{clip}.{codec.name}.amr")
            wav = self.path(clip, "wav_8", "wav") if codec.rate == 8000 else source
            if codec.name in names and encode_amr(codec, self.debian, wav, path):
                decoders.append((codec.name, ["-i", path], path))
                made.append(codec.name)
        self.decode(clip, [decoder for decoder in decoders if decoder[0] in made])
        return made

    def decode(self, clip, decoders):
        arguments, outputs = [], []
        for number, (name, source, _) in enumerate(decoders):
            arguments += source
            outputs += ["-map", f"{number}:a", "-c:a", "pcm_s16le", "-ac", "1", self.path(clip, name, "wav")]
        good, message = ffmpeg(*arguments, *outputs) if decoders else (True, "")
        if not good:
            raise RuntimeError(f"{clip}: {message}")
        for _, _, path in decoders:
            os.remove(path)
