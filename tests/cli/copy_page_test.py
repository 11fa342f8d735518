"""copy_page_test.py UNIT_COPY_REPORT: the pages of plans and audits, and a picture, as a reader of XML sees them.

They must be well-formed, hold no markup that came out of the corpus, name no other resource, and hold ids and texts as
they are written.
"""
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

ALLOWED = {"html", "head", "meta", "title", "style", "body", "main", "section", "div", "h1", "h2", "h3", "p", "b", "i", "q",
           "span", "code", "pre", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "br", "bdi", "details",
           "summary", "figure", "figcaption", "svg", "rect", "line", "path", "text"}
NAMES = ["a/<script>alert(1)</script>", "b]]>\"quoted\" & 'so'", "c/plain", "d\u05e9\u05dc\u05d5\u05dd",
         "</q></svg><b>bold</b>", "one\ufffd\ttwo"]
failures = 0


def check(good, what):
    global failures
    if not good:
        failures += 1
        print("FAILED:", what)


def check_page(path):
    content = path.read_text(encoding="utf-8")
    root = ElementTree.fromstring(content.encode())
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    check(tags <= ALLOWED, f"{path.name}: elements {tags - ALLOWED}")
    names = {name for element in root.iter() for name in element.attrib}
    check(not [name for name in names if name.startswith("on") or name in ("href", "src")],
          f"{path.name}: attributes {names}")
    for own in ("http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"):
        content = content.replace(own, "")
    check("http" not in content, f"{path.name} names another resource")
    check("url(" not in content and "@import" not in content, f"{path.name}: its style names another resource")
    return root


def check_colors(root, what):
    """Each class that a drawing uses has a rule."""
    style = "".join(element.text for element in root.iter() if element.tag.endswith("style"))
    for svg in (element for element in root.iter() if element.tag.endswith("svg")):
        for part in svg.iter():
            name = part.attrib.get("class")
            check(name is None or f".{name}" in style, f"{what}: no rule for class {name}")


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.argv[1], folder], check=True)
    for name in ("plan.html", "audit.html"):
        root = check_page(pathlib.Path(folder) / name)
        check_colors(root, name)
        text = "".join(root.itertext())
        for wanted in NAMES:
            check(wanted in text, f"{name}: {wanted!r} is not on the page as it is written")
        pictures = [element for element in root.iter() if element.attrib.get("class") == "pair"]
        check(0 < len(pictures) <= 40, f"{name}: {len(pictures)} pictures")
    for name in ("empty-plan.html", "empty-audit.html"):
        check_page(pathlib.Path(folder) / name)
    picture = check_page(pathlib.Path(folder) / "pair.svg")
    check_colors(picture, "pair.svg")
    check(picture.tag == "{http://www.w3.org/2000/svg}svg", f"the picture is {picture.tag}")
sys.exit(failures > 0)
