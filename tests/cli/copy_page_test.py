"""copy_page_test.py TOOLS_MEMORY_TESTS: the pages of plans and audits, and a picture, read by an
XML parser.

They must be well-formed, hold no markup that came out of the corpus, name no other resource, and
hold ids and texts as they are written.
"""
import pathlib
import subprocess
import tempfile

from cli_kit import COMMAND, check, check_head, equal, finish, read_page

ELEMENTS = {"html", "head", "meta", "title", "style", "body", "main", "section", "div", "h1", "h2", "h3", "p", "b", "i", "q",
            "span", "code", "pre", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "br", "bdi", "details",
            "summary", "figure", "figcaption", "svg", "rect", "line", "path", "text"}
NAMES = ["a/<script>alert(1)</script>", "b]]>\"quoted\" & 'so'", "c/plain", "d\u05e9\u05dc\u05d5\u05dd",
         "</q></svg><b>bold</b>", "one\ufffd\ttwo"]


def check_colors(root, what):
    """Each class that a drawing uses has a rule."""
    style = "".join(element.text for element in root.iter() if element.tag.endswith("style"))
    for svg in (element for element in root.iter() if element.tag.endswith("svg")):
        for part in svg.iter():
            name = part.attrib.get("class")
            check(name is None or f".{name}" in style, f"{what}: no rule for class {name}")


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([COMMAND, "unit_copy_report", folder], check=True)
    for name in ("plan.html", "audit.html"):
        root = read_page(pathlib.Path(folder) / name, ELEMENTS, name)
        check_colors(root, name)
        rows = check_head(root, name)
        equal("".join(rows["command"].itertext()), "speechshard dedupe 'x & <y>'", f"{name}: command")
        check("dataset" in rows, f"{name}: no dataset at the top")
        check("words" in [cell.get("class") for cell in root.iter()], f"{name}: a column of words is narrow")
        text = "".join(root.itertext())
        for wanted in NAMES:
            check(wanted in text, f"{name}: {wanted!r} is not on the page as it is written")
        pictures = [element for element in root.iter() if element.attrib.get("class") == "pair"]
        check(0 < len(pictures) <= 40, f"{name}: {len(pictures)} pictures")
    for name in ("empty-plan.html", "empty-audit.html"):
        read_page(pathlib.Path(folder) / name, ELEMENTS, name)
    picture = read_page(pathlib.Path(folder) / "pair.svg", ELEMENTS, "pair.svg")
    check_colors(picture, "pair.svg")
    check(picture.tag == "{http://www.w3.org/2000/svg}svg", f"the picture is {picture.tag}")
finish()
