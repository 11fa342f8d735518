#!/bin/sh
# wheel_test.sh PYTHON [packed]: pip builds a wheel without a network, and the installed package and
# command work elsewhere. packed: the build back end packs the files of SPEECHSHARD_BUILD_DIR, and
# the unpacked files work; what a build lacks is reported in one line.
#
# The C parts are built in SPEECHSHARD_BUILD_DIR/python-wheel and kept for the next run.
set -eu
python=$1
source=${SPEECHSHARD_SOURCE_DIR:?}
build=${SPEECHSHARD_BUILD_DIR:?}
unset PYTHONPATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || exit 77
"$build/tests/make_corpus" "$work/corpus" 20
"${SPEECHSHARD_COMMAND:?}" pack "$work/corpus" -o "$work/corpus.spsh" --quiet >"$work/log"
cat >"$work/use.py" <<'EOF'
import importlib.metadata, sys, tempfile
import speechshard

dataset, prefix = sys.argv[1:3]
assert speechshard.__file__.startswith(prefix), speechshard.__file__
assert importlib.metadata.version("speechshard") == speechshard.__version__
files = {str(f) for f in importlib.metadata.files("speechshard")}
assert {"speechshard/py.typed", "speechshard/__init__.pyi", "speechshard/parquet.py", "speechshard/speechshard"} <= files, files
metadata = importlib.metadata.metadata("speechshard")
assert metadata["License-Expression"].startswith("Apache-2.0") and metadata["Summary"], metadata
scripts = [e.value for e in importlib.metadata.distribution("speechshard").entry_points if e.name == "speechshard"]
assert scripts == ["speechshard.__main__:main"], scripts
loader = speechshard.Loader(dataset)
assert sum(len(batch) for batch in loader) == len(speechshard.Dataset(dataset)) == 20
with tempfile.TemporaryDirectory() as work:
    assert speechshard.pack(sys.argv[3], work + "/a.spsh").packed == 20
    assert speechshard.verify(work + "/a.spsh").ok
    assert speechshard.dedupe(work + "/a.spsh").utterances == 20
assert callable(speechshard.featgen) and callable(speechshard.train)
EOF

# check_command COMMAND...: the words run the command of the package, with its exit status.
check_command() {
    [ "$("$@" --version)" = "$("$SPEECHSHARD_COMMAND" --version)" ]
    [ "$("$@" ls "$work/corpus.spsh" --limit 3 | wc -l)" -eq "$("$SPEECHSHARD_COMMAND" ls "$work/corpus.spsh" --limit 3 | wc -l)" ]
    status=0
    "$@" no-such-command 2>"$work/log" || status=$?
    [ "$status" -eq 2 ] || { echo "$*: exit status $status for an unknown command"; exit 1; }
}

if [ "${2:-}" = packed ]; then
    echo "-- what a build lacks"
    cat >"$work/build.py" <<'EOF'
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import build_backend

if len(sys.argv) == 2:
    print(*[build_backend._debian_package(module) for module in build_backend._modules()])
else:
    build_backend.build_wheel(sys.argv[2])
EOF
    # lacks PATTERN NAME=VALUE: with that environment, building fails with one line, which matches.
    lacks() {
        status=0
        env "$2" "$python" "$work/build.py" "$source/loader/python" "$work" >"$work/log" 2>&1 || status=$?
        if [ "$status" -ne 1 ] || [ "$(wc -l <"$work/log")" -ne 1 ] || ! grep -q -e "$1" "$work/log"; then
            cat "$work/log"
            echo "$2: exit status $status; expected one line like '$1'"
            exit 1
        fi
    }
    python=$("$python" -c 'import sys; print(sys.executable)') # which no $PATH changes
    mkdir "$work/modules" "$work/bin"
    lacks '^speechshard: .* flac>=.*: apt-get install libflac-dev .*libsndfile1-dev' "PKG_CONFIG_LIBDIR=$work/modules"
    lacks '^speechshard: building needs a C compiler: apt-get install build-essential$' CC=no-such-compiler
    lacks '^speechshard: building needs cmake, a C compiler, .*: apt-get install cmake build-essential ' "PATH=$work/bin"
    for package in $("$python" "$work/build.py" "$source/loader/python"); do
        grep -q -w -e "$package" "$source/tools/install-deps.sh" ||
            { echo "the build back end names $package, and tools/install-deps.sh does not"; exit 1; }
    done
    cat >"$work/pack.py" <<'EOF'
import pathlib, sys
backend, build, command, out = sys.argv[1:]
sys.path.insert(0, backend)
sys.dont_write_bytecode = True
import build_backend

if sys.version_info >= (3, 11):
    import tomllib

    read = tomllib.loads((pathlib.Path(backend) / "pyproject.toml").read_text())
    project = read["project"]
    nested = {f"project.{key}": project.pop(key) for key in list(project) if isinstance(project[key], dict)}
    assert build_backend._project() == {**read, **nested}, "pyproject.toml is read as something else"

folder = pathlib.Path(build) / "python" / build_backend.NAME
files = {name: folder / name for name in build_backend.FILES}
files[build_backend.COMMAND] = pathlib.Path(command)
build_backend._build = lambda build_dir, settings: files
first, second = pathlib.Path(out) / "first", pathlib.Path(out) / "second"
for where in (first, second):
    where.mkdir()
    name = build_backend.build_wheel(where)
assert (first / name).read_bytes() == (second / name).read_bytes(), "the same files make another wheel"
EOF
    echo "-- the same files make the same wheel, and its files work"
    "$python" "$work/pack.py" "$source/loader/python" "$build" "$SPEECHSHARD_COMMAND" "$work"
    "$python" -m zipfile -e "$work"/first/*.whl "$work/site"
    cd "$work"
    export PYTHONPATH="$work/site"
    "$python" use.py "$work/corpus.spsh" "$work/site" "$work/corpus"

    echo "-- the command"
    bundled=$work/site/speechshard/speechshard
    status=0
    "$python" -m speechshard --version 2>"$work/log" || status=$? # zipfile drops permissions
    [ "$status" -eq 1 ] && grep -q "cannot run .*: Permission denied; reinstall" "$work/log"
    chmod +x "$bundled"
    check_command "$python" -m speechshard
    # Python ignores SIGPIPE (13) and SIGXFSZ (25); the command must not.
    printf '#!/bin/sh\nsed -n "s/^SigIgn:[^0-9a-f]*//p" /proc/self/status\n' >"$bundled"
    ignored=$("$python" -m speechshard)
    [ $((0x$ignored & (1 << 12 | 1 << 24))) -eq 0 ] || { echo "the command ignores signals: $ignored"; exit 1; }
    exit 0
fi
if ! "$python" -m venv "$work/venv" >"$work/log" 2>&1; then
    cat "$work/log"
    echo "skipped: $python cannot make a virtual environment (Debian: python3-venv)"
    exit 77
fi
python=$work/venv/bin/python
tree() { (cd "$source/loader/python" && find . -type f ! -path '*/__pycache__/*' | LC_ALL=C sort); }
tree >"$work/before"

echo "-- pip wheel"
mkdir "$work/wheels"
"$python" -m pip wheel --no-index --quiet --disable-pip-version-check --wheel-dir "$work/wheels" \
    --config-settings "build-dir=$build/python-wheel" "$source/loader/python"
tree | diff "$work/before" - || { echo "building left files in the source tree"; exit 1; }
wheel=$(ls "$work"/wheels/*.whl)
case $wheel in
*/speechshard-*-cp39-abi3-linux_*.whl) ;;
*) echo "a strange name: $wheel" && exit 1 ;;
esac

echo "-- the same files make the same wheel"
mkdir "$work/again"
"$python" -m pip wheel --no-index --quiet --disable-pip-version-check --wheel-dir "$work/again" \
    --config-settings "build-dir=$build/python-wheel" "$source/loader/python"
cmp "$wheel" "$work"/again/*.whl

echo "-- pip install, and use it elsewhere"
"$python" -m pip install --no-index --quiet --disable-pip-version-check "$wheel"
cd "$work"
"$python" use.py "$work/corpus.spsh" "$work/venv" "$work/corpus"
check_command "$work/venv/bin/speechshard"
check_command "$python" -m speechshard
module=$(find "$work/venv" -name '_speechshard.abi3.so')
"$python" -m speechshard.parquet --help >"$work/log"
status=0
"$python" -m speechshard.parquet "$work" >"$work/log" 2>&1 || status=$?
[ "$status" -eq 1 ] && grep -q 'pip install pyarrow' "$work/log"

if [ -e "$build/tests/libtwin_plugin.so" ]; then
    echo "-- the plug-in is found beside the extension, where cuda=ON packs it"
    device='import speechshard, sys; list(speechshard.Loader(sys.argv[1], device="cuda:1", features="kaldi-fbank"))'
    status=0
    "$python" -c "$device" "$work/corpus.spsh" >"$work/log" 2>&1 || status=$?
    [ "$status" -eq 1 ] && grep -q 'plug-in was not built or not installed' "$work/log"
    cp "$build/tests/libtwin_plugin.so" "${module%/*}/libspeechshard-cuda.so"
    "$python" -c "$device" "$work/corpus.spsh"
    rm "${module%/*}/libspeechshard-cuda.so"
    echo "-- and in the package of the wheel speechshard-cuda, by the command, too"
    mkdir "${module%/*/*}/speechshard_cuda"
    cp "$build/tests/libtwin_plugin.so" "${module%/*/*}/speechshard_cuda/libspeechshard-cuda.so"
    "$python" -c "$device" "$work/corpus.spsh"
    "$work/venv/bin/speechshard" info --devices | grep -q 'twin 1'
    rm -r "${module%/*/*}/speechshard_cuda"
fi

echo "-- what it needs is on every machine with the audio libraries, and nothing of ours is visible"
if nm -D --defined-only "$module" | grep -vE ' (PyInit__speechshard|__bss_start|_edata|_end)$'; then
    echo "the symbols above are exported"
    exit 1
fi
"$python" -m pip uninstall --quiet --yes speechshard
