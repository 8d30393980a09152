"""Whole programs under the observer, with the torch package in fake/."""

import os
import tempfile
import unittest

import support
from headroom_dryrun import session

TRAIN = """
import torch
model = torch.nn.Module(1 << 20, 1 << 20)
optimizer = torch.optim.Optimizer(model.parameters())
for step in range(5):
    loss = model()
    loss.backward()
    del loss
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(step, torch.cuda.max_memory_allocated(), flush=True)
"""
FINDING = """
    while True:
        try:
            loss = model(types.SimpleNamespace(shape=(size, 7)), size=size)
            loss.backward()
            break
        except torch.OutOfMemoryError:
            loss, size = None, size // 2
            optimizer.zero_grad()
"""
MIB = 1 << 20


class Report(unittest.TestCase):
    def test_phases_of_a_training_loop(self):
        _, reports = support.run(TRAIN)
        names = [phase["name"] for phase in reports[0]["phases"]]
        self.assertEqual(names, ["load"] + ["forward", "backward", "optimizer", "zero_grad"] * 5)
        peaks = [phase["peak_allocated"] for phase in reports[0]["phases"]][:5]
        self.assertEqual(peaks[0], 2 * MIB)
        self.assertEqual(peaks[1], 2 * MIB + 4096 + 512)  # Activation and loss.
        self.assertEqual(peaks[2], 4 * MIB + 4096 + 512 + 2048)  # Gradients, and the temporary of the pass.
        self.assertEqual(peaks[3], 6 * MIB)  # States; the norm's 512 bytes are released before.
        self.assertEqual(peaks[4], 6 * MIB)
        self.assertEqual(reports[0]["stopped"], "end")

    def test_the_program_stops_after_its_steps_with_exit_code_0(self):
        process, reports = support.run(TRAIN, HEADROOM_DRYRUN_STEPS="2")
        self.assertEqual((process.returncode, reports[0]["stopped"]), (0, "steps"))
        self.assertEqual(len(process.stdout.splitlines()), 1)
        self.assertEqual(reports[0]["phases"][-1]["step"], 2)

    def test_one_step_ends_at_the_next_forward_pass(self):
        process, reports = support.run(TRAIN, HEADROOM_DRYRUN_STEPS="1")
        self.assertEqual([len(process.stdout.splitlines()), reports[0]["stopped"]], [1, "steps"])

    def test_the_user_sees_the_peak_of_the_whole_program(self):
        process, _ = support.run(TRAIN)
        seen = [int(line.split()[1]) for line in process.stdout.splitlines()]
        self.assertEqual(seen, sorted(seen))
        self.assertGreaterEqual(seen[0], 6 * MIB)

    def test_the_live_set_sums_to_the_peak_and_has_categories(self):
        _, reports = support.run(TRAIN)
        peak = reports[0]["peak"]
        self.assertEqual(sum(row["bytes"] for row in peak["live"]), peak["allocated"])
        by_category = {}
        for row in peak["live"]:
            by_category[row["category"]] = by_category.get(row["category"], 0) + row["bytes"]
        self.assertEqual(by_category["parameters"], 2 * MIB)
        self.assertEqual(by_category["gradients"], 2 * MIB)
        self.assertEqual(by_category["optimizer states"], 2 * MIB)
        self.assertEqual(reports[0]["phases"][peak["phase"]]["peak_allocated"], peak["allocated"])

    def test_a_snapshot_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.pickle")
            support.run(TRAIN, HEADROOM_DRYRUN_SNAPSHOT=path)
            self.assertTrue(os.path.getsize(path) > 0)


class Errors(unittest.TestCase):
    def test_libraries_that_a_dry_run_does_not_have_are_named(self):
        self.assertIn("a dry run has no cuFFT", session.explained("cuFFT error: CUFFT_INTERNAL_ERROR"))
        self.assertIn("no cuSOLVER", session.explained("cusolver error: CUSOLVER_STATUS_NOT_INITIALIZED"))
        self.assertEqual(session.explained("shapes differ"), "shapes differ")

    LIMIT = TRAIN.replace("import torch", "import torch\ntorch._C.capacity = (5 << 20) + 4096")

    def test_out_of_memory_is_explained(self):
        process, reports = support.run(self.LIMIT)
        oom = reports[0]["oom"]
        self.assertEqual(process.returncode, 1)
        self.assertIn("OutOfMemoryError", process.stderr)
        self.assertEqual((oom["requested"], oom["capacity"], oom["phase"], oom["step"]), (MIB, 5 * MIB + 4096, "optimizer", 1))
        self.assertEqual(oom["free"], 4096)
        self.assertEqual(sum(row["bytes"] for row in oom["live"]), oom["allocated"])
        self.assertEqual((reports[0]["stopped"], reports[0]["exception"]["type"]), ("exception", "OutOfMemoryError"))

    def test_a_program_that_catches_it_goes_on(self):
        program = self.LIMIT.replace("    optimizer.step()\n", "    try: optimizer.step()\n    except torch.OutOfMemoryError: torch._C.capacity <<= 1; optimizer.step()\n")
        process, reports = support.run(program)
        self.assertEqual((process.returncode, reports[0]["stopped"], "oom" in reports[0]), (0, "end", False), process.stderr)
        self.assertEqual([(c["requested"], c["phase"]) for c in reports[0]["caught"]], [(MIB, "optimizer")])

    def test_a_search_for_the_batch_that_fits_is_judged_by_what_ran(self):
        program = self.LIMIT.replace("    loss = model()\n    loss.backward()\n", FINDING).replace("(5 << 20)", "(7 << 20)").replace("for step", "import types\nsize = 8 << 20\nfor step")
        process, reports = support.run(program, HEADROOM_DRYRUN_STEPS="2")
        report = reports[0]
        self.assertEqual((process.returncode, report["stopped"], "oom" in report), (0, "steps", False), process.stderr)
        self.assertEqual([(c["requested"], c["phase"], c["step"]) for c in report["caught"]], [(8 * MIB, "forward", 1), (MIB, "backward", 1), (MIB, "backward", 2)])
        self.assertEqual(report["peak"]["allocated"], 7 * MIB + 512 + 2048)  # Step 2 had an eighth of the batch.
        self.assertEqual([c["batch"] for c in report["caught"]], [[8 * MIB, 7], [4 * MIB, 7], [2 * MIB, 7]])
        names = [phase["name"] for phase in report["phases"]]
        self.assertEqual(names[:5], ["load", "forward", "backward", "optimizer", "zero_grad"])
        self.assertEqual(sum(row["bytes"] for row in report["peak"]["live"]), report["peak"]["allocated"])

    def test_an_exception_is_named(self):
        process, reports = support.run(TRAIN + "\nraise KeyError('wrong')")
        self.assertEqual(process.returncode, 1)
        self.assertEqual((reports[0]["stopped"], reports[0]["exception"]["type"]), ("exception", "KeyError"))

    def test_sigterm_writes_the_report(self):
        process, reports = support.run(TRAIN + "\nimport os, signal; os.kill(os.getpid(), signal.SIGTERM); print('no')")
        self.assertEqual((process.returncode, reports[0]["stopped"]), (-15, "signal"))

    def test_a_forked_child_writes_nothing(self):
        program = TRAIN + "\nimport os, sys\nif os.fork() == 0: sys.exit(0)\nos.wait()"
        _, reports = support.run(program)
        self.assertEqual(len(reports), 1)


if __name__ == "__main__":
    unittest.main()
