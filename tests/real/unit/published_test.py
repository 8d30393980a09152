"""Published measurements: every row is complete, and what a program prints is read."""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import environments
import published


class Published(unittest.TestCase):
    def test_every_row_has_a_source_whose_program_and_environment_are_here(self):
        document = json.loads((published.HERE / "published.json").read_text(encoding="utf-8"))
        for row in document["rows"]:
            source = document["sources"][row["source"]]
            self.assertIn(source["environment"], environments.names(), row["name"])
            self.assertTrue(any((published.HERE / "programs" / word).is_file() for word in source["command"]), row["name"])
            self.assertGreater(row["published_gib"], 0)
        names = [row["name"] for row in document["rows"]]
        self.assertEqual(len(names), len(set(names)))

    def test_the_peak_is_read_from_what_a_program_prints(self):
        self.assertEqual(published.peak_of("loading\npeak 1024 parameters 7\n"), 1024)
        self.assertIsNone(published.peak_of("out of memory"))

    def test_a_row_may_be_off_only_if_that_is_known(self):
        rows = [{"name": "near"}, {"name": "far"}, {"name": "none", "known": "why"}, {"name": "known", "known": "why"}]
        self.assertEqual(published.too_far(rows, [-0.9, 1.1, None, 5.0], 1.0), ["far", "none"])


if __name__ == "__main__":
    unittest.main()
