"""Steps of tools/wheel.sh that pip and auditwheel lack.

    wheel_parts.py cuda PLUGIN OUTDIR     put the plug-in into a wheel
    wheel_parts.py finish WHEEL OUTDIR    add licenses, and write the wheel with fixed dates

`finish` fails for a bundled library whose license is not in LICENSES: read /usr/share/doc/PACKAGE/copyright, and add it if
its license permits the wheel.
"""

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "loader" / "python"))
import build_backend as backend  # noqa: E402

GCC = "GPL-3.0-or-later WITH GCC-exception-3.1"
# The license of the library itself. Debian's copyright files also list programs, tests, and build scripts of the source
# package, which are not in the wheel. Of several licenses to choose from, this is our choice.
LICENSES = {
    "libarchive-dev": "BSD-2-Clause",
    "libbz2-1.0": "bzip2-1.0.6",
    "libflac12": "BSD-3-Clause",
    "libjansson4": "MIT",
    "libkissfft-float131": "BSD-3-Clause",
    "liblz4-1": "BSD-2-Clause",
    "liblzma5": "LicenseRef-Public-Domain",
    "libmp3lame0": "LGPL-2.0-or-later",
    "libmpg123-0": "LGPL-2.1-only",
    "libnettle8": "LGPL-3.0-or-later",
    "libogg0": "BSD-3-Clause",
    "libopus0": "BSD-3-Clause",
    "libpng16-16": "libpng-2.0",
    "libsndfile1": "LGPL-2.1-or-later",
    "libsoxr0": "LGPL-2.1-or-later",
    "liburing2": "MIT",
    "libutf8proc2": "MIT AND Unicode-DFS-2015",
    "libvorbis0a": "BSD-3-Clause",
    "libvorbisenc2": "BSD-3-Clause",
    "libxxhash0": "BSD-2-Clause",
    "libyaml-0-2": "MIT",
    "libzstd1": "BSD-3-Clause",
}
# These libraries are linked statically, so auditwheel does not see them. CUDA's runtime is not a
# Debian package.
STATIC = {"speechshard": {"libarchive-dev"}, "speechshard_cuda": {"libstdc++-12-dev"}}
LICENSES["libstdc++-12-dev"] = GCC
# Libraries that tools/wheel.sh builds from the source of a Debian package: stem, file, package.
BUILT = {"libsoxr": (ROOT / "build/wheel-tools/soxr/libsoxr.so.0", "libsoxr0")}
CUDA_LICENSE = "LicenseRef-NVIDIA-CUDA-EULA"
# License texts in /usr/share/common-licenses to which copyright files refer.
TEXTS = {
    "LGPL-2.0": ["LGPL-2"],
    "LGPL-2.1": ["LGPL-2.1"],
    "LGPL-3.0": ["LGPL-3", "GPL-3"],
    "GPL-3.0": ["GPL-3"],
}
# Folders in site-packages/nvidia where NVIDIA's pip packages install their libraries.
CUDA_FOLDERS = ("cu13", "cudnn", "nccl")
# Requirements of the extra `train`: the libraries that the plug-in loads for training
# (docs/reference/GPU.md).
CUDA_LIBRARIES = ("nvidia-cublas>=13,<14", "nvidia-cudnn-cu13>=9,<10", "nvidia-nccl-cu13>=2.14,<3")


def fail(text):
    sys.exit(f"wheel_parts.py: {text}")


# ---- the plug-in ----


def cuda_wheel(plugin, folder):
    """Write the wheel speechshard-cuda. Its plug-in finds NVIDIA's libraries in the packages of the extra `train`."""
    version = backend._version()
    name = "speechshard_cuda"
    if b"libcublasLt.so.13\0" not in plugin.read_bytes():
        fail(f"{plugin} is not built with CUDA 13 and cuBLAS, whose packages the wheel names")
    copy = folder / backend.PLUGIN
    copy.write_bytes(plugin.read_bytes())
    path = ":".join(f"$ORIGIN/../nvidia/{part}/lib" for part in CUDA_FOLDERS)
    subprocess.run(["patchelf", "--set-rpath", path, str(copy)], check=True)
    project = backend._project()["project"]
    metadata = [
        "Metadata-Version: 2.4",
        "Name: speechshard-cuda",
        f"Version: {version}",
        "Summary: The plug-in of speechshard for NVIDIA GPUs",
        f"License-Expression: {project['license']}",
        "License-File: LICENSE",
        "Classifier: Environment :: GPU :: NVIDIA CUDA",
        "Classifier: Operating System :: POSIX :: Linux",
        f"Requires-Python: {project['requires-python']}",
        f"Requires-Dist: speechshard=={version}",
        "Provides-Extra: train",
        *(f'Requires-Dist: {library}; extra == "train"' for library in CUDA_LIBRARIES),
        "Description-Content-Type: text/markdown",
    ]
    about = (
        "The plug-in with which speechshard uses NVIDIA GPUs. It contains CUDA's runtime. Batches and features need only an\n"
        "NVIDIA driver. Training also needs cuBLASLt, cuDNN, and NCCL: the extra `train` installs them.\n"
    )
    platform = backend._tag().rpartition("-")[2]
    info = f"{name}-{version}.dist-info"
    contents = {
        f"{name}/__init__.py": b'"""The plug-in of speechshard for NVIDIA GPUs. There is nothing to import."""\n',
        f"{name}/{backend.PLUGIN}": copy.read_bytes(),
        f"{info}/METADATA": ("\n".join(metadata) + "\n\n" + about).encode(),
        f"{info}/WHEEL": backend._wheel_file(f"py3-none-{platform}").encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    backend.write_wheel(folder / f"{name}-{version}-py3-none-{platform}.whl", info, contents)


# ---- licenses ----


def package_version(package):
    command = ["dpkg-query", "-W", "-f", "${Version}", package]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def file_digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def package_of(name):
    """The Debian package of a library that auditwheel copied as STEM-HASH.so.VERSION: the one whose file has that hash."""
    stem, digest, rest = re.fullmatch(r"(.+)-([0-9a-f]{8})(\.so.*)", name).groups()
    built, package = BUILT.get(stem, (None, None))
    if built and file_digest(built).startswith(digest):
        return package
    command = ["dpkg-query", "-S", f"*/{stem}{rest}"]
    found = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True).stdout
    for line in found.splitlines():
        package, path = line.split(": ", 1)
        if file_digest(Path(path)).startswith(digest):
            return package.partition(":")[0]
    return fail(f"no Debian package has {stem}{rest}")


def complete_bill(bill, packages):
    """Add the packages that auditwheel does not find: libraries below /lib, and statically linked
    ones."""
    bill = json.loads(bill)
    known = {part["name"] for part in bill["components"]}
    for name, version in sorted(packages.items()):
        if name not in known:
            url = f"pkg:deb/debian/{name}@{quote(version)}"
            part = {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}
            bill["components"].append(part)
    return json.dumps(bill).encode()


def license_files(packages, has_cuda):
    """({name: bytes}, the expression of the whole wheel)"""
    files, expressions, lines = {}, [backend._project()["project"]["license"]], []
    for package, version in sorted(packages.items()):
        expression = LICENSES.get(package)
        if expression is None:
            fail(f"{package} has no license here; read /usr/share/doc/{package}/copyright")
        if re.match("A?GPL", expression) and " WITH " not in expression:
            fail(f"{package} is under {expression}, which the wheel must not contain")
        lines.append(f"{package:18} {version:24} {expression}\n")
        expressions += expression.split(" AND ")
        files[f"bundled/{package}.txt"] = Path(f"/usr/share/doc/{package}/copyright").read_bytes()
        for prefix, texts in TEXTS.items():
            if expression.startswith(prefix):
                for text in texts:
                    files[f"bundled/{text}.txt"] = Path("/usr/share/common-licenses", text).read_bytes()
    if has_cuda:
        lines.append(f"{'CUDA runtime':18} {'':24} NVIDIA CUDA EULA, https://docs.nvidia.com/cuda/eula/\n")
        expressions.append(CUDA_LICENSE)
    head = (
        "Parts of other projects in this wheel: Debian package, version, license of the part. bundled/PACKAGE.txt is\n"
        "Debian's copyright file, which also covers programs and tests that are not in the wheel. The sources:\n"
        "`apt-get source PACKAGE=VERSION`. Shared libraries are as Debian built them, except for their names and search paths.\n"
        "libsoxr0 is built from the same source without OpenMP.\n\n"
    )
    files["BUNDLED.txt"] = (head + "".join(lines)).encode()
    return files, " AND ".join(dict.fromkeys(expressions))


def finish(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    record = next(name for name in contents if name.endswith(".dist-info/RECORD"))
    info = record.partition("/")[0]
    del contents[record]
    name = info.partition("-")[0]
    libraries = [path.rpartition("/")[2] for path in contents if path.startswith(f"{name}.libs/")]
    names = {package_of(library) for library in libraries if not library.startswith("libspeechshard-")}
    packages = {package: package_version(package) for package in names | STATIC[name]}
    licenses, expression = license_files(packages, name == "speechshard_cuda")
    contents.update({f"{info}/licenses/{path}": data for path, data in licenses.items()})
    bill = f"{info}/sboms/auditwheel.cdx.json"
    if bill in contents:
        contents[bill] = complete_bill(contents[bill], packages)
    metadata = contents[f"{info}/METADATA"].decode()
    metadata = re.sub("^License-Expression: .*", f"License-Expression: {expression}", metadata, count=1, flags=re.M)
    listed = "".join(f"License-File: {name}\n" for name in sorted(licenses))
    metadata = metadata.replace("License-File: LICENSE\n", "License-File: LICENSE\n" + listed, 1)
    contents[f"{info}/METADATA"] = metadata.encode()
    ordered = dict(sorted(contents.items(), key=lambda item: (item[0].startswith(info), item[0])))
    made = folder / wheel.name
    backend.write_wheel(made, info, ordered)
    print(licenses["BUNDLED.txt"].decode().partition("\n\n")[2], end="")
    print(f"{made}: {made.stat().st_size} bytes, {sum(map(len, contents.values()))} unpacked")


def main(words):
    if len(words) != 3 or words[0] not in ("cuda", "finish"):
        fail("expects `cuda PLUGIN OUTDIR` or `finish WHEEL OUTDIR`")
    (cuda_wheel if words[0] == "cuda" else finish)(Path(words[1]), Path(words[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
