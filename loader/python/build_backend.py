"""The PEP 517 backend of the Python package: builds it with CMake and packs the wheel.

pip install ./loader/python needs no network and no package index: it runs CMake on the repository,
which contains this folder, and packs the extension and the command. The extension uses the limited
API, so the wheel runs on CPython 3.9 and later, on machines that have the audio libraries that the
extension is linked with. tools/wheel.sh makes wheels that contain these libraries.

Settings (pip install --config-settings KEY=VALUE):

build-dir: build in this folder and keep it, so that the next build is faster.
cuda=ON: also build the plug-in for GPUs, which needs nvcc and takes minutes, and pack it into the
wheel.
cmake-args: arguments that are added to CMake's command line.
"""

import ast
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
COMMAND = "speechshard"
SOURCES = sorted(path.name for path in (HERE / NAME).iterdir() if path.suffix in (".py", ".pyi", ".typed"))
FILES = (*SOURCES, "_speechshard.abi3.so")
PLUGIN = "libspeechshard-cuda.so"
# Debian's packages of the pkg-config modules whose package is not lib + module + -dev.
DEBIAN = {
    "nettle": "nettle-dev",
    "sndfile": "libsndfile1-dev",
    "yaml-0.1": "libyaml-dev",
    "zlib": "zlib1g-dev",
}


# ---- metadata ----


def _version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(speechshard VERSION ([0-9.]+)", text).group(1)


def _project():
    """pyproject.toml as {table: {key: value}}. Its values are also Python's: Python 3.9 has no
    reader."""
    tables, pending = {}, ""
    for line in (HERE / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if not pending and (not line.strip() or line.startswith("#")):
            continue
        if not pending and line.startswith("["):
            table = tables.setdefault(line.strip("[] "), {})
            continue
        pending += line + "\n"
        key, _, value = pending.partition("=")
        if value.count("[") == value.count("]"):
            table[key.strip()] = ast.literal_eval(value.strip())
            pending = ""
    return tables


def _tag():
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"cp39-abi3-{platform}"


def _requirement(text, extra):
    name, _, marker = text.partition(";")
    marker = f"({marker.strip()}) and " if marker else ""
    return f'Requires-Dist: {name.strip()}; {marker}extra == "{extra}"'


def _metadata():
    tables = _project()
    project = tables["project"]
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {_version()}",
        f"Summary: {project['description']}",
        f"Keywords: {','.join(project['keywords'])}",
        f"License-Expression: {project['license']}",
        *(f"License-File: {name}" for name in project["license-files"]),
        *(f"Classifier: {name}" for name in project["classifiers"]),
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {text}" for text in project.get("dependencies", [])),
    ]
    for extra, requirements in tables["project.optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [_requirement(text, extra) for text in requirements]
    lines += ["Description-Content-Type: text/markdown", ""]
    return "\n".join(lines) + "\n" + (HERE / project["readme"]).read_text(encoding="utf-8")


def _wheel_file(tag):
    return f"Wheel-Version: 1.0\nGenerator: speechshard\nRoot-Is-Purelib: false\nTag: {tag}\n"


def _entry_points():
    scripts = _project()["project.scripts"]
    return "[console_scripts]\n" + "".join(f"{name} = {target}\n" for name, target in scripts.items())


def _info_dir():
    return f"{NAME}-{_version()}.dist-info"


def _info_files():
    files = {
        "METADATA": _metadata().encode(),
        "WHEEL": _wheel_file(_tag()).encode(),
        "entry_points.txt": _entry_points().encode(),
    }
    for name in _project()["project"]["license-files"]:
        files[f"licenses/{name}"] = (ROOT / name).read_bytes()
    return files


# ---- the build ----


def _has_cuda(settings):
    return settings.get("cuda", "OFF").upper() == "ON"


def _modules():
    """The pkg-config modules that CMake will ask for, as `name >= version`."""
    text = (ROOT / "cmake" / "SpeechshardDependencies.cmake").read_text(encoding="utf-8")
    return re.findall(r'^speechshard_find_dependency\(\w+ "([^">]+>=[^"]+)"', text, re.MULTILINE)


def _debian_package(module):
    """Debian's package of a pkg-config module."""
    name = module.partition(">=")[0].strip()
    return DEBIAN.get(name, f"lib{name[3:] if name.startswith('lib') else name}-dev")


def _missing():
    """{program, module, or header that the build needs and that is missing: Debian's package}"""
    missing = {}
    if shutil.which("cmake") is None:
        missing["cmake"] = "cmake"
    compilers = [shlex.split(os.environ["CC"])[0]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    if not any(shutil.which(name) for name in compilers):
        missing["a C compiler"] = "build-essential"
    if not any(shutil.which(name) for name in ("ninja", "make", "gmake")):
        missing["ninja or make"] = "ninja-build"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        missing["Python.h"] = "python3-dev"
    pkg_config = shutil.which(os.environ.get("PKG_CONFIG", "pkg-config"))
    if pkg_config is None:
        missing["pkg-config"] = "pkg-config"
    for module in _modules():
        spaced = module.replace(">=", " >= ")
        if not pkg_config or subprocess.run([pkg_config, "--exists", spaced], check=False).returncode:
            missing[module] = _debian_package(module)
    return missing


def _run(command, what):
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit(f"speechshard: {what} failed; its messages are above")


def _build(build_dir, settings):
    """{name in the package: path}"""
    missing = _missing()
    if missing:
        raise SystemExit(
            f"speechshard: building needs {', '.join(missing)}: "
            f"apt-get install {' '.join(dict.fromkeys(missing.values()))}"
        )
    configure = [
        "cmake", "-S", str(ROOT), "-B", str(build_dir),
        "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DBUILD_TESTING=OFF",
        "-DSPEECHSHARD_BUILD_PYTHON=ON", f"-DPython3_EXECUTABLE={sys.executable}",
        f"-DSPEECHSHARD_CUDA={'ON' if _has_cuda(settings) else 'OFF'}",
    ]  # fmt: skip
    if shutil.which("ninja") and not (build_dir / "CMakeCache.txt").exists():
        configure += ["-G", "Ninja"]
    configure += shlex.split(settings.get("cmake-args", ""))
    _run(configure, "CMake")
    jobs = str(len(os.sched_getaffinity(0)))
    targets = ["speechshard_python", "speechshard"] + ["speechshard_cuda"] * _has_cuda(settings)
    _run(["cmake", "--build", str(build_dir), "-j", jobs, "--target", *targets], "the build")
    files = {name: build_dir / "python" / NAME / name for name in FILES}
    files[COMMAND] = build_dir / "tools" / COMMAND
    if _has_cuda(settings):
        files[PLUGIN] = build_dir / PLUGIN
    return files


# ---- the wheel ----


def _hash(data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return "sha256=" + digest.rstrip(b"=").decode()


def write_wheel(path, info_dir, contents):
    """contents: {name: bytes}. Dates are fixed: the same files make the same wheel."""
    lines = [f"{name},{_hash(data)},{len(data)}\n" for name, data in contents.items()]
    record = f"{info_dir}/RECORD"
    contents = {**contents, record: ("".join(lines) + f"{record},,\n").encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data in contents.items():
            member = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (0o100755 if data[:4] == b"\x7fELF" else 0o100644) << 16
            wheel.writestr(member, data, compresslevel=9)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Write the metadata only. Without this hook, pip would build the wheel twice."""
    folder = Path(metadata_directory) / _info_dir()
    for name, data in _info_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
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
    write_wheel(Path(wheel_directory) / wheel_name, _info_dir(), contents)
    return wheel_name


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("speechshard: the sources are the repository; there is no source package")
