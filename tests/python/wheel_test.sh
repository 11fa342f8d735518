#!/bin/sh
# wheel_test.sh PYTHON [packed]: pip builds a wheel without a network, and the installed package
# works elsewhere. packed: the build back end packs the files of SPEECHSHARD_BUILD_DIR, and the
# unpacked files work.
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
import importlib.metadata, sys
import speechshard

dataset, prefix = sys.argv[1:]
assert speechshard.__file__.startswith(prefix), speechshard.__file__
assert importlib.metadata.version("speechshard") == speechshard.__version__
files = {str(f) for f in importlib.metadata.files("speechshard")}
assert {"speechshard/py.typed", "speechshard/__init__.pyi", "speechshard/parquet.py"} <= files, files
loader = speechshard.Loader(dataset)
assert sum(len(batch) for batch in loader) == len(speechshard.Dataset(dataset)) == 20
EOF

if [ "${2:-}" = packed ]; then
    cat >"$work/pack.py" <<'EOF'
import pathlib, sys
backend, build, out = sys.argv[1:]
sys.path.insert(0, backend)
sys.dont_write_bytecode = True
import build_backend

folder = pathlib.Path(build) / "python" / build_backend.NAME
build_backend._build = lambda build_dir, settings: {name: folder / name for name in build_backend.FILES}
first, second = pathlib.Path(out) / "first", pathlib.Path(out) / "second"
for where in (first, second):
    where.mkdir()
    name = build_backend.build_wheel(where)
assert (first / name).read_bytes() == (second / name).read_bytes(), "the same files make another wheel"
EOF
    "$python" "$work/pack.py" "$source/loader/python" "$build" "$work"
    "$python" -m zipfile -e "$work"/first/*.whl "$work/site"
    cd "$work"
    PYTHONPATH=$work/site "$python" use.py "$work/corpus.spsh" "$work/site"
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
"$python" use.py "$work/corpus.spsh" "$work/venv"
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
fi

echo "-- what it needs is on every machine with the audio libraries, and nothing of ours is visible"
if nm -D --defined-only "$module" | grep -vE ' (PyInit__speechshard|__bss_start|_edata|_end)$'; then
    echo "the symbols above are exported"
    exit 1
fi
"$python" -m pip uninstall --quiet --yes speechshard
