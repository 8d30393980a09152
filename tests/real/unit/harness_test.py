"""A row's case in the words of the plan's training script. PyTorch is not needed: its users are replaced."""
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "drivers"))
sys.modules["headroom_torch.parallel"] = types.SimpleNamespace(shard_layers=None, wrap_layers=None)

import harness


class Plans(unittest.TestCase):
    def plan(self, **parallel):
        return harness.plan_of({"parallel": {"world": 4, **parallel}})["fsdp"]

    def test_strategies_of_fsdp1(self):
        self.assertEqual(self.plan(kind="fsdp1", strategy="NO_SHARD")["replicas"], 4)
        self.assertFalse(self.plan(kind="fsdp1", strategy="SHARD_GRAD_OP")["reshard_after_forward"])
        self.assertTrue(self.plan(kind="fsdp1")["reshard_after_forward"])
        self.assertEqual(self.plan(kind="fsdp1", prefetch=None)["backward_prefetch"], "none")

    def test_what_does_not_speak_of_tied_embeddings_is_taken_as_tied(self):
        def shards_embeddings(**config):
            parallel = {"kind": "fsdp2", "world": 4, "shard_embeddings": True}
            return harness.plan_of({"parallel": parallel, "config": config})["fsdp"]["shard_embeddings"]

        self.assertFalse(shards_embeddings())
        self.assertFalse(shards_embeddings(tie_word_embeddings=True))
        self.assertTrue(shards_embeddings(tie_word_embeddings=False))

    def test_a_number_is_a_smaller_group_of_fsdp2(self):
        self.assertEqual(self.plan(kind="fsdp2", reshard=2)["reshard_ranks"], 2)
        self.assertEqual(self.plan(kind="fsdp2", reshard=True)["reshard_ranks"], 0)
        self.assertFalse(self.plan(kind="fsdp2", reshard=False)["reshard_after_forward"])


if __name__ == "__main__":
    unittest.main()
