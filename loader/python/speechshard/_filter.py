"""Expressions over the properties of an utterance, for Dataset.filter."""

import ast
import difflib

FIELDS = (
    "id", "text", "speaker", "language", "domain", "split", "source", "document", "extras",
    "sample_rate_hz", "channels", "samples", "position", "duration", "skipped",
)  # fmt: skip
_FUNCTIONS = {"len": len, "lower": str.lower, "upper": str.upper}
_NODES = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add,
    ast.Sub, ast.Mult, ast.Div, ast.Mod, ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt,
    ast.GtE, ast.In, ast.NotIn, ast.Name, ast.Load, ast.Constant, ast.Tuple, ast.List, ast.Set,
    ast.Call, ast.Subscript, ast.Index,
)  # fmt: skip


class _Names(dict):
    """The names of an expression, read from one utterance when they are used."""

    def __init__(self, utterance):
        super().__init__(_FUNCTIONS)
        self._utterance = utterance

    def __missing__(self, name):
        return getattr(self._utterance, name)


def compile_filter(expression):
    """Return a function of an Utterance. Raises ValueError for anything but a plain expression.

    Allowed are properties of an Utterance, constants, `and or not in`, comparisons, arithmetic,
    `extras["column"]`, and the functions len, lower, and upper.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"filter: {expression!r}: {error.msg}") from None
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise ValueError(f"filter: {expression!r}: {type(node).__name__} is not allowed")
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS:
                raise ValueError(f"filter: {expression!r}: only len, lower, and upper can be called")
        elif isinstance(node, ast.Name) and node.id not in (*FIELDS, *_FUNCTIONS):
            close = difflib.get_close_matches(node.id, FIELDS, 1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(FIELDS)}"
            raise ValueError(f"filter: an utterance has no {node.id!r}{hint}")
    code = compile(tree, "<filter>", "eval")
    return lambda utterance: eval(code, {"__builtins__": {}}, _Names(utterance))
