"""Files of packages: what stands alone and what lies over another environment."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import environments


class Files(unittest.TestCase):
    def test_the_first_line_names_the_environment_below(self):
        self.assertEqual(environments.base_of("# over cuda13\ntrl==1.0\n"), "cuda13")
        self.assertIsNone(environments.base_of("torch==2.11.0\n"))
        self.assertIsNone(environments.base_of(""))

    def test_what_is_compiled_and_with_which_variables(self):
        text = "# over cuda13\n# compiled sources==1.0\n# variable HEADERS={packages}/a:{packages}/b=c\nother==2.0\n"
        self.assertEqual(environments.compiled_of(text), ["sources==1.0"])
        self.assertEqual(environments.variables_of(text, "/p"), {"HEADERS": "/p/a:/p/b=c"})
        self.assertEqual(environments.compiled_of("torch==2.11.0\n"), [])

    def test_every_file_pins_its_packages_and_lies_over_one_that_is_there(self):
        for name in environments.names():
            text = (environments.HERE / "environments" / f"{name}.txt").read_text(encoding="utf-8")
            base = environments.base_of(text)
            self.assertIn(base, [None, *environments.names()], name)
            for line in text.splitlines():
                self.assertTrue(line.startswith("#") or "==" in line or line == "numpy", f"{name}: {line}")

    def test_a_folder_that_is_there_is_taken(self):
        given = environments.Environments(environments.parse_given(["cuda13=/somewhere"]))
        self.assertEqual(given.folder("cuda13"), pathlib.Path("/somewhere"))
        with self.assertRaises(SystemExit):
            given.folder("nothing")


if __name__ == "__main__":
    unittest.main()
