#!/usr/bin/env python3
"""check_rooms_test.py: each kind of offense, planted by itself, is reported; a clean tree is
not."""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).with_name("check_rooms.py")
CLEAN = {
    "tests/lint/rooms.txt": "[shardfmt/src]\nbase:\nio: base\nformat: io\n[tools]\ncommon:\nsrc: common\n",
    "docs/ROOMS.md": "`shardfmt/src/base` `shardfmt/src/io` `shardfmt/src/format` `tools/common` `tools/src`\n",
    "shardfmt/include/speechshard/base.h": "typedef struct spsh__public {\n    int x;\n} spsh__public;\n",
    "shardfmt/src/base/buffer.h": "typedef struct spsh__buffer {\n    int x;\n} spsh__buffer;\n",
    "shardfmt/src/base/buffer.c": '#include "buffer.h"\n#include "speechshard/base.h"\n',
    "shardfmt/src/io/io.h": "",
    "shardfmt/src/io/io.c": '#include "base/buffer.h"\n#include "io.h"\n',
    "shardfmt/src/format/shard.c": '#include "base/buffer.h"\n#include "io/io.h"\n',
    "tools/common/page.c": "",
    "tools/common/page.h": "",
    "tools/src/main.c": '#include "common/page.h"\n',
    "tests/unit/test_io.c": '#include "io/io.h"\n',
}
failures = 0


def plant(what, want, changes):
    """A clean tree with these files written over it is reported with `want`; None: it is not."""
    global failures
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**CLEAN, **changes}.items():
            if text is None:
                continue
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, CHECK, folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    good = done.returncode == 0 if want is None else done.returncode == 1 and want in done.stdout
    if not good:
        failures += 1
        print(f"FAILED: {what}: exit {done.returncode}, want {want!r} in:\n{done.stdout}")


law = CLEAN["tests/lint/rooms.txt"]
plant("a clean tree", None, {})
plant("a room that looks up", "may not include shardfmt/src/io/io.h",
      {"shardfmt/src/base/buffer.c": '#include "io/io.h"\n'})
plant("the same in a header", "may not include shardfmt/src/io/io.h", {"shardfmt/src/base/buffer.h": '#include "io/io.h"\n'})
plant("a comment is no include", None, {"shardfmt/src/base/buffer.c": '/* not\n#include "io/io.h"\n*/\n'})
plant("another part", "is no header of this part", {"tools/src/main.c": '#include "base/buffer.h"\n'})
plant("another part by its path", "is no header of this part", {"tools/src/main.c": '#include "shardfmt/src/base/buffer.h"\n'})
plant("another part by a path upward", "climbs out", {"tools/src/main.c": '#include "../../shardfmt/src/base/buffer.h"\n'})
plant("another part in C++", "is no header of this part", {"tools/src/x.cc": '#include "base/buffer.h"\n'})
plant("a path out of the room", "climbs out", {"shardfmt/src/io/io.c": '#include "../base/buffer.h"\n'})
plant("a header of another room by its bare name", "is no header of this part", {"shardfmt/src/io/io.c": '#include "buffer.h"\n'})
plant("its own room named", "in the same room", {"shardfmt/src/io/io.c": '#include "io/io.h"\n'})
plant("a loop", "has a loop", {"tests/lint/rooms.txt": law.replace("base:", "base: format")})
plant("a room that names itself", "names itself", {"tests/lint/rooms.txt": law.replace("base:", "base: base")})
plant("a room that is not there", "has no line", {"tests/lint/rooms.txt": law.replace("base:", "base: cellar")})
plant("a line without a room", "which has no source", {"tests/lint/rooms.txt": law + "attic:\n"})
plant("a folder without a line", "has no line in rooms.txt", {"shardfmt/src/attic/x.c": ""})
plant("a file beside the rooms", "has no line in rooms.txt", {"shardfmt/src/x.c": ""})
plant("a room nobody describes", "no sentence about `tools/src`", {"docs/ROOMS.md": "`shardfmt/src/base` "
      "`shardfmt/src/io` `shardfmt/src/format` `tools/common`\n"})
plant("a crowded room", "more than 30", {f"shardfmt/src/io/f{number}.c": "" for number in range(30)})
plant("one name in two rooms", "one name twice, page.c", {"shardfmt/src/io/page.c": ""})
plant("one name in a room and a test", "one name twice, io.c", {"tests/unit/io.c": ""})
plant("one struct in two rooms", "one type twice, spsh__buffer",
      {"tools/common/page.c": "struct spsh__buffer {\n    int y;\n};\n"})
plant("a public struct once more", "one type twice, spsh__public", {"tools/common/page.c": "typedef uint32_t spsh__public;\n"})
plant("one function type in two rooms", "one type twice, spsh__call_fn",
      {"tools/common/page.c": "typedef void (*spsh__call_fn)(int);\n",
       "shardfmt/src/io/io.c": "typedef int (*spsh__call_fn)(void);\n"})
plant("a type that is declared twice", None, {"tools/common/page.c": "typedef struct spsh__buffer spsh__buffer;\n"})
plant("nothing to check", "no source was found", {name: None for name in CLEAN if name.endswith((".c", ".h"))})
sys.exit(1 if failures else 0)
