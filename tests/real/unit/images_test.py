"""Tests what the recorder makes of images, as far as it needs no PyTorch."""
import pathlib
import sys
import types
import unittest

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[3] / "runtimes/torch/record")]

import recordings
from headroom_record import frozen, image_text, plan, sizes, untyped


class TheText(unittest.TestCase):
    def test_images_are_read(self):
        images = image_text.Images("2x1024x768")
        self.assertEqual((images.count, images.height, images.width), (2, 1024, 768))

    def test_what_has_another_form_is_refused_with_the_form(self):
        for text in ("", "2", "2x1024", "0x64x64", "2x064x64", "2x64x64x3", "2x64x99999", "ax64x64", "2X64X64"):
            with self.assertRaisesRegex(image_text.NoImages, "COUNTxHEIGHTxWIDTH", msg=text):
                image_text.Images(text)

    def test_one_image_of_the_same_size(self):
        self.assertEqual(image_text.Images("3x1024x768").one().text, "1x1024x768")

    def test_a_configuration_says_no_type(self):
        fields = {"torch_dtype": "bfloat16", "hidden_size": 8, "text_config": {"dtype": "bfloat16", "depth": 2}}
        self.assertEqual(untyped.without_types(fields), {"hidden_size": 8, "text_config": {"depth": 2}})

    def test_text_stands_before_between_and_after_images(self):
        self.assertEqual(image_text.shortest([3, 2]), 8)
        self.assertEqual(image_text.kinds([3, 2], 10), [0, 1, 1, 1, 0, 1, 1, 0, 0, 0])
        with self.assertRaisesRegex(image_text.NoImages, "a sequence of 7 tokens has no room for the 5 of its images"):
            image_text.kinds([3, 2], 7)

    def test_features_are_shared_out_among_images(self):
        images = image_text.Images("2x64x64")
        self.assertEqual(images.tokens_of_each([4, 6]), [4, 6])
        self.assertEqual(images.tokens_of_each([10]), [5, 5])
        self.assertEqual(images.tokens_of_each([1, 2, 3, 4]), [5, 5])
        with self.assertRaisesRegex(image_text.NoImages, "9 features of 2 images"):
            images.tokens_of_each([9])


class TheSizes(unittest.TestCase):
    @staticmethod
    def plan(shortest, **settings):
        return plan.Plan(types.SimpleNamespace(**settings), None, shortest=shortest, micro_batches=(1, 2))

    def test_every_sequence_has_room_for_its_images(self):
        one = self.plan(1203, max_position_embeddings=32768)
        found = one.below(one.several + one.odd + one.alone + one.alone_odd)
        self.assertTrue(all(sequence >= 1203 for _, sequence in found))
        self.assertEqual({sequence % 64 == 0 for _, sequence in one.below(one.several)}, {True})
        self.assertTrue(all(sequence % 2 for _, sequence in one.below(one.odd)))

    def test_and_none_is_longer_than_the_positions(self):
        one = self.plan(700, max_position_embeddings=1024)
        found = one.below(one.several + one.odd)
        self.assertTrue(all(700 <= sequence < 1024 for _, sequence in found))
        self.assertEqual(len({sequence for _, sequence in found}), len(found))

    def test_a_window_that_images_alone_fill_has_no_code_below_it(self):
        self.assertTrue(self.plan(1203, sliding_window=1024).always_above)
        self.assertFalse(self.plan(515, sliding_window=1024).always_above)
        one = self.plan(1203, sliding_window=1024)
        self.assertTrue(all(sequence > 1203 for _, sequence in one.above(one.several)))

    def test_without_images_nothing_changes(self):
        one = plan.Plan(types.SimpleNamespace(max_position_embeddings=32768), None)
        self.assertEqual(one.below(one.several), list(plan.POINTS))

    def test_of_one_micro_batch_expressions_have_no_b(self):
        points = [(2, 1344), (2, 1664), (2, 1541), (2, 1277)]
        found = sizes.Sizes(points).expression(tuple(2 * s - 2406 for _, s in points))
        self.assertEqual(found, "2*S - 2406")


class Frozen(unittest.TestCase):
    NAMES = ["model.visual.proj.weight", "model.visual.merger.mlp.0.bias", "model.language_model.norm.weight", "lm_head.weight"]

    def test_all_parameters_of_a_module_are(self):
        self.assertEqual(frozen.frozen(self.NAMES, ["model.visual"]), set(self.NAMES[:2]))
        self.assertEqual(frozen.frozen(self.NAMES, ["visual.merger", "lm_head"]), {self.NAMES[1], self.NAMES[3]})
        self.assertEqual(frozen.frozen(self.NAMES, []), set())

    def test_a_module_that_is_none_is_refused_with_those_that_are(self):
        with self.assertRaisesRegex(frozen.NoModule, "--freeze model.vis: .*model.visual, model.language_model, lm_head"):
            frozen.frozen(self.NAMES, ["model.vis"])


class Inputs(unittest.TestCase):
    def test_a_batch_has_all_inputs_of_the_recording(self):
        """loss = sum(pixels): the pixels live as long as the tokens, until backward has ended."""
        recording = {"modules": [["", "Model"]], "parameters": [["scale", [1]]], "buffers": [], "gradients": [],
                     "variants": [{"parameters": "bf16", "autocast": None, "layers": [], "bodies": [], "inputs": [
                         ["input_ids", "int64", ["B", "S"]], ["pixel_values", "fp32", ["2*B", 3, 8, 8]]], "forward": [
                             ["op", "sum", [1], [[2, "fp32", []]]], ["result", 2, None]]}]}
        run = recordings.Step(recording, 2, 16)
        run.forward()
        self.assertEqual(run.memory.live, 8 * 2 * 16 + 4 * (4 * 3 * 8 * 8) + 4)


if __name__ == "__main__":
    unittest.main()
