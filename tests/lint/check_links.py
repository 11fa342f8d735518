"""check_links.py [ROOT]: every link of a Markdown file to a file or a heading of this tree must
exist.

Reads all Markdown files outside build and hidden folders. Links to other hosts are not followed.
Heading anchors are those of GitHub. Exit status 1 and one line per broken link.
"""

import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote

LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)")
CODE = re.compile(r"^(```|~~~).*?^\1\s*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def prose(path):
    return CODE.sub("``", path.read_text(encoding="utf-8"))


def anchors(path):
    """GitHub's anchors: lower case, blanks to hyphens, punctuation removed, repetitions
    numbered."""
    found, seen = set(), {}
    text = re.sub(r"^(```|~~~).*?^\1\s*$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    for heading in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", text, re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = seen.get(name, 0)
        seen[name] = number + 1
        found.add(f"{name}-{number}" if number else name)
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def pages(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "build" and not name.startswith("."))
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".md"))


def problems(root):
    for path in pages(root):
        name = path.relative_to(root)
        for target in LINK.findall(prose(path)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            file, _, anchor = unquote(target).partition("#")
            linked = (path.parent / file).resolve() if file else path
            if not linked.exists():
                yield f"{name}: {target}: no such file"
            elif anchor and linked.suffix == ".md" and anchor not in anchors(linked):
                yield f"{name}: {target}: no such heading"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(problems(root))
    print("\n".join(found) if found else "All links exist.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
