#include <string>

#include <doctest/doctest.h>

#include "runtimes/fsdp/plan.h"
#include "validators/measured/published_plan.h"
#include "validators/measured/row_reader.h"

namespace headroom::check {
namespace {

std::string foundry_row(const std::string& precision) {
  return R"j({"source": "s", "rows": [{"id": "p", "framework": "llm-foundry + Composer (FSDP1)",
    "model": {"name": "MPT", "arch": "mpt (no bias, ALiBi or learned pos per yaml)", "layers": 2,
              "hidden": 64, "heads": 4, "kv_heads": 4, "head_dim": 16, "ffn": 256, "vocab": 512,
              "tied_embeddings": true, "moe": null, "mla": null},
    "gpu": "NVIDIA A100 40GB", "num_gpus": 16, "mode": "train", "tp": 1, "pp": 1,
    "fsdp": "FULL_SHARD, mixed_precision PURE", "optimizer": "DecoupledAdamW (or Lion per sweep)",
    "micro_batch": 3, "global_batch": 112, "num_microbatches": 3, "seq_len": 1024,
    "checkpointing": "full (every block)", "attention": "flash",
    "measured": {"tokens_per_s_per_gpu": 100.0}, "precision": ")j" +
         precision + "\"}]}";
}

PublishedPlanned planned_foundry(const std::string& precision) {
  const auto rows = parse_rows(foundry_row(precision), "book.json");
  REQUIRE(rows);
  ScoreTools tools;
  tools.find_device = [](const std::string& name) -> Result<cost::DeviceSpec> {
    cost::DeviceSpec device;
    device.name = name;
    return device;
  };
  return plan_of_published(rows->front(), tools);
}

}  // namespace

TEST_CASE("published MPT row: blocks without biases under FSDP1, gradients reduced as it says") {
  const PublishedPlanned row = planned_foundry("bf16");
  REQUIRE(std::holds_alternative<PublishedSetting>(row));
  const auto& setting = std::get<PublishedSetting>(row);
  CHECK(setting.run.stands_in);  // MPT's own code is not modelled: no verdict, no bytes.
  CHECK(setting.device.name == "a100-40gb");
  CHECK(fsdp_of(setting.run.plan).version == 1);
  CHECK(fsdp_of(setting.run.plan).reduce_dtype == ir::DType::kBf16);
  CHECK(fsdp_of(setting.run.plan).reshard_after_forward);
  CHECK(setting.run.plan.recompute == ir::Recompute::kFull);
  CHECK(setting.run.plan.workload.accumulation == 3);
  CHECK_FALSE(setting.run.model.qkv_bias);
  CHECK(setting.run.model.position_rows == 1024);
}

TEST_CASE("published MPT row: fp8 skips it with the key") {
  const PublishedPlanned row = planned_foundry("amp_fp8");
  REQUIRE(std::holds_alternative<Skip>(row));
  CHECK(std::get<Skip>(row).reason == "precision: 'amp_fp8'");
}

}  // namespace headroom::check
