"""Tests the parts of the recorder that need no PyTorch, and the interpreter of recordings."""
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[3] / "runtimes/torch/record")]

import recordings
from headroom_record import fold, loops, merge, sizes

POINTS = [(2, 512), (3, 320), (2, 192), (5, 256), (3, 448)]


def operator(name, inputs, number, shape=(4,), **extra):
    return ["op", name, inputs, [[number, "fp32", tuple(shape)]], extra]


class Sizes(unittest.TestCase):
    def find(self, function):
        return sizes.Sizes(POINTS).expression(tuple(function(b, s) for b, s in POINTS))

    def test_sums_of_products(self):
        self.assertEqual(self.find(lambda b, s: 7), 7)
        self.assertEqual(self.find(lambda b, s: 2 * b * s + 64), "2*B*S + 64")
        self.assertEqual(self.find(lambda b, s: b * s * s), "B*S*S")
        self.assertEqual(self.find(lambda b, s: s - 1), "S - 1")
        self.assertEqual(self.find(lambda b, s: 4096 * b * -(-s // 256)), "4096*B*ceil(S/256)")

    def test_what_is_none_is_refused(self):
        with self.assertRaises(sizes.NoExpression):
            self.find(lambda b, s: s ** 3 + b)

    def test_the_value_of_an_expression(self):
        for text, value in (("2*B*S + 64", 2 * 3 * 100 + 64), ("ceil(S/64) - 2", 0), ("-S + 200", 100), (5, 5)):
            self.assertEqual(sizes.value_of(text, 3, 100), value)


class Merging(unittest.TestCase):
    def merged(self, codes):
        return merge.merge(codes, [[("model.py", 7)] * len(code) for code in codes], sizes.Sizes(POINTS))

    def test_sizes_become_expressions(self):
        codes = [[operator("mul", [0], 1, (b, s))] for b, s in POINTS]
        self.assertEqual(self.merged(codes), [["op", "mul", [0], [[1, "fp32", ["B", "S"]]], {}]])

    def test_another_operator_is_refused_with_its_line(self):
        codes = [[operator("mul" if s < 500 else "add", [0], 1)] for _, s in POINTS]
        with self.assertRaisesRegex(merge.Different, r"add at 2x512, mul at 3x320.*model.py:7"):
            self.merged(codes)

    def test_temporaries_that_a_kernel_chooses_are_left_out(self):
        codes = [[operator("sort", [0], 1, inside=["new 0", [(s % 7 + s * s % 11,), 0]])] for _, s in POINTS]
        self.assertEqual(self.merged(codes)[0][4], {})


class Loops(unittest.TestCase):
    @staticmethod
    def scan(turns):
        """y = 0; for each turn: a = x * y; y = a + 1."""
        code = [operator("zeros", [], 1)]
        for turn in range(turns):
            code += [operator("mul", [0, 2 * turn + 1], 2 * turn + 2), ["drop", 2 * turn + 1],
                     operator("add", [2 * turn + 2], 2 * turn + 3)]
        return code + [operator("neg", [2 * turns + 1], 2 * turns + 2)]

    def test_turns_are_written_once(self):
        rolled, _ = loops.roll(self.scan(5), [("", 0)] * 17, 1)
        kinds = [instruction[0] for instruction in rolled]
        self.assertEqual(kinds.count("repeat"), 1)
        repeat = rolled[kinds.index("repeat")]
        self.assertEqual(len(repeat[3]["code"]), 3)
        longer, _ = loops.roll(self.scan(9), [("", 0)] * 29, 1)
        self.assertEqual(longer[kinds.index("repeat")][1][0] - repeat[1][0], 4)
        self.assertEqual(len(longer), len(rolled))

    def test_values_of_earlier_turns_that_live_on_keep_the_turns_apart(self):
        code = self.scan(5)
        code.append(operator("cat", [3, 5, 7], 12))
        rolled, _ = loops.roll(code, [("", 0)] * len(code), 1)
        self.assertEqual([one[0] for one in rolled].count("repeat"), 0)

    @staticmethod
    def listed(turns, last="stack"):
        """ys = []; for each turn: a = x + 1; ys.append(a's view); then ys are joined and dropped."""
        code, views = [], []
        for turn in range(turns):
            first = 2 * turn + 1
            code += [operator("add", [0], first), ["op", "select", [first], [[first + 1, "bf16", (1,), "view of 0"]], {}],
                     ["enter", "m"]]
            views.append(first + 1)
        owners = [one - 1 for one in views]
        return code + [operator(last, views, 2 * turns + 1), ["drop"] + owners, operator("neg", [2 * turns + 1],
                                                                                         2 * turns + 2)]

    def test_what_all_turns_made_for_one_operator_is_a_list(self):
        for turns in (4, 9):
            rolled, _ = loops.roll(self.listed(turns), [("", 0)] * (3 * turns + 3), 1)
            self.assertEqual([one[0] for one in rolled], ["repeat", "op", "drop", "op"])
            repeat, stack, drop, _ = rolled
            self.assertEqual((repeat[1], repeat[3]["lists"], repeat[3]["outputs"]), ((turns,), 1, [2]))
            self.assertEqual((stack[2], drop[1:]), (repeat[4], repeat[4]))

    def test_other_operators_take_no_lists(self):
        code = self.listed(5, "addcmul")
        rolled, _ = loops.roll(code, [("", 0)] * len(code), 1)
        self.assertEqual([one[0] for one in rolled].count("repeat"), 0)


class Folding(unittest.TestCase):
    def test_equal_layers_have_one_body(self):
        code = [operator("embedding", ["p:e", 0], 1)]
        for layer in range(3):
            code += [["#begin", f"layers.{layer}", 2 * layer + 1],
                     operator("mul", [f"p:layers.{layer}.w", 2 * layer + 1], 2 * layer + 2),
                     operator("add", [2 * layer + 2], 2 * layer + 3), ["drop", 2 * layer + 2],
                     ["#end", f"layers.{layer}", 2 * layer + 3]]
        code += [["result", 7, 7]]
        folded = fold.fold(code, [("", 0)] * len(code), set())
        self.assertEqual(len(folded.bodies), 1)
        self.assertEqual(folded.bodies[0]["code"][0][2], ["p:w", 0])
        self.assertEqual(folded.forward[1:], [["layer", 0, [1], [2]], ["layer", 1, [2], [3]], ["layer", 2, [3], [4]],
                                              ["result", 4, 4]])


class Interpreter(unittest.TestCase):
    def recording(self):
        """loss = sum(silu(x w)): 4 x 8 values through a linear layer of 8 to 16."""
        return {"modules": [["", "Model"], ["up", "Linear"]], "parameters": [["up.weight", [16, 8]]], "buffers": [],
                "gradients": [
                    {"name": "SiluBackward0", "edges": [0], "results": [0],
                     "code": [["op", "silu_backward", ["g0", "s0"], [[0, "bf16", ["B", "S", 16]]]]]},
                    {"name": "SumBackward0", "edges": [0], "results": [0],
                     "code": [["op", "expand", ["g0"], [[0, "bf16", ["B", "S", 16], "view of 0"]]]]}],
                "variants": [{"parameters": "bf16", "autocast": None, "layers": [], "bodies": [], "forward": [
                    ["op", "embed", [0], [[1, "bf16", ["B", "S", 8]]]],
                    ["linear", "up", 1, [2, "bf16", ["B", "S", 16]]], ["drop", 1],
                    ["op", "silu", [2], [[3, "bf16", ["B", "S", 16]]], {"saves": ["in 0"], "gradient": 0}],
                    ["drop", 2],
                    ["op", "sum", [3], [[4, "bf16", []]], {"gradient": 1}], ["result", 4, 3]]}]}

    def test_a_step_by_hand(self):
        tokens, hidden, up, loss, weight = 2 * 4 * 8, 2 * 4 * 8 * 2, 2 * 4 * 16 * 2, 2, 16 * 8 * 2
        kept = tokens + hidden + up + loss  # The product saves its input, silu its own.
        forward_peak = tokens + hidden + 2 * up + loss
        # silu's gradient: that of the loss, its own, and what is saved; then the weight's gradient.
        backward_peak = max(kept + 2 + up, kept - up + 2 + up + weight)
        self.assertEqual(recordings.step(self.recording(), 2, 4), [forward_peak, kept, backward_peak, weight])


if __name__ == "__main__":
    unittest.main()
