"""The highest point of a history, who asked for what was alive, and which category it had."""

import types
import unittest

import support  # noqa: F401
from headroom_dryrun import frames
from headroom_dryrun.categories import Categories
from headroom_dryrun.history import Block, high_point, live_now, live_rows


def alloc(address, size, time=0, name="forward"):
    frame = {"filename": "/home/u/model.py", "line": 7, "name": name}
    return {"action": "alloc", "addr": address, "size": size, "frames": [frame], "time_us": time}


def free(address, size, time=0):
    return {"action": "free_completed", "addr": address, "size": size, "time_us": time}


def segments(*blocks):
    made = [{"address": a, "size": s, "requested_size": s, "state": "active_allocated"} for a, s in blocks]
    return [{"address": 0, "device": 0, "blocks": made}]


class HighPoint(unittest.TestCase):
    def test_it_lies_between_an_allocation_and_the_next_release(self):
        trace = [alloc(1, 1024, 10), alloc(2, 4096, 20), free(2, 4096, 30), alloc(3, 2048, 40)]
        point = high_point(live_now(segments((1, 1024), (3, 2048)), 0), trace)
        self.assertEqual(point.size, 1024 + 4096)
        self.assertEqual(sorted(block.address for block in point.live), [1, 2])
        self.assertEqual(point.time, 20)

    def test_what_was_alive_before_the_history_counts(self):
        trace = [alloc(2, 4096), free(2, 4096), free(9, 512, 50)]
        point = high_point(live_now(segments((1, 1024)), 0), trace)
        self.assertEqual(point.size, 1024 + 4096 + 512)
        self.assertEqual({block.address for block in point.live}, {1, 2, 9})

    def test_sizes_are_rounded_as_the_allocator_rounds_them(self):
        self.assertEqual(high_point(live_now(segments((1, 1), (2, 513)), 0), []).size, 512 + 1024)

    def test_a_block_at_an_address_that_was_used_before_has_its_own_frame(self):
        trace = [alloc(1, 1024, 10, "first"), free(1, 1024, 20), alloc(1, 2048, 30, "second")]
        point = high_point(live_now(segments((1, 2048)), 0), trace)
        self.assertEqual((point.live[0].frames[0]["name"], point.live[0].born), ("second", 30))

    def test_a_span_that_is_left_out_has_no_highest_point(self):
        trace = [alloc(1, 1024, 10), alloc(2, 4096, 20), free(2, 4096, 30), alloc(3, 2048, 40)]
        point = high_point(live_now(segments((1, 1024), (3, 2048)), 0), trace, [(10, 30)])
        self.assertEqual((point.size, point.time), (1024 + 2048, 40))


class Rows(unittest.TestCase):
    def test_blocks_of_one_line_are_one_row_and_the_rest_is_said(self):
        frame = [{"filename": "/home/u/model.py", "line": 7, "name": "forward"}]
        rows = live_rows([Block(1, 1000, frame), Block(2, 1024, frame)], lambda block: "activations", 4096)
        self.assertEqual((rows[0]["bytes"], rows[0]["count"], rows[0]["frame"]), (2048, 2, "/home/u/model.py:7 forward"))
        self.assertEqual(sum(row["bytes"] for row in rows), 4096)

    def test_frames_of_torch_give_way_to_the_line_that_called(self):
        torch = {"filename": "/v/site-packages/torch/nn/modules/linear.py", "line": 1, "name": "forward"}
        model = {"filename": "/v/site-packages/transformers/models/llama/modeling_llama.py", "line": 2, "name": "f"}
        adam = {"filename": "/v/site-packages/torch/optim/adam.py", "line": 3, "name": "_init_group"}
        self.assertEqual(frames.describe([torch, model]), "transformers/models/llama/modeling_llama.py:2 f")
        self.assertEqual(frames.describe([adam, model]), "torch/optim/adam.py:3 _init_group")
        self.assertEqual(frames.describe([torch]), "torch/nn/modules/linear.py:1 forward")


class Tensor:
    is_cuda = True

    def __init__(self, address):
        self.address = address

    def untyped_storage(self):
        return self

    def data_ptr(self):
        return self.address


class Kinds(unittest.TestCase):
    def test_a_sighting_counts_while_the_block_was_alive(self):
        categories = Categories()
        categories.see([Tensor(1)], "gradients", 100)
        self.assertEqual(categories.of(Block(1, 512, [], 50, 150), "backward"), "gradients")
        self.assertEqual(categories.of(Block(1, 512, [], 110, None), "forward"), "activations")
        self.assertEqual(categories.of(Block(1, 512, [], 10, 90), "optimizer"), "other")

    def test_many_sightings_of_one_tensor_cost_two(self):
        categories = Categories()
        for time in range(100):
            categories.see([Tensor(1)], "parameters", time)
        self.assertEqual(len(categories._seen[1]), 2)
        self.assertEqual(categories.of(Block(1, 512, [], 60)), "parameters")

    def test_states_that_are_being_made_are_found_when_memory_runs_out(self):
        class Optimizer:
            param_groups = []
            state = {}

        optimizer, categories = Optimizer(), Categories()
        categories.see_optimizer(optimizer, 10, False)
        optimizer.state = {"weight": {"exp_avg": Tensor(1), "step": 1}}  # The first step has begun.
        categories.see_modules(type("Parameter", (), {}), 20)
        self.assertEqual(categories.of(Block(1, 512, [], 15), "optimizer"), "optimizer states")

    def test_buckets_of_ddp_are_gradients_only_where_gradients_are_views_of_them(self):
        frame = {"filename": "/v/site-packages/torch/nn/parallel/distributed.py", "line": 1, "name": "_ddp_init_helper"}
        for views, expected in ((True, "gradients"), (False, "other")):
            categories = Categories()
            categories.see_model(types.SimpleNamespace(parameters=lambda: [], gradient_as_bucket_view=views), 10)
            self.assertEqual(categories.of(Block(1, 512, [frame], 5), "load"), expected)
