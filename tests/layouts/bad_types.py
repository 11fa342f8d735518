"""Rows with a value of a type that its field must not have, for the fixtures of JSON layouts."""
import copy

WRONG = {"text": (3, True, ["x"], {"a": 1}), "name": (True, ["x"], {"a": 1}), "list": (3, "x", {"a": 1}),
         "object": (3, "x", ["x"])}


def bad_rows(row, fields):
    """Copies of a row, each with one wrong value. fields: a path of keys, joined by dots -> a key
    of WRONG."""
    rows = []
    for field, kind in fields.items():
        for value in WRONG[kind]:
            bad = copy.deepcopy(row)
            *outer, last = field.split(".")
            inner = bad
            for key in outer:
                inner = inner[int(key) if isinstance(inner, list) else key]
            inner[last] = value
            rows.append(bad)
    return rows
