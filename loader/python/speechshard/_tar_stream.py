"""Write the stream that `speechshard pack -` reads: a tar of samples (docs/reference/STREAM.md).

Headers are copies of a template with two fields filled in, which is fast: each utterance needs two.
"""

import contextlib
import fcntl
import json
import os

BLOCK = 512
BUFFER_BYTES = 1 << 20
PIECE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ, which Python 3.9 lacks
SIZE_MAX = 8**11 - 1  # maximum size of a member in a ustar header
COPIED_BYTES_MAX = 128 << 10  # larger data is written directly, without copying it to the buffer


class StreamError(Exception):
    """The stream cannot be completed as announced, and must not end like a complete tar."""


def _template():
    header = bytearray(BLOCK)
    header[100:108] = b"0000644\0"
    header[108:116] = header[116:124] = b"0000000\0"
    header[136:148] = b"00000000000\0"
    header[148:156] = b" " * 8  # the checksum is computed with blanks in its own field
    header[156:157] = b"0"
    header[257:265] = b"ustar\x0000"
    return bytes(header)


_TEMPLATE = _template()
_TEMPLATE_SUM = sum(_TEMPLATE)


def header(name, size):
    """Return the header of a member. name: at most 100 bytes."""
    if size > SIZE_MAX:
        raise StreamError(f"{name.decode()}: {size} bytes, a member has at most {SIZE_MAX}")
    size_field = b"%011o" % size
    checksum = _TEMPLATE_SUM + sum(name) + sum(size_field)
    return b"".join((
        name, _TEMPLATE[len(name):124], size_field, _TEMPLATE[135:148],
        b"%06o\0 " % checksum, _TEMPLATE[156:],
    ))  # fmt: skip


class TarStream:
    """Writes samples to a file descriptor. Keys are consecutive numbers; ids are in the JSON."""

    def __init__(self, fd):
        self._fd = fd
        with contextlib.suppress(OSError):  # if fd is a pipe, a larger one: fewer context switches
            fcntl.fcntl(fd, F_SETPIPE_SZ, BUFFER_BYTES)
        self._buffer = bytearray()
        self.samples = 0
        self.rejects = 0
        self.reject_rows = 0
        self.audio_bytes = 0

    def _write(self, data):
        data = memoryview(data)
        while data:
            data = data[os.write(self._fd, data) :]

    def _flush(self):
        self._write(self._buffer)
        self._buffer = bytearray()

    def _add(self, data):
        if len(data) > COPIED_BYTES_MAX:
            self._flush()
            self._write(data)
            return
        self._buffer += data
        if len(self._buffer) >= BUFFER_BYTES:
            self._flush()

    def _add_json(self, info):
        key = b"%012d" % (self.samples + self.rejects)
        text = json.dumps(info, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = text.encode()
        self._add(header(key + b".json", len(data)))
        self._add(data)
        self._add(bytes(-len(data) % BLOCK))
        return key

    def add(self, info, extension, audio):
        """Write one utterance. audio: a buffer, or an open binary file, which is copied whole."""
        key = self._add_json(info)
        is_file = hasattr(audio, "fileno")
        size = os.fstat(audio.fileno()).st_size if is_file else len(audio)
        self._add(header(key + b"." + extension.encode(), size))
        if is_file:
            self._copy(audio, size)
        else:
            self._add(audio)
        self._add(bytes(-size % BLOCK))
        self.samples += 1
        self.audio_bytes += size

    def _copy(self, file, size):
        left = size
        while left > 0:
            piece = file.read(min(PIECE_BYTES, left))
            if not piece:
                raise StreamError(f"{file.name}: became shorter while it was read")
            self._add(piece)
            left -= len(piece)

    def reject(self, source, reason, detail=None, rows=1, utterance=None):
        """Write a skipped utterance, so that the reader of the stream counts it."""
        info = {"id": utterance, "source": source,
                "reject": {"reason": reason, "detail": detail, "rows": rows}}  # fmt: skip
        self._add_json(info)
        self.rejects += 1
        self.reject_rows += rows

    def finish(self):
        self._add(bytes(2 * BLOCK))
        self._flush()

    def abandon(self):
        """End a failed stream inside a member, so that no reader takes it for a complete tar."""
        self._add(header(b"incomplete", BLOCK))
        self._flush()
