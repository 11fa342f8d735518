#!/usr/bin/env python3
"""check_abi.py ROOT: every public structure can be kept (docs/ARCHITECTURE.md, "The ABI").

- Its first field is struct_size, and its header has an INIT macro; or tests/unit/tools/unit_abi.c
  lists it as FROZEN or LENT, once.
- Its fields hold other public structures by value only if these are frozen.

Headers that say "Not for users" are left out. Prints each offense and exits 1.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
listed = re.findall(r"^(FROZEN|LENT)\((\w+)", (root / "tests/unit/tools/unit_abi.c").read_text(), re.M)
frozen = {name for kind, name in listed if kind == "FROZEN"}
lent = {name for kind, name in listed if kind == "LENT"}
structures, offenses = {}, []

for header in sorted(root.glob("**/include/speechshard/*.h")):
    text = header.read_text()
    if "Not for users" in text or "build" in header.relative_to(root).parts:
        continue
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    for name, body in re.findall(r"typedef struct (spsh_\w+) \{(.*?)\} \1;", text, re.S):
        structures[name] = [" ".join(field.split()) for field in body.split(";") if field.strip()]
        sized = structures[name][0] == "size_t struct_size"
        if sized and f"#define {name.upper()}_INIT" not in text:
            offenses.append(f"{header}: {name} begins with struct_size and has no {name.upper()}_INIT")
        if sized + (name in frozen) + (name in lent) != 1:
            offenses.append(f"{header}: {name} is none, or more than one, of sized, frozen and lent")

for name, fields in structures.items():
    for field in fields:
        held = re.match(r"(spsh_\w+) \w", field)
        if held and held.group(1) in structures and held.group(1) not in frozen:
            offenses.append(f"{name} holds {held.group(1)}, which is not frozen, by value")
for name in sorted(name for _, name in listed if name not in structures):
    offenses.append(f"unit_abi.c lists {name}, which no header has")

if not structures:
    offenses.append(f"{root}: no public structure was found")
print("\n".join(offenses))
sys.exit(1 if offenses else 0)
