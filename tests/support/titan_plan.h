#pragma once

#include <cstdint>
#include <string>

#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/hf_config.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::test {

/// Three layers, H 1024, 8 heads of size 128, 4 KV heads, V 32000.
[[nodiscard]] inline ir::ModelSpec titan_model(const std::string& family) {
  const bool llama = family == "llama";
  return ir::parse_hf_config(R"({"hidden_size": 1024, "num_hidden_layers": 3, "vocab_size": 32000,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 128,
    "tie_word_embeddings": false, "intermediate_size": )" +
                                 std::string(llama ? "2816" : "3072") + R"(, "model_type": ")" +
                                 family + "\"}",
                             "three layers")
      .value();
}

/// A run as torchtitan's Trainer sets it up: FSDP2 on `world` ranks, fp32 masters, fused AdamW, one
/// sequence of 1024 tokens, and expandable segments, which its launcher enables.
[[nodiscard]] inline ir::ParallelPlan titan_plan(std::int64_t world,
                                                 const ir::TitanPlan& titan = {},
                                                 const ir::Mesh& mesh = {}) {
  ir::ParallelPlan plan;
  plan.runtime = "torchtitan";
  plan.precision = ir::Precision::kFp32;
  plan.optimizer.form = ir::OptimizerForm::kFused;
  plan.workload.sequence = 1024;
  plan.world = world;
  edit_fsdp(plan) = {};
  edit_titan(plan) = titan;
  plan.mesh = mesh;
  plan.allocator.expandable_segments = true;
  return plan;
}

}  // namespace headroom::test
