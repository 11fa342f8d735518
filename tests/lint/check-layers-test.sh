#!/bin/sh
# check-layers-test.sh: each kind of offense, planted by itself, is reported; a clean tree is not.
set -eu
check=$(cd "$(dirname "$0")" && pwd)/check-layers.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
result=0

plant() { # plant WANTED_EXIT FILE TEXT
    rm -rf "$tree/root"
    mkdir -p "$tree/root/shardfmt/src/base" "$tree/root/tools/src" "$tree/root/tools/pack/src" "$tree/root/train/src/comm" "$tree/root/featgen/src/cuda" "$tree/root/loader/src" "$tree/root/loader/python/src"
    echo '#include "base_internal.h"' >"$tree/root/shardfmt/src/x.c"
    : >"$tree/root/shardfmt/src/base_internal.h"
    echo '#include "speechshard/base.h"' >"$tree/root/tools/src/x.c"
    echo "$3" >>"$tree/root/$2"
    status=0
    sh "$check" "$tree/root" >"$tree/output" || status=$?
    if [ "$status" -ne "$1" ]; then
        echo "FAILED: want exit $1, got $status for '$3' in $2"
        cat "$tree/output"
        result=1
    fi
}
plant 0 shardfmt/src/x.c '/* as it should be */'
plant 1 shardfmt/src/x.c '#include "speechshard/loader.h"'
plant 1 shardfmt/src/x.c 'strcpy(a, b);'
plant 1 shardfmt/src/x.c 't = localtime(&now);'
plant 1 tools/src/x.c 'x = strtod(text, NULL);'
plant 0 shardfmt/src/base/decimal.c 'x = strtod_l(copy, NULL, c);'
plant 0 shardfmt/src/x.c 't = localtime_r(&now, &fields);'
plant 1 shardfmt/src/x.c 'p = malloc (1);'
plant 1 shardfmt/src/base_internal.h 'p = strdup(q);'
plant 0 shardfmt/src/base/base.c 'p = malloc(1);'
plant 1 shardfmt/src/x.c 'printf("x");'
plant 0 shardfmt/src/x.c 'snprintf(a, 1, "x");'
plant 0 tools/src/x.c 'printf("x");'
plant 1 tools/pack/src/x.c 'printf("x");'
plant 1 tools/pack/src/x.c '#include "speechshard/loader.h"'
plant 1 tools/pack/src/x.c '#include "speechshard/dedup.h"'
plant 0 tools/pack/src/x.c '#include "speechshard/dataset.h"'
plant 1 featgen/src/x.c '#include "speechshard/manifest.h"'
plant 0 featgen/src/x.c '#include "speechshard/base.h"'
plant 1 featgen/src/x.c 'p = malloc(1);'
plant 0 featgen/src/cuda/x.cu '#include <cuda_runtime.h>'
plant 1 featgen/src/x.cu '#include <cuda_runtime.h>'
plant 0 featgen/src/cuda/x.h '#include <cuda_fp16.h>'
plant 1 featgen/src/cuda/x.c '#include <cuda_runtime.h>'
plant 1 featgen/src/x.h '#include <cuda_fp16.h>'
plant 1 featgen/src/cuda/x.cu '#include "speechshard/loader.h"'
plant 1 shardfmt/src/x.c '#include "speechshard/train.h"'
plant 1 featgen/src/x.c '#include "speechshard/settings.h"'
plant 1 loader/src/x.c '#include "speechshard/train.h"'
plant 1 loader/src/x.c '#include "speechshard/pack.h"'
plant 1 loader/src/x.c '#include "featgen/x.h"'
plant 0 loader/python/src/x.c '#include "speechshard/train.h"'
plant 1 loader/python/src/x.c '#include "train/x.h"'
plant 0 train/src/x.c '#include "speechshard/loader.h"'
plant 1 train/src/x.c '#include "loader/src/queue.h"'
plant 1 train/src/x.c '#include "tools/src/cli.h"'
plant 1 train/src/x.c 'printf("x");'
plant 1 train/src/x.c '    return getenv(name);'
plant 0 train/src/comm/launch.c '    return getenv(name);'
plant 1 train/src/comm/launch.c 'exit(1);'
plant 0 train/src/x.c 'p = malloc(1);'
plant 1 train/src/x.cc 'int x;'
exit $result
