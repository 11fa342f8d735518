#!/bin/sh
# Builds the documentation as a static site in build/site, and fails if a link or an anchor leads nowhere.
#
#     tools/site.sh            (python3 -m http.server -d build/site shows it)
#
# mkdocs-material comes from PyPI, into build/site-tools. Exits with 77 if it cannot be installed
# within a minute.
set -eu
cd "$(dirname "$0")/.."

pinned="mkdocs==1.6.1 mkdocs-material==9.8.2 pymdown-extensions==13.1.2"
python=build/site-tools/bin/python
if [ "$(cat build/site-tools/pinned 2>/dev/null)" != "$pinned" ]; then
    rm -rf build/site-tools
    python3 -m venv build/site-tools
    # shellcheck disable=SC2086 # a list of packages
    timeout 60 "$python" -m pip install --quiet --disable-pip-version-check --only-binary :all: $pinned || {
        echo "site.sh: cannot install $pinned; the site is not built" >&2
        exit 77
    }
    echo "$pinned" >build/site-tools/pinned
fi

# Copy the Markdown files and the files that they link to, with their paths. Linked folders are not
# copied as a whole: each has a README.md, which is a page already, or nothing to show.
rm -rf build/site-source build/site-config
mkdir -p build/site-source build/site-config
"$python" - <<'END' | tar -cf - --files-from - | tar -xf - -C build/site-source
import os
import sys
from pathlib import Path

sys.path.insert(0, "tests/lint")
sys.dont_write_bytecode = True
import subprocess

from check_links import LINK, prose

listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
pages = subprocess.run(listing, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
files = set(pages)
for page in pages:
    for target in LINK.findall(prose(Path(page))):
        file = os.path.normpath(os.path.join(os.path.dirname(page), target.partition("#")[0]))
        if os.path.isfile(file):
            files.add(file)
print("\n".join(sorted(files)))
END
cp tools/site/mkdocs.yml build/site-config/mkdocs.yml
# Do not use --quiet: mkdocs then does not count the warnings that --strict turns into errors.
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --strict --config-file build/site-config/mkdocs.yml >build/site.log 2>&1 || {
    cat build/site.log
    exit 1
}
echo "Built build/site/index.html"
