"""Golden values: arguments of Megatron-LM's training script become a case of the driver, or are refused by name."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import golden


def row(gpu="NVIDIA H100 (dgx_h100)", environment=None, gpus=8, **arguments):
    stated = {"num-layers": "4", "hidden-size": "512", "seq-length": "1024", "micro-batch-size": "2",
              "global-batch-size": "32", "bf16": "true",
              **{key.replace("_", "-"): text for key, text in arguments.items()}}
    return {"id": "test", "gpu": gpu, "num_gpus": gpus, "framework_version": "dev container",
            "model": {"arch": "gpt", "vocab": 50257}, "other": {"model_args": stated, "env": environment or {}}}


class Cases(unittest.TestCase):
    def test_degrees_batches_and_the_last_rank(self):
        case = golden.case_of(row(tensor_model_parallel_size="2", pipeline_model_parallel_size="2",
                                  num_virtual_stages_per_pipeline_rank="2"))
        self.assertEqual((case["tp"], case["pp"], case["chunks"], case["world"], case["rank"]), (2, 2, 2, 8, 7))
        self.assertEqual(case["microbatches"], 8)  # 32 sequences, 2 replicas, 2 sequences in a micro-batch
        self.assertEqual((case["dtype"], case["gpu"]), ("bf16", {"cc": 90}))

    def test_switches_that_are_off(self):
        case = golden.case_of(row(no_rope_fusion="true", disable_bias_linear="true"))
        self.assertFalse(case["rope_fusion"])
        self.assertFalse(case["model"]["bias"])
        self.assertTrue(case["grad_accum_fusion"])  # It is on unless the test says otherwise.

    def test_experts_latent_attention_and_the_layers_that_have_experts(self):
        case = golden.case_of(row(num_experts="8", moe_router_topk="2", moe_layer_freq="([0]*1+[1]*3)",
                                  kv_lora_rank="512", multi_latent_attention="true"))
        self.assertEqual(case["model"]["moe"], {"experts": 8, "moe_layer_freq": [0, 1, 1, 1], "moe_router_topk": 2})
        self.assertEqual(case["model"]["mla"], {"kv_lora_rank": 512})

    def test_a_tokenizer_that_only_counts_has_one_token_more(self):
        self.assertEqual(golden.case_of(row(vocab_size="131072"))["model"]["vocab"], 131073)
        self.assertEqual(golden.case_of(row())["model"]["vocab"], 50257)

    def test_attention_is_what_transformer_engine_chooses(self):
        exact = {"NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0"}
        self.assertEqual(golden.case_of(row())["attention"], "fused")
        self.assertEqual(golden.case_of(row(gpu="NVIDIA A100 (dgx_a100)"))["attention"], "flash")
        self.assertEqual(golden.case_of(row(gpu="NVIDIA GB200 (dgx_gb200)", environment=exact))["attention"], "flash")
        old = row(gpu="NVIDIA A100 (dgx_a100)", environment=exact)
        old["framework_version"] = "lts container; golden file last changed 2025-10-21"
        self.assertEqual(golden.case_of(old)["attention"], "unfused")
        self.assertEqual(golden.case_of(row(attention_backend="unfused"))["attention"], "unfused")

    def test_what_has_no_translation_is_named(self):
        self.assertEqual(golden.case_of(row(use_megatron_fsdp="true", moe_top="2")),
                         "no translation of --moe-top, --use-megatron-fsdp")
        self.assertEqual(golden.case_of(row(gpus=None)), "the number of GPUs is not stated")
        self.assertIn("T4", golden.case_of(row(gpu="NVIDIA T4")))
        for pattern in ("([0]*1+[1]*2)", "[1]*4", "1"):  # Too few layers, and no lists of layers
            self.assertIn("moe-layer-freq", golden.case_of(row(num_experts="8", moe_layer_freq=pattern)))

    def test_patterns_of_layers_with_experts(self):
        self.assertEqual(golden.pattern("([0]*1+[1]*2+[0])"), [0, 1, 1, 0])
        self.assertEqual(golden.pattern("([0,1]*2)"), [0, 1, 0, 1])

    def test_lists_of_sizes_and_recomputation(self):
        case = golden.case_of(row(hierarchical_context_parallel_sizes="2 2", recompute_granularity="selective",
                                  recompute_modules="[layernorm mlp]", decoupled_lr="1e-4",
                                  overlap_p2p_communication_warmup_flush="true"))
        self.assertEqual(case["hier_cp"], [2, 2])
        self.assertEqual(golden.case_of(row(hierarchical_context_parallel_sizes="[2 2]"))["hier_cp"], [2, 2])
        self.assertEqual(case["recompute"], {"granularity": "selective", "modules": ["layernorm", "mlp"]})
        self.assertEqual((case["opt"], case["config"]["overlap_p2p_comm_warmup_flush"]), ({"decoupled_lr": 1e-4}, True))

    def test_rows_of_one_case_run_once(self):
        rows = [{**row(), "id": "a"}, {**row(), "id": "b"}, {**row(bf16="false"), "id": "c"}]
        same = golden.configurations(rows, {each["id"]: golden.case_of(each) for each in rows})
        self.assertEqual([[each["id"] for each in group] for group in same], [["a", "b"], ["c"]])

    def test_the_peak_is_that_of_any_phase(self):
        self.assertEqual(golden.peak_of({"phases": [{"peak_allocated": 5}, {"peak_allocated": 9}, {}]}), 9)


if __name__ == "__main__":
    unittest.main()
