"""Rows of tests/measured as training cases."""
import gzip
import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "real"))

from row_case import training_case


def row(name):
    for path in sorted((ROOT / "tests" / "measured").glob("ladder*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                found = json.loads(line)
                if found["id"] == name:
                    return found["case"]
    raise KeyError(name)


class RowsTest(unittest.TestCase):
    def test_the_sample_can_be_expressed(self):
        for name in (ROOT / "tests" / "real" / "rows.txt").read_text(encoding="utf-8").split():
            with self.subTest(name):
                made = training_case(row(name))
                with open(ROOT / "tests" / "golden" / "torch" / "fsdp.json", encoding="utf-8") as file:
                    golden = json.load(file)
                self.assertLessEqual(set(made["plan"]), set(golden["plan"]))

    def test_sharding(self):
        plan = training_case(row("ladder/llama-3.2-1b/hsdp2x8"))["plan"]
        self.assertEqual((plan["runtime"], plan["fsdp"]["version"], plan["fsdp"]["replicas"]), ("fsdp", 2, 2))
        self.assertFalse(plan["fsdp"]["shard_decoder"])

    def test_an_unknown_key_is_refused(self):
        with self.assertRaisesRegex(ValueError, "sorcery"):
            training_case({**row("ladder/llama-3.2-1b/base"), "sorcery": True})


if __name__ == "__main__":
    unittest.main()
