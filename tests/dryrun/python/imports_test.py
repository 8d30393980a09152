"""The start of Python: the sitecustomize that is shadowed, hooks after imports, errors of hooks."""

import os
import tempfile
import unittest

import support


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


class Start(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_the_sitecustomize_that_is_shadowed_runs(self):
        write(self.folder.name, "sitecustomize.py", "print('theirs')")
        for variables in ({}, {"HEADROOM_DRYRUN_DIR": None}):
            process, _ = support.run("print('program')", self.folder.name, **variables)
            self.assertEqual(process.stdout.split(), ["theirs", "program"], process.stderr)

    def test_without_the_variable_nothing_is_loaded(self):
        process, _ = support.run("import sys; print('headroom_dryrun' in sys.modules)", HEADROOM_DRYRUN_DIR=None)
        self.assertEqual(process.stdout.strip(), "False")

    def test_a_program_without_torch_writes_nothing(self):
        process, reports = support.run("import sys; print('torch' in sys.modules)")
        self.assertEqual((process.stdout.strip(), reports), ("False", []))

    def test_a_program_that_only_imports_torch_writes_nothing(self):
        process, reports = support.run("import torch")
        self.assertEqual((process.returncode, reports), (0, []), process.stderr)

    def test_a_hook_that_fails_is_reported_and_the_program_runs(self):
        write(self.folder.name, "deepspeed.py", "")
        program = (
            "import headroom_dryrun, torch\n"
            "session = headroom_dryrun.current_session()\n"
            "session.phases.backward_begins = lambda: 1 / 0\n"
            "m = torch.nn.Module(4096); m().backward(); m().backward(); print('done')"
        )
        process, reports = support.run(program)
        self.assertEqual((process.stdout.strip(), process.stderr), ("done", ""))
        failed = [g for g in reports[0]["guesses"] if "ZeroDivisionError" in g["what"]]
        self.assertEqual([g["times"] for g in failed], [1])
