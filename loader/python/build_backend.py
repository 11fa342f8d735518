"""The PEP 517 backend of the Python package: builds it with CMake and packs the wheel.

pip install ./loader/python needs no network and no package index: it runs CMake on the repository,
which contains this folder, and packs the output of the target speechshard_python. The extension
uses the limited API, so the wheel runs on CPython 3.9 and later, on machines that have the audio
libraries that the extension is linked with.

Settings (pip install --config-settings KEY=VALUE):

build-dir: build in this folder and keep it, so that the next build is faster.
cuda=ON: also build the plug-in for GPUs, which needs nvcc and takes minutes, and pack it into the
wheel.
cmake-args: arguments that are added to CMake's command line.
"""

import base64
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NAME = "speechshard"
SOURCES = sorted(path.name for path in (HERE / NAME).iterdir() if path.suffix in (".py", ".pyi", ".typed"))
FILES = (*SOURCES, "_speechshard.abi3.so")
PLUGIN = "libspeechshard-cuda.so"


def _version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(speechshard VERSION ([0-9.]+)", text).group(1)


def _tag():
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp39-abi3-{platform}"


def _metadata():
    return (
        "Metadata-Version: 2.1\n"
        f"Name: {NAME}\n"
        f"Version: {_version()}\n"
        "Summary: Read packed speech corpora, and train from them\n"
        "License: Apache-2.0\n"
        "Requires-Python: >=3.9\n"
        "Classifier: Operating System :: POSIX :: Linux\n"
        "Classifier: Programming Language :: C\n"
        "Classifier: Programming Language :: Python :: Implementation :: CPython\n"
        "Description-Content-Type: text/markdown\n"
        "\n" + (HERE / "README.md").read_text(encoding="utf-8")
    )


def _wheel_file():
    return f"Wheel-Version: 1.0\nGenerator: speechshard\nRoot-Is-Purelib: false\nTag: {_tag()}\n"


def _has_cuda(settings):
    return settings.get("cuda", "OFF").upper() == "ON"


def _build(build_dir, settings):
    """{name in the package: path}"""
    cmake = shutil.which("cmake")
    if cmake is None:
        raise SystemExit("speechshard: building needs cmake; tools/install-deps.sh installs it")
    configure = [
        cmake, "-S", str(ROOT), "-B", str(build_dir),
        "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DBUILD_TESTING=OFF",
        "-DSPEECHSHARD_BUILD_PYTHON=ON", f"-DPython3_EXECUTABLE={sys.executable}",
        f"-DSPEECHSHARD_CUDA={'ON' if _has_cuda(settings) else 'OFF'}",
    ]  # fmt: skip
    if shutil.which("ninja") and not (build_dir / "CMakeCache.txt").exists():
        configure += ["-G", "Ninja"]
    configure += shlex.split(settings.get("cmake-args", ""))
    subprocess.run(configure, check=True)
    jobs = str(len(os.sched_getaffinity(0)))
    targets = ["speechshard_python"] + ["speechshard_cuda"] * _has_cuda(settings)
    command = [cmake, "--build", str(build_dir), "-j", jobs, "--target", *targets]
    subprocess.run(command, check=True)
    files = {name: build_dir / "python" / NAME / name for name in FILES}
    if _has_cuda(settings):
        files[PLUGIN] = build_dir / PLUGIN
    return files


def _hash(data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return "sha256=" + digest.rstrip(b"=").decode()


def _write_wheel(path, contents):
    """contents: {name: bytes}. Dates are fixed, so that the same files give the same wheel."""
    lines = [f"{name},{_hash(data)},{len(data)}\n" for name, data in contents.items()]
    record = f"{_info_dir()}/RECORD"
    contents = {**contents, record: ("".join(lines) + f"{record},,\n").encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in contents.items():
            member = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            wheel.writestr(member, data)


def _info_dir():
    return f"{NAME}-{_version()}.dist-info"


def _info_files():
    return {
        "METADATA": _metadata().encode(),
        "WHEEL": _wheel_file().encode(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
    }


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Write the metadata only. Without this hook, pip would build the wheel twice."""
    folder = Path(metadata_directory) / _info_dir()
    folder.mkdir()
    for name, data in _info_files().items():
        (folder / name).write_bytes(data)
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = config_settings or {}
    wheel_name = f"{NAME}-{_version()}-{_tag()}.whl"
    with tempfile.TemporaryDirectory(prefix="speechshard-build-") as temporary:
        build_dir = Path(settings.get("build-dir", temporary)).absolute()
        files = _build(build_dir, settings)
        contents = {f"{NAME}/{name}": path.read_bytes() for name, path in files.items()}
    contents.update({f"{_info_dir()}/{name}": data for name, data in _info_files().items()})
    _write_wheel(Path(wheel_directory) / wheel_name, contents)
    return wheel_name


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("speechshard: the sources are the repository; there is no source package")
