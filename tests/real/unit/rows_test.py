"""Tests which rows are meant, who records them, and how a difference is found."""
import sys
import pathlib
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import observed
import record
import rows


def row(name="a/1", framework="transformers", versions=None, **case):
    return {"id": name, "framework": framework, "versions": versions or {}, "case": case, "parameters": 7,
            "phases": [{"phase": "load", "peak_allocated": 100, "peak_reserved": 200, "alloc_events": 3,
                        "work": {"kernels": 1, "collectives": [["b", 2, 1, 8], ["a", 2, 1, 8]]}}]}


def changed(before, **figures):
    return {**before, "phases": [{**before["phases"][0], **figures}]}


class Choice(unittest.TestCase):
    def test_whole_ids_and_beginnings(self):
        self.assertTrue(rows.is_meant("a/1", []))
        self.assertTrue(rows.is_meant("a/1", ["a/1"]))
        self.assertTrue(rows.is_meant("a/1", ["b", "a/"]))
        self.assertFalse(rows.is_meant("a/11", ["a/1"]))

    def test_each_release_has_its_environment(self):
        self.assertEqual(rows.environment_of(row(versions={"transformers": "5.17.0"})), "cuda13")
        self.assertEqual(rows.environment_of(row(versions={"transformers": "4.57.1"})), "transformers-4.57.1")
        self.assertEqual(rows.environment_of(row(versions={"torchtitan": "0.2.2"})), "torchtitan-0.2.2")
        self.assertEqual(rows.environment_of(row(versions={"mcore": "0.16.1"})), "megatron-core-0.16.1")
        engine = row(versions={"mcore": "0.16.1", "te": "2.11.0"})
        self.assertEqual(rows.environment_of(engine), "megatron-core-0.16.1-te-2.11.0")
        self.assertEqual(rows.environment_of(row(optimizer="adamw8bit")), "kernels")

    def test_a_row_without_a_driver_says_why(self):
        self.assertIsNone(rows.reason_against(row()))
        self.assertIn("cuDNN", rows.reason_against(row(cudnn=True)))
        self.assertIn("no driver", rows.reason_against(row(framework="transformers+fsdp9")))
        self.assertIn("flash-attn", rows.reason_against(row(attention="flash_attention_2")))
        self.assertIsNone(rows.reason_against(row(framework="megatron")))
        self.assertIn("no release", rows.reason_against({**row(framework="megatron"), "measured_on": "gpu"}))


class Batches(unittest.TestCase):
    def test_the_gpu_and_the_world_of_a_case(self):
        self.assertEqual(rows.device_flags({"gpu": {"bytes": 5, "cc": 80}}), ["--gpu", "a100-80gb", "--budget", "5B"])
        self.assertEqual(rows.device_flags({"parallel": {"world": 8, "rank": 3}})[-4:], ["--gpus", "8", "--rank", "3"])
        self.assertEqual(rows.device_flags({"world": 1})[:2], ["--gpu", "h100-80gb"])

    def test_rows_of_another_world_or_allocator_get_another_process(self):
        made = [row("1"), row("2"), row("3", allocator="x:1"), row("4", parallel={"kind": "ddp", "world": 2})]
        batches = record.batches_of(made, None, False)
        self.assertEqual([[r["id"] for r in batch.rows] for batch in batches], [["1", "2"], ["3"], ["4"]])
        self.assertEqual(len(record.batches_of(made, "other", True)), 4)

    def test_variables_that_a_framework_reads_when_it_is_imported_divide_processes(self):
        made = [row("1", framework="megatron"), row("2", framework="megatron", env={"NVTE_CPU_OFFLOAD_V1": 1}),
                row("3", framework="megatron", flash_attn2=True)]
        one, offloading, flash = record.batches_of(made, None, False)
        self.assertEqual(one.added["NVTE_DISABLE_NVRTC"], "1")
        self.assertEqual(offloading.added["NVTE_CPU_OFFLOAD_V1"], "1")
        self.assertTrue(flash.added["PYTHONPATH"].endswith("flash_attention"))
        self.assertEqual(rows.variables_of(row()), {})

    def test_the_number_of_rows_of_a_process_is_bounded(self):
        batches = record.batches_of([row(str(i)) for i in range(record.MOST + 1)], None, False)
        self.assertEqual([len(batch.rows) for batch in batches], [record.MOST, 1])


class Differences(unittest.TestCase):
    def test_counts_of_a_row_that_ran_out_of_memory_early_are_none(self):
        self.assertEqual(rows.differences({"oom": "full", "parameters": 0}, {"oom": "full"}), [])

    def test_the_same_row_has_none(self):
        before = row()
        again = rows.made_anew(before, {"id": "a/1", "parameters": 7, "phases": before["phases"]})
        self.assertEqual(rows.differences(before, again), [])

    def test_the_order_of_collectives_is_no_difference(self):
        work = {"kernels": 1, "collectives": [["a", 2, 1, 8], ["b", 2, 1, 8]]}
        self.assertEqual(rows.differences(row(), changed(row(), work=work)), [])

    def test_work_that_a_row_does_not_have_is_not_compared(self):
        work = {"kernels": 1, "collectives": [["b", 2, 1, 8], ["a", 2, 1, 8]], "d2h": 5}
        self.assertEqual(rows.differences(row(), changed(row(), work=work)), [])
        self.assertEqual(len(rows.differences(row(), changed(row(), work={"kernels": 1}))), 1)
        self.assertEqual(len(rows.differences(row(), changed(row(), work=None))), 1)

    def test_one_byte_is_a_difference(self):
        found = rows.differences(row(), changed(row(), peak_allocated=101))
        self.assertEqual(found, [("load", "peak_allocated", 101, 100)])
        self.assertTrue(rows.concerns_bytes(found[0]))

    def test_a_count_is_no_difference_of_bytes(self):
        found = rows.differences(row(), changed(row(), alloc_events=4))
        self.assertFalse(rows.concerns_bytes(found[0]))

    def test_verdicts_errors_and_missing_phases(self):
        self.assertEqual(rows.differences(row(), {"oom": "full"})[0][1], "oom")
        self.assertEqual(rows.differences(row(), {"error": "broke"})[0][1], "error")
        self.assertEqual(rows.differences(row(), {**row(), "phases": []}), [("load", "phase", "missing", "there")])
        oom = {"id": "o", "case": {}, "oom": "full here"}
        self.assertEqual(rows.differences(oom, {"oom": "full there"}), [])

    def test_drift_names_how_many_rows_changed_and_by_how_much(self):
        pairs = [(row(), row()), (row(), changed(row(), peak_allocated=110)), (row(), {"oom": "full"})]
        lines = rows.drift(pairs)
        self.assertIn("1 of 2 rows changed, by +10.000%", lines[0])
        self.assertIn("the same in all of 2 rows", lines[1])


class Observed(unittest.TestCase):
    def answer(self, peak):
        phase = {"name": "forward", "step": 1, "micro_batch": 2, "peak_allocated_bytes": peak, "peak_reserved_bytes": 9}
        return {"binding": 0, "processes": [{"phases": [phase]}]}

    def recorded(self):
        return {"case": {"accumulation": 2}, "phases": [
            {"phase": "step1.2.forward", "peak_allocated": 5, "peak_reserved": 9},
            {"phase": "step1.zero_grad", "peak_allocated": 5, "peak_reserved": 9}]}

    def test_phases_are_matched_by_step_and_micro_batch(self):
        self.assertEqual(observed.differences(self.recorded(), self.answer(5)), [])
        self.assertEqual(observed.differences(self.recorded(), self.answer(6)),
                         [("step1.2.forward", "seen peak_allocated", 6, 5)])

    def test_a_dry_run_without_an_answer_is_a_difference(self):
        self.assertEqual(len(observed.differences(self.recorded(), {})), 1)


if __name__ == "__main__":
    unittest.main()
