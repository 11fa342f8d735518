#!/bin/sh
# use-wheel.sh: a user's first commands with a wheel. bare-wheel-test.sh runs it as root of a bare
# system, with the wheels, a folder `corpus`, its packed form `expected.spsh`, use_wheel.py, and
# docs/how-to/install.md next to it.
set -eu
cd /files

echo "-- $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release), $(python3 --version), $(getconf GNU_LIBC_VERSION)"
python3 -m venv v
v/bin/pip install --no-index --quiet speechshard-*.whl
v/bin/speechshard pack corpus -o d.spsh --quiet >pack.txt
v/bin/python -c '
import speechshard
batch = next(iter(speechshard.Loader("d.spsh", max_seconds=60, output="int16")))
samples = memoryview(batch.audio)
assert len(batch) > 0 and len(samples) == sum(batch.lengths.tolist()) and any(samples), batch
print(len(batch), "utterances,", len(samples), "samples")
'
times >times.txt # not in a pipe, whose shell has used no time
sed -n '2s/^/   processor time so far, user and system: /p' times.txt

# The audio libraries of the wheel give the bits of Debian's, also where they change the rate.
v/bin/speechshard pack corpus -o resampled.spsh --rate 16000 --codec pcm --quiet >/dev/null
diff -r expected.spsh resampled.spsh
v/bin/python use_wheel.py 2>use_wheel.log || { cat use_wheel.log; exit 1; }

# The commands with which the page of the installation ends.
awk '/^## Check it/ {here = 1} /^```/ {code = here && /sh$/; next} code' install.md >check.sh
grep -q import check.sh
PATH=/files/v/bin:$PATH sh -e check.sh >check.txt || { cat check.txt; exit 1; }

# The same command, its exit status, and the other parts of the libraries.
[ "$(v/bin/python -m speechshard --version)" = "$(v/bin/speechshard --version)" ]
status=0
v/bin/speechshard no-such-command 2>message.txt || status=$?
[ "$status" -eq 2 ]
v/bin/speechshard verify d.spsh --quiet
v/bin/speechshard export d.spsh --help >/dev/null
v/bin/speechshard ls d.spsh --limit 1 >ls.txt
[ -s ls.txt ]
v/bin/speechshard dedupe d.spsh -o d.plan >dedupe.txt
printf '%s\n' "vocabulary: letters" "features: kaldi-fbank,mel_count=16" "data:" "  train: d.spsh" "  max_padded_seconds: 60" \
    "model:" "  preset: ds2-tiny" "  hidden: 8" "train:" "  epochs: 1" >train.yaml
v/bin/speechshard train train.yaml --make-vocab >/dev/null
v/bin/speechshard train train.yaml -o run --quiet >/dev/null
[ -e run/latest ]
mkdir meeting
for rank in 0 1; do # without MPI
    RANK=$rank WORLD_SIZE=2 v/bin/speechshard train train.yaml -o run2 --quiet --rendezvous file:///files/meeting >/dev/null &
done
wait
[ -e run2/latest ]

for _ in 1 2 3 4 5; do
    v/bin/python -X importtime -c 'import speechshard' 2>&1 | sed -n 's/.*| *\([0-9]*\) | speechshard$/\1/p'
done | sort -n | sed -n '1s/.*/   import: & to/p;$s/.*/   & microseconds/p' | paste -sd ' '

for plugin in speechshard_cuda-*.whl; do
    [ -e "$plugin" ] || continue
    v/bin/speechshard info --devices | grep 'plug-in was not built or not installed' >devices.txt
    v/bin/pip install --no-index --quiet "$plugin"
    v/bin/speechshard info --devices >devices.txt
    grep -e 'no NVIDIA driver' devices.txt || { cat devices.txt; exit 1; }
    v/bin/pip uninstall --quiet --yes speechshard-cuda
done
v/bin/pip uninstall --quiet --yes speechshard
if ls -d v/bin/speechshard v/lib/python3*/site-packages/speechshard* 2>/dev/null; then
    echo "the files above remain"
    exit 1
fi
