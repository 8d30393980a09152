"""Everything that the allocator was asked for: whole, in order, and nothing where something is missing."""

import glob
import json
import os
import tempfile
import unittest

import support
from headroom_dryrun.recording import Events, Recording, alloc_conf
from history_test import alloc


def free(address, size=512, time=0):
    return [{"action": action, "addr": address, "size": size, "time_us": time} for action in ("free_requested", "free_completed")]


def phase(name, position, emptied=0):
    return {"name": name, "mark": (position, emptied)}


def stats(allocated, freed):
    return {"allocation": {"all": {"allocated": allocated, "freed": freed}}, "active": {"all": {"freed": freed}}}


class Device:
    """An allocator whose history is `trace` and whose counters agree with it."""

    def __init__(self, trace):
        self.trace = trace

    def stats(self, device=0):
        return stats(*[sum(event["action"] == a for event in self.trace) for a in ("alloc", "free_completed")])

    def snapshot(self):
        return {"segments": [], "device_traces": [list(self.trace)], "allocator_settings": {}}


def columns_of(trace, rows, category=lambda block, phase: "other", device=None):
    device = device or Device(trace)
    recording = Recording(device.stats, lambda: [0])
    recording.read(0, device.snapshot)
    return recording.columns(rows, 0, category)


class Columns(unittest.TestCase):
    def test_a_release_follows_its_allocation_and_phases_end_between_events(self):
        trace = [alloc(16, 100), alloc(32, 200), *free(16), alloc(16, 300, name="backward")]
        columns = columns_of(trace, [phase("load", 2), phase("forward", 5)])
        self.assertEqual(columns["kinds"], "aafa")
        self.assertEqual(columns["ends"], [2, 4])
        self.assertEqual(columns["bytes"], [100, 200, 300])
        self.assertEqual(columns["block"], [0])
        self.assertEqual([columns["lines"][line] for line in columns["line"]],
                         ["/home/u/model.py:7 forward"] * 2 + ["/home/u/model.py:7 backward"])

    def test_a_block_that_another_stream_uses_is_let_go_first(self):
        requested, completed = free(16)
        trace = [alloc(16, 100), requested, alloc(32, 200), completed]
        self.assertEqual(columns_of(trace, [phase("load", 4)])["kinds"], "alaf")

    def test_a_phase_that_ends_between_both_parts_of_a_release_keeps_them_apart(self):
        columns = columns_of([alloc(16, 100), *free(16)], [phase("load", 2), phase("forward", 3)])
        self.assertEqual((columns["kinds"], columns["ends"]), ("alf", [2, 3]))

    def test_the_cache_is_emptied_in_the_phase_that_did_it(self):
        device = Device([alloc(16, 100), *free(16)])
        recording = Recording(device.stats, lambda: [0])
        torch = type("torch", (), {"_C": type("_C", (), {"_cuda_emptyCache": staticmethod(lambda: None)})})
        recording.watch(torch)
        before = recording.mark(device.stats())
        torch._C._cuda_emptyCache()
        after = recording.mark(device.stats())
        recording.read(0, device.snapshot)
        rows = [{"name": "load", "mark": before}, {"name": "forward", "mark": after}]
        columns = recording.columns(rows, 0, lambda block, phase: "other")
        self.assertEqual((columns["kinds"], columns["ends"]), ("afe", [2, 3]))

        recording.watch(torch)
        torch._C._cuda_emptyCache()
        after_the_end = recording.columns(rows, 0, lambda block, phase: "other")
        self.assertEqual(after_the_end["kinds"], "afe")

    def test_streams_and_categories_are_numbered_in_their_order(self):
        second = dict(alloc(32, 200), stream=77)
        columns = columns_of([alloc(16, 100), second], [phase("load", 2)], lambda block, phase: f"{phase} {block.size}")
        self.assertEqual((columns["stream"], columns["category"]), ([0, 1], [0, 1]))
        self.assertEqual(columns["categories"], ["load 100", "load 200"])


class Losses(unittest.TestCase):
    def test_an_overwritten_history_is_noticed(self):
        events = Events()
        events.add([alloc(16, 100)], 5)
        self.assertIn("lost", events.lost)

    def test_only_new_events_are_taken(self):
        events = Events()
        events.add([alloc(16, 100)], 1)
        events.add([alloc(16, 100), alloc(32, 200)], 2)
        self.assertEqual(events.sizes, [100, 200])

    def test_running_out_of_memory_ends_a_recording(self):
        events = Events()
        events.add([alloc(16, 100), {"action": "oom", "size": 1}, alloc(32, 100)], 2)
        self.assertIn("out of memory", events.lost)

    def test_the_release_of_an_unknown_block_is_noticed(self):
        self.assertIn("lost", columns_of(free(16), [phase("load", 2)]))

    def test_events_that_were_not_read_are_noticed(self):
        self.assertIn("lost", columns_of([alloc(16, 100)], [phase("load", 9)]))


class Settings(unittest.TestCase):
    def test_they_are_written_as_the_variable_has_them(self):
        self.assertEqual(alloc_conf({"max_split_size": -1, "roundup_power2_divisions": {"1": 0, "2": 0}}), "")
        told = {"expandable_segments": True, "max_split_size": 64 << 20, "garbage_collection_threshold": 0.8}
        self.assertEqual(alloc_conf(told), "expandable_segments:True,max_split_size_mb:64,garbage_collection_threshold:0.8")

    def test_divisions_that_differ_between_sizes_are_refused(self):
        self.assertEqual(alloc_conf({"roundup_power2_divisions": {"1": 4, "2": 4}}), "roundup_power2_divisions:4")
        self.assertIsNone(alloc_conf({"roundup_power2_divisions": {"1": 4, "2": 8}}))


TRAIN = """
import torch
model = torch.nn.Module(1 << 20, 1 << 20)
optimizer = torch.optim.Optimizer(model.parameters())
for step in range(3):
    model().backward()
    optimizer.step()
    torch.cuda.empty_cache()
    optimizer.zero_grad()
"""


class Program(unittest.TestCase):
    def record(self, program, **variables):
        with tempfile.TemporaryDirectory() as folder:
            process, _ = support.run(program, HEADROOM_DRYRUN_DIR=folder, **variables)
            found = {}
            for kind in ("json", "program"):
                for path in glob.glob(os.path.join(folder, f"*.{kind}")):
                    with open(path, encoding="utf-8") as file:
                        found[kind] = json.load(file)
            return process, found

    def test_a_whole_program_is_written_beside_its_report(self):
        process, found = self.record(TRAIN, HEADROOM_DRYRUN_RECORD="1")
        self.assertEqual(process.stderr, "")
        events, phases = found["program"]["events"], found["json"]["phases"]
        self.assertEqual(len(events["ends"]), len(phases))
        self.assertEqual(events["kinds"].count("e"), 3)
        live, size, block, peaks = 0, {}, 0, []
        releases = iter(events["block"])
        begin = 0
        for end in events["ends"]:
            peak = live
            for kind in events["kinds"][begin:end]:
                if kind == "a":
                    size[block] = events["bytes"][block]
                    live += size[block]
                    block += 1
                elif kind == "f":
                    live -= size[next(releases)]
                peak = max(peak, live)
            peaks.append(peak)
            begin = end
        self.assertEqual(peaks, [row["peak_allocated"] for row in phases])
        sums = {}
        for what, count in zip(events["category"], events["bytes"]):
            sums[events["categories"][what]] = sums.get(events["categories"][what], 0) + count
        self.assertEqual(sums["parameters"], 2 << 20)
        self.assertEqual(sums["gradients"], 3 * (2 << 20))

    def test_without_the_variable_nothing_is_written(self):
        self.assertNotIn("program", self.record(TRAIN)[1])

    def test_a_program_that_records_its_own_history_is_refused_with_the_reason(self):
        own = TRAIN.replace("import torch", "import torch\ntorch.cuda._lazy_init()\ntorch.cuda.memory._record_memory_history(max_entries=5)")
        _, found = self.record(own, HEADROOM_DRYRUN_RECORD="1")
        self.assertIn("its own memory history", found["program"]["lost"])
