"""Phases and peaks, on a ledger whose numbers are chosen."""

import unittest

import support  # noqa: F401
from headroom_dryrun.peaks import PeakLedger
from headroom_dryrun.phases import PhaseRecorder, Probe


class Allocator:
    """Current bytes and a peak that anybody may reset."""

    def __init__(self):
        self.now = self.peak = 0

    def to(self, size):
        self.now = size
        self.peak = max(self.peak, size)

    def read(self, device):
        return {"allocated_bytes": {"all": {"current": self.now, "peak": self.peak}}, "num_alloc_retries": 0}

    def reset(self, device):
        self.peak = self.now


class Ledger(unittest.TestCase):
    def setUp(self):
        self.allocator = Allocator()
        self.ledger = PeakLedger(self.allocator.read, self.allocator.reset)

    def user_peak(self):
        return self.ledger.user_stats(0)["allocated_bytes"]["all"]["peak"]

    def test_the_user_reads_the_peak_of_an_earlier_phase(self):
        self.allocator.to(900)
        self.allocator.to(100)
        self.ledger.end_phase(0)
        self.allocator.to(300)
        self.assertEqual(self.user_peak(), 900)

    def test_the_users_reset_holds_for_the_user_and_not_for_the_phase(self):
        self.allocator.to(900)
        self.allocator.to(100)
        self.ledger.user_reset(0)
        self.assertEqual(self.user_peak(), 100)
        self.assertEqual(self.ledger.end_phase(0)[1][("allocated_bytes", "all")], 900)

    def test_a_new_phase_begins_at_what_is_allocated(self):
        self.allocator.to(900)
        self.allocator.to(100)
        self.ledger.end_phase(0)
        self.assertEqual(self.ledger.end_phase(0)[1][("allocated_bytes", "all")], 100)


class Phases(unittest.TestCase):
    def setUp(self):
        self.allocator = Allocator()
        ledger = PeakLedger(self.allocator.read, self.allocator.reset)
        self.recorder = PhaseRecorder(Probe(ledger, lambda: [0], lambda: {"kernels": 1}))
        self.recorder.start()

    def rise(self, peak, after):
        self.allocator.to(peak)
        self.allocator.to(after)

    def micro_batch(self):
        self.recorder.forward()
        self.rise(500, 400)
        self.recorder.backward_begins()
        self.rise(600, 300)
        self.recorder.backward_ends()

    def summary(self):
        return [(row["name"], row["step"], row["micro_batch"], row["peak_allocated"]) for row in self.recorder.rows]

    def test_one_step(self):
        self.rise(100, 100)
        self.micro_batch()
        self.recorder.step_begins()
        self.rise(700, 350)
        self.recorder.step_ends()
        self.recorder.clearing_begins()
        self.rise(350, 200)
        self.recorder.clearing_ends()
        expected = [("load", 1, 1, 100), ("forward", 1, 1, 500), ("backward", 1, 1, 600), ("optimizer", 1, 1, 700)]
        self.assertEqual(self.summary(), expected + [("zero_grad", 1, 1, 350)])
        self.assertEqual(self.recorder.steps, 1)

    def test_a_step_that_makes_states_before_training_belongs_to_load(self):
        self.recorder.optimizer_made()
        self.rise(700, 350)
        self.recorder.step_ends()
        self.micro_batch()
        self.recorder.step_ends()
        expected = [("load", 1, 1, 700), ("forward", 1, 1, 500), ("backward", 1, 1, 600), ("optimizer", 1, 1, 300)]
        self.assertEqual(self.summary(), expected)

    def test_a_program_of_optimizer_steps_alone_has_steps(self):
        for _ in range(3):
            self.recorder.step_ends()
        self.assertEqual(self.recorder.steps, 1)

    def test_gradients_that_accumulate_make_micro_batches(self):
        self.micro_batch()
        self.micro_batch()
        self.recorder.step_ends()
        self.micro_batch()
        numbered = [row[:3] for row in self.summary() if row[0] == "forward"]
        self.assertEqual(numbered, [("forward", 1, 1), ("forward", 1, 2), ("forward", 2, 1)])

    def test_what_is_only_released_after_the_backward_pass_belongs_to_it(self):
        self.micro_batch()
        self.rise(250, 250)  # `del loss`
        self.recorder.step_begins()
        self.rise(260, 260)
        self.recorder.step_ends()
        self.assertEqual(self.summary()[-1], ("optimizer", 1, 1, 260))
        self.assertEqual(self.recorder.rows[-2]["allocated_after"], 250)

    def test_what_is_allocated_after_the_backward_pass_belongs_to_the_step(self):
        self.micro_batch()
        self.rise(800, 300)  # The program clips by itself.
        self.recorder.step_begins()
        self.rise(310, 310)
        self.recorder.step_ends()
        self.assertEqual(self.summary()[-1], ("optimizer", 1, 1, 800))

    def test_two_optimizers_of_one_step_are_one_phase(self):
        self.micro_batch()
        self.recorder.step_ends()
        self.rise(900, 500)
        self.recorder.step_ends()
        self.assertEqual(self.summary()[-1], ("optimizer", 1, 1, 900))
        self.assertEqual(self.recorder.rows[-1]["work"]["kernels"], 2)
        self.assertEqual(self.recorder.steps, 1)

    def test_a_batch_that_is_made_before_the_first_call_belongs_to_the_forward_pass(self):
        self.rise(1000, 1000)
        self.recorder.optimizer_made()
        self.rise(1005, 1005)
        self.micro_batch()
        self.assertEqual(self.summary()[0], ("load", 1, 1, 1000))
        self.assertEqual(self.recorder.rows[1]["allocated_before"], 1000)

    def test_a_model_that_is_moved_after_the_optimizer_was_made_belongs_to_load(self):
        self.rise(1000, 1000)
        self.recorder.optimizer_made()
        self.rise(2000, 2000)
        self.micro_batch()
        self.assertEqual(self.summary()[0], ("load", 1, 1, 2000))

    def test_an_error_ends_the_phase_that_was_open(self):
        self.micro_batch()
        self.recorder.finish(failed=True)
        self.assertEqual(self.summary()[-1][0], "optimizer")

    def test_an_end_at_which_nothing_was_allocated_is_not_a_phase(self):
        self.micro_batch()
        self.recorder.step_ends()
        self.recorder.finish()
        self.assertEqual(self.summary()[-1][0], "optimizer")

    def step(self, peak=600):
        self.recorder.forward()
        self.recorder.next_forward()
        self.rise(500, 400)
        self.recorder.backward_begins()
        self.rise(peak, 300)
        self.recorder.backward_ends()
        self.recorder.step_begins()
        self.recorder.step_ends()

    def failed_step(self):
        self.recorder.forward()
        self.recorder.next_forward()
        self.rise(800, 800)
        self.recorder.backward_begins()
        self.rise(950, 950)
        self.recorder.fails()
        self.recorder.backward_ends()
        self.rise(950, 200)

    def test_a_step_that_failed_and_was_begun_again_is_told_apart(self):
        recovered = []
        self.recorder.after_recovery = recovered.extend
        self.rise(100, 100)
        self.failed_step()
        self.failed_step()
        self.step()
        expected = [("load", 1, 1, 100), ("forward", 1, 1, 500), ("backward", 1, 1, 600), ("optimizer", 1, 1, 300)]
        self.assertEqual(self.summary(), expected)
        self.assertEqual([[row["name"] for row in failure.rows] for failure in recovered], [["forward", "backward"]] * 2)
        self.assertEqual(max(row["peak_allocated"] for row in recovered[0].rows), 950)

    def test_a_batch_that_failed_is_no_part_of_load(self):
        self.rise(100, 100)
        self.recorder.optimizer_made()
        self.rise(700, 700)
        self.failed_step()
        self.step()
        self.assertEqual(self.summary()[0], ("load", 1, 1, 100))

    def test_steps_before_a_failed_one_stay(self):
        self.step()
        self.recorder.clearing_begins()
        self.recorder.clearing_ends()
        self.failed_step()
        self.step()
        self.assertEqual([row[:2] for row in self.summary() if row[0] in ("backward", "zero_grad")], [("backward", 1), ("zero_grad", 1), ("backward", 2)])
        self.assertEqual(self.recorder.steps, 2)

    def test_an_optimizer_that_is_called_again_leaves_the_backward_pass_as_it_was(self):
        self.micro_batch()
        self.recorder.step_begins()
        self.rise(990, 990)
        self.recorder.fails()
        self.rise(990, 300)
        self.recorder.step_begins()
        self.rise(450, 450)
        self.recorder.step_ends()
        self.assertEqual(self.summary()[-2:], [("backward", 1, 1, 600), ("optimizer", 1, 1, 450)])

    def test_an_error_that_nobody_caught_keeps_its_step(self):
        self.micro_batch()
        self.recorder.step_begins()
        self.rise(990, 990)
        self.recorder.fails()
        self.assertEqual(self.recorder.name, "optimizer")
        self.recorder.finish(failed=True)
        self.assertEqual(self.summary()[-2:], [("backward", 1, 1, 600), ("optimizer", 1, 1, 990)])
