"""Dataset.to_arrow and to_pandas with the real libraries."""

import sys
import unittest

import support  # first: it skips if the package is missing
import speechshard

try:
    import pandas  # noqa: F401
    import pyarrow  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}; tools/install-python.sh frameworks installs it", file=sys.stderr)
    sys.exit(77)


class TablesTest(unittest.TestCase):
    def test_rows_are_utterances(self):
        dataset = speechshard.Dataset(support.make_dataset("tables", 20))
        frame, table = dataset.to_pandas(), dataset.to_arrow()
        self.assertEqual(list(frame.columns), table.column_names)
        for name in ("id", "text", "speaker", "duration", "samples", "split", "skipped"):
            want = [getattr(utterance, name) for utterance in dataset]
            self.assertEqual(frame[name].tolist(), want)
            self.assertEqual(table[name].to_pylist(), want)
        self.assertEqual(frame["extras"].tolist(), [{}] * 20)
        self.assertEqual(table["extras"].to_pylist(), ["{}"] * 20)
        self.assertEqual(dataset[3:5].to_pandas()["position"].tolist(), [3, 4])


if __name__ == "__main__":
    unittest.main()
