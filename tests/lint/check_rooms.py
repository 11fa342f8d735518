#!/usr/bin/env python3
"""check_rooms.py ROOT: every file is in a room and includes only headers that tests/lint/rooms.txt
allows.

It also checks that
- a header is included as "file.h" from its own room, and as "room/file.h" from another;
- no two files of the repository's C sources have the same name;
- no two headers or sources define a type spsh__x of the same name;
- a room has at most 30 .c files, and docs/ROOMS.md names it.

Prints each offending line and exits 1. A tree in which nothing is found to check is an offense,
too.
"""
import collections
import pathlib
import re
import sys

FILES_MAX = 30
PARTS = ("shardfmt", "featgen", "loader", "train", "tools")
CODE = {".c", ".cc", ".h", ".cu", ".cuh"}
# Include folders of each part: the -I options that its CMakeLists.txt sets.
ROOTS = {
    "shardfmt": ["shardfmt/src"],
    "featgen": ["featgen/src"],
    "loader": ["loader/src"],
    "train": ["train/src"],
    "tools": ["tools", "tools/src", "tools/pack/src", "tools/dedup/src"],
}
# backend.c opens all backends by name: that is the purpose of a table.
EXCEPTIONS = {("train/src/backend/backend.c", "train/src/backend_cuda"),
              ("train/src/backend/backend.c", "train/src/backend_cpu"),
              ("train/src/backend/backend.c", "train/src/backend_reference")}

offenses = 0


def offend(what):
    global offenses
    offenses += 1
    print(what)


def read_law(path):
    """{room: the rooms that its line names}, all with the folder of their part."""
    law, part = {}, None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if line.startswith("["):
            part = line.strip("[]")
        elif line:
            room, _, named = line.partition(":")
            law[f"{part}/{room}"] = [f"{part}/{name}" for name in named.split()]
            if f"{part}/{room}" in law[f"{part}/{room}"]:
                offend(f"{path}:{number}: {room} names itself")
    for room, named in law.items():
        for other in named:
            if other not in law:
                offend(f"{path}: {room} names {other}, which has no line")
    return law


def close(law):
    """{room: every room it may include}; a loop is an offense."""
    closed = {}

    def visit(room, way):
        if room in way:
            offend("rooms.txt has a loop: " + " -> ".join(way[way.index(room):] + [room]))
            return set()
        if room not in closed:
            reached = {room}
            for other in law.get(room, []):
                reached |= visit(other, way + [room])
            closed[room] = reached
        return closed[room]

    for room in law:
        visit(room, [])
    return closed


def without_comments(text):
    return re.sub(r"/\*.*?\*/", lambda found: re.sub(r"[^\n]", " ", found.group(0)), text, flags=re.S)


def find_header(root, path, spelled):
    """The private header that an include refers to, or None for a public header or one of a
    library."""
    part = path.parts[0]
    own = root / path.parent / spelled
    if own.is_file():
        return (path.parent / spelled)
    for folder in ["loader/python/src"] if path.parts[:2] == ("loader", "python") else ROOTS[part]:
        if (root / folder / spelled).is_file():
            return pathlib.PurePath(folder) / spelled
    return None


def check_includes(root, path, text, allowed):
    room = str(path.parent)
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if found is None or found.group(1).startswith("speechshard/"):
            continue
        where, spelled = f"{path}:{number}", found.group(1)
        header = find_header(root, path, spelled)
        if header is None:
            offend(f'{where}: "{spelled}" is no header of this part')
        elif ".." in header.parts:
            offend(f'{where}: "{spelled}" climbs out of its folder')
        elif str(header.parent) == room and "/" in spelled:
            offend(f'{where}: "{spelled}" is in the same room: "{header.name}"')
        elif str(header.parent) not in allowed and (str(path), str(header.parent)) not in EXCEPTIONS:
            offend(f"{where}: {room} may not include {header}")


def find_types(text):
    """The types spsh__x that a file defines."""
    found = set(re.findall(r"\b(?:struct|enum|union)\s+(spsh__\w+)\s*\{", text))
    found |= set(re.findall(r"^\}\s*(spsh__\w+);", text, flags=re.M))
    found |= set(re.findall(r"^typedef\s+[^;{}]*?\(\*?(spsh__\w+)\)", text, flags=re.M))
    for words in re.findall(r"^typedef\s+([^;{}()]+);", text, flags=re.M):
        names = words.split()
        if names[-1].startswith("spsh__") and not (names[0] == "struct" and names[1:] == [names[-1]] * 2):
            found.add(names[-1])
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    law = read_law(root / "tests/lint/rooms.txt")
    closed = close(law)
    described = (root / "docs/ROOMS.md").read_text()
    product = sorted(path.relative_to(root) for part in PARTS for path in (root / part).rglob("*")
                     if path.suffix in CODE and "include" not in path.parts)
    in_rooms = set(product)
    others = sorted(path.relative_to(root) for part in PARTS + ("tests", "bench") for path in (root / part).rglob("*")
                    if path.suffix in CODE and path.relative_to(root) not in in_rooms)
    if not product:
        offend("no source was found")

    names, rooms, types = collections.defaultdict(list), collections.Counter(), collections.defaultdict(list)
    for path in product + others:
        names[path.name].append(path)
    for path in product:
        room = str(path.parent)
        rooms[room] += path.suffix in (".c", ".cc")
        if room not in law:
            offend(f"{path}: {room} has no line in rooms.txt")
            continue
        text = without_comments((root / path).read_text())
        check_includes(root, path, text, closed[room])
        for name in find_types(text):
            types[name].append(path)
    for path in others:
        if path.parts[0] in PARTS:
            for name in find_types(without_comments((root / path).read_text())):
                types[name].append(path)

    for room in law:
        if room not in rooms:
            offend(f"rooms.txt has a line for {room}, which has no source")
        elif rooms[room] > FILES_MAX:
            offend(f"{room} has {rooms[room]} .c files, more than {FILES_MAX}")
        if f"`{room}`" not in described:
            offend(f"docs/ROOMS.md has no sentence about `{room}`")
    for what, table in (("name", names), ("type", types)):
        for name, paths in sorted(table.items()):
            if len(paths) > 1:
                offend(f"one {what} twice, {name}: " + " ".join(map(str, paths)))
    return 1 if offenses else 0


sys.exit(main())
