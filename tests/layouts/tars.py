"""Tars for fixtures, with the members in the order in which they are given."""
import pathlib
import tarfile


class Clips:
    """Audio as bytes, different at each call."""

    def __init__(self, root, clip):
        self.root, self.clip, self.seed = root, clip, 0

    def __call__(self, extension="wav", **how):
        self.seed += 1
        path = self.clip(self.root.parent / "made" / f"clip.{extension}", seed=self.seed, **how)
        data = path.read_bytes()
        path.unlink()
        return data


def tar_bytes(members, form=tarfile.USTAR_FORMAT, end=True):
    """members: (name, bytes). end: append the blocks of zeros."""
    out = b""
    for name, data in members:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        out += info.tobuf(form, "utf-8", "surrogateescape") + data + bytes(-len(data) % 512)
    return out + (bytes(1024) if end else b"")


def write_tar(path, members, **how):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar_bytes(members, **how))
    return path
