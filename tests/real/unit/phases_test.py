"""Live sets from the allocator's trace. PyTorch is not needed: its place is taken by an empty module."""
import pathlib
import sys
import types
import unittest

sys.modules.setdefault("torch", types.ModuleType("torch"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "drivers"))

import phases


def event(action, size):
    return {"action": action, "size": size}


class LiveSets(unittest.TestCase):
    def test_blocks_in_use_are_counted_by_size(self):
        segments = [{"blocks": [{"state": "active_allocated", "requested_size": 8}, {"state": "inactive"},
                                {"state": "active_pending_free", "requested_size": 8}]}]
        self.assertEqual(dict(phases.live_blocks(segments)), {8: 2})

    def test_the_peak_is_the_first_of_the_highest_points(self):
        events = [event("alloc", 10), event("free_requested", 10), event("free_completed", 10), event("alloc", 4),
                  event("segment_alloc", 100), event("alloc", 6)]
        self.assertEqual(dict(phases.live_at_peak({5: 1}, events)), {5: 1, 10: 1})

    def test_before_the_first_event_may_be_the_peak(self):
        self.assertEqual(dict(phases.live_at_peak({5: 2}, [event("free_completed", 5)])), {5: 2})

    def test_the_largest_share_comes_first(self):
        self.assertEqual(phases.largest({1: 3, 10: 1, 2: 4}), [[10, 1], [2, 4], [1, 3]])


if __name__ == "__main__":
    unittest.main()
