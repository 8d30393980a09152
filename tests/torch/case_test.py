"""Tests of what a training case says, and of the settings of PyTorch's allocator."""
import json
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "validators" / "torch" / "python"))

from headroom_torch.case import PRECISIONS, Case, allocator_setting, set_allocator


def golden(name, **plan):
    """A case that Headroom wrote (tests/golden/torch), with some keys of the plan replaced."""
    document = json.loads((ROOT / "tests" / "golden" / "torch" / f"{name}.json").read_text(encoding="utf-8"))
    document["plan"].update(plan)
    return Case(document)


class CaseTest(unittest.TestCase):
    def test_every_precision_of_a_plan_is_known(self):
        schema = json.loads((ROOT / "configs" / "schema" / "plan.schema.json").read_text(encoding="utf-8"))
        self.assertEqual(sorted(PRECISIONS), sorted(schema["properties"]["precision"]["enum"]))

    def test_types(self):
        case = golden("ddp")
        self.assertEqual((case.parameter_type, case.autocast_type), ("float32", "bfloat16"))
        self.assertEqual((case.fsdp_version, case.zero_stage), (0, None))
        self.assertEqual(golden("fsdp").fsdp_version, 2)
        self.assertEqual(golden("deepspeed").zero_stage, 3)

    def test_checkpoints(self):
        def chosen(word):
            found = golden("fsdp", checkpointing=word).checkpointing
            if found is None or found[1] is None:
                return found
            return found[0], [i for i in range(6) if found[1](i)]

        self.assertIsNone(chosen("none"))
        self.assertEqual(chosen("full"), (False, None))
        self.assertEqual(chosen("full-reentrant"), (True, None))
        self.assertEqual(chosen("every-2"), (False, [0, 2, 4]))
        self.assertEqual(chosen("first-2-reentrant"), (True, [0, 1]))

    def test_allocator(self):
        self.assertEqual(allocator_setting(golden("ddp")), "")
        case = golden("ddp", allocator={
            "expandable_segments": True, "max_split_bytes": 40 << 20, "max_non_split_rounding_bytes": 30 << 20,
            "garbage_collection_threshold_ratio": 0.5, "roundup_power2_divisions": 4})
        self.assertEqual(allocator_setting(case),
                         "expandable_segments:True,max_split_size_mb:40,max_non_split_rounding_mb:30,"
                         "garbage_collection_threshold:0.5,roundup_power2_divisions:4")

    def test_the_users_settings_do_not_stay(self):
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        set_allocator(golden("ddp"))
        self.assertNotIn("PYTORCH_CUDA_ALLOC_CONF", os.environ)


if __name__ == "__main__":
    unittest.main()
