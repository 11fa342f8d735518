"""recipes/notebook/tour.ipynb: its cells run in order, as a notebook runs them, and find the
planted leak."""

import ast
import json
import os
import sys
import unittest
from pathlib import Path

import support  # first: it skips if the package is missing

try:
    import numpy  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

NOTEBOOK = Path(__file__).parents[2] / "recipes/notebook/tour.ipynb"


def run_cell(source, names):
    """Run a cell. Returns what a notebook shows: HTML or text of the last expression, else None."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    return value._repr_html_() if hasattr(value, "_repr_html_") else value and repr(value)


class NotebookTest(unittest.TestCase):
    def test_cells(self):
        cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        self.assertEqual([c["outputs"] for c in cells if c["cell_type"] == "code" and c["outputs"]], [])
        back = os.getcwd()
        os.chdir(support.work_dir())
        self.addCleanup(os.chdir, back)
        names, shown = {}, []
        for cell in cells:
            if cell["cell_type"] == "code":
                shown.append(run_cell("".join(cell["source"]), names))
        html = [text for text in shown if text and "<audio" in text]
        self.assertEqual(len(html), 2)  # a table of utterances, and one utterance
        self.assertIn("<svg", html[1])
        self.assertEqual((names["packed"].packed, names["packed"].rejected), (61, 0))
        self.assertEqual(names["before"].splits[0].leaks["recording"].utterances, 1)
        self.assertFalse(names["before"].ok)
        decisions = [[(m.id, m.decision) for m in c.members] for c in names["plan"].clusters]
        self.assertIn([("song-05", "keep"), ("crawl", "drop")], decisions)
        self.assertEqual(names["plan"].dropped, 1)
        self.assertEqual(names["after"].splits[0].leaks["recording"].utterances, 0)
        self.assertTrue(names["why"].equal_samples_trimmed)
        self.assertTrue(Path("pair.svg").stat().st_size > 0)
        self.assertTrue(names["rest"] and names["same"])


if __name__ == "__main__":
    unittest.main()
