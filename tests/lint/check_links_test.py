"""check_links_test.py: check_links.py reports each kind of broken link, and nothing in good
pages."""

import subprocess
import sys
import tempfile
from pathlib import Path

CHECK = Path(__file__).with_name("check_links.py")
GOOD = "# Two words\n\n## A `b` (c)\n\n[a](#two-words) [b](b/c.md#a-b-c) [d](https://x.org/#y) `[e](none.md)`\n"
CASES = (
    ({"a.md": GOOD, "b/c.md": "# A `b`: c\n"}, None),
    ({"a.md": "[x](gone.md)\n"}, "a.md: gone.md: no such file"),
    ({"a.md": "# A\n\n[x](#b)\n"}, "a.md: #b: no such heading"),
    ({"a.md": "[x](b.md#c)\n", "b.md": "```\n# C\n```\n"}, "a.md: b.md#c: no such heading"),
)


def main():
    for pages, want in CASES:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in pages.items():
                path = Path(folder, name)
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, CHECK, folder], stdout=subprocess.PIPE, text=True)
        good = done.returncode == 0 if want is None else done.returncode == 1 and want in done.stdout
        if not good:
            print(f"FAILED: want {want!r}, got exit {done.returncode}:\n{done.stdout}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
