"""archive_form.py: pack a test corpus into archives, as it is distributed, at the place where it
would be unpacked.

The case's name selects the form, so that all forms are used and a run can be repeated: tar with
every compression, zip, wrong extensions, metadata before or after the audio. A corpus in its own
archive format (samples in tars) keeps its tars, compressed under their old names.
"""
import bz2
import gzip
import io
import lzma
import shutil
import tarfile
import zipfile
import zlib

AUDIO = (".wav", ".flac", ".mp3", ".opus", ".ogg")
PACKERS = {"": lambda data: data, "gz": lambda data: gzip.compress(data, 1, mtime=0),
           "xz": lambda data: lzma.compress(data, preset=0), "bz2": bz2.compress}
FORMS = (  # name of the archive, compression or "zip"
    ("corpus.tar", ""),
    ("corpus.tar.gz", "gz"),
    ("corpus.zip", "zip"),
    ("corpus.tgz", "gz"),
    ("corpus.tar.xz", "xz"),
    ("corpus.tar.tar", "gz"),
    ("corpus-1.0-2026-01-01", "gz"),
    ("corpus.tar.gz", ""),
    ("corpus.tar?authorization=1", "bz2"),
)


def is_tar(path):
    return path.is_file() and not path.is_symlink() and path.stat().st_size > 0 and \
        tarfile.is_tarfile(path)


def recompress(tars, number):
    packer = ("gz", "xz", "bz2")[number % 3]
    for path in tars:
        data = path.read_bytes()
        if data[257:262] == b"ustar":
            path.write_bytes(PACKERS[packer](data))
    return f"its tars compressed with {packer}"


def has_odd_names(paths):
    for path in paths:
        try:
            str(path).encode("utf-8")
        except UnicodeEncodeError:
            return True
    return False


def write_tar(root, paths, number):
    stream = io.BytesIO()
    style = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)[number % 2]
    with tarfile.open(fileobj=stream, mode="w", format=style, errors="surrogateescape") as tar:
        for path in paths:
            tar.add(root / path, arcname=("./" if number % 3 == 0 else "") + str(path),
                    recursive=False)
    return stream.getvalue()


def write_zip(root, paths):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", strict_timestamps=False) as archive:
        for path in paths:
            kind = zipfile.ZIP_STORED if path.suffix in AUDIO else zipfile.ZIP_DEFLATED
            archive.write(root / path, str(path), kind)
    return stream.getvalue()


def pack_up(root, case, kept):
    """Put the tree below root into an archive next to it, except the file that is passed to the
    command."""
    number = zlib.crc32(case.encode())
    paths = [path.relative_to(root) for path in sorted(root.rglob("*"))]
    tars = [root / path for path in paths if is_tar(root / path)]
    if tars:
        return None if kept is not None else recompress(tars, number)
    name, packer = FORMS[number % len(FORMS)]
    if kept is not None or (packer == "zip" and has_odd_names(paths)):
        name, packer = FORMS[0]  # next to a manifest, only archives that need no unpacking are read
    metadata_first = number % 5 < 3
    paths = [path for path in paths if root / path != kept]
    paths.sort(key=lambda path: ((path.suffix in AUDIO) == metadata_first, path))
    data = write_zip(root, paths) if packer == "zip" else \
        PACKERS[packer](write_tar(root, paths, number))
    for path in paths:
        if len(path.parts) == 1 and (kept is None or root / path not in kept.parents):
            (shutil.rmtree if (root / path).is_dir() else type(root).unlink)(root / path)
        elif not (root / path).is_dir() and (root / path).exists():
            (root / path).unlink()
    (root / name).write_bytes(data)
    return f"{name} ({packer or 'plain'}, metadata {'first' if metadata_first else 'last'})"
