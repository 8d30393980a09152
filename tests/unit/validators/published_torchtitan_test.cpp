#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "runtimes/fsdp/plan.h"
#include "runtimes/torchtitan/plan.h"
#include "validators/measured/published_plan.h"
#include "validators/measured/row_reader.h"

namespace headroom::check {
namespace {

/// A row of torchtitan's benchmarks; `with` replaces the value of a key.
std::string titan_row(const std::string& key = "", const std::string& with = "") {
  const std::pair<const char*, const char*> keys[] = {
      {"framework", R"j("torchtitan (FSDP2)")j"},
      {"model", R"({"name": "m", "arch": "llama", "layers": 2, "hidden": 64, "heads": 4,)"
                R"( "kv_heads": 2, "head_dim": 16, "ffn": 128, "vocab": 256,)"
                R"( "tied_embeddings": false, "moe": null, "mla": null})"},
      {"gpu", R"("NVIDIA H200")"},
      {"num_gpus", "16"},
      {"mode", R"("train")"},
      {"tp", "2"},
      {"pp", "1"},
      {"precision", R"("fp32 master params, bf16 FSDP param/compute, fp32 reduce")"},
      {"optimizer", R"("AdamW fused")"},
      {"micro_batch", "2"},
      {"global_batch", "32"},
      {"seq_len", "4096"},
      {"checkpointing", R"j("selective op (torchtitan policy)")j"},
      {"attention", R"("SDPA flash")"},
      {"fsdp", R"("HSDP 2x4")"},
      {"compile", R"("none")"},
      {"other", R"j({"loss": "chunked CE (8 chunks)", "reshard_after_forward": "never"})j"},
      {"measured", R"({"peak_mem_value": 2, "peak_mem_unit": "GiB",)"
                   R"( "mem_metric": "max_reserved"})"}};
  std::string text = R"({"source": "s", "rows": [{"id": "p")";
  for (const auto& [name, value] : keys) {
    text += ", \"" + std::string(name) + "\": " + (name == key ? with : value);
  }
  return text + "}]}";
}

PublishedPlanned planned_row(const std::string& key = "", const std::string& with = "") {
  ScoreTools tools;
  tools.find_device = [](const std::string& name) -> Result<cost::DeviceSpec> {
    cost::DeviceSpec device;
    device.name = name;
    return device;
  };
  const auto rows = parse_rows(titan_row(key, with), "book.json");
  REQUIRE(rows);
  return plan_of_published(rows->front(), tools);
}

std::string skip_of_titan(const std::string& key, const std::string& with) {
  const PublishedPlanned planned = planned_row(key, with);
  const Skip* skip = std::get_if<Skip>(&planned);
  return skip != nullptr ? skip->reason : "(planned)";
}

}  // namespace

TEST_CASE("published row: torchtitan's words become its modelling code and its choices") {
  const PublishedPlanned planned = planned_row();
  REQUIRE(std::holds_alternative<PublishedSetting>(planned));
  const ir::ParallelPlan& plan = std::get<PublishedSetting>(planned).run.plan;
  CHECK(plan.runtime == "torchtitan");
  CHECK(plan.precision == ir::Precision::kFp32);
  CHECK(plan.mesh.replicas == 2);
  CHECK(plan.mesh.tensor == 2);
  CHECK(titan_of(plan).selective_operators);
  CHECK(titan_of(plan).reshard == ir::TitanReshard::kNever);
  CHECK(plan.loss == ir::LossKind::kChunked);
  CHECK(plan.optimizer.form == ir::OptimizerForm::kFused);
  CHECK_FALSE(plan.allocator.expandable_segments);
  CHECK(plan.workload.accumulation == 2);  // 32 sequences, eight data-parallel ranks of two.
}

TEST_CASE("published row: torchtitan's blocks are compiled where the row says so") {
  const PublishedPlanned planned = planned_row("compile", R"("torch.compile per block")");
  REQUIRE(std::holds_alternative<PublishedSetting>(planned));
  CHECK(titan_of(std::get<PublishedSetting>(planned).run.plan).compiled);
}

TEST_CASE("published row: experiments on torchtitan's branches run its own launcher") {
  const PublishedPlanned planned =
      planned_row("framework", R"j("torchtitan (agent experiment branch)")j");
  REQUIRE(std::holds_alternative<PublishedSetting>(planned));
  CHECK(std::get<PublishedSetting>(planned).run.plan.allocator.expandable_segments);
}

TEST_CASE("published row: what torchtitan's code is not modelled for is named by its key") {
  CHECK(skip_of_titan("compile", R"("aot_fx_trace graph")") == "compile: 'aot_fx_trace graph'");
  CHECK(skip_of_titan("precision", R"("fp32 params; float8")") ==
        "precision: 'fp32 params; float8'");
  CHECK(skip_of_titan("pp", "8") == "pp: must be 1");
  CHECK(skip_of_titan("fsdp", R"("DDP")") == "fsdp: 'DDP'");
  CHECK(skip_of_titan("fsdp", R"("HSDP many")") == "fsdp: 'HSDP many'");
  CHECK(skip_of_titan("checkpointing", R"("compiler memory budget 0.8")") ==
        "checkpointing: 'compiler memory budget 0.8'");
  CHECK(skip_of_titan("attention", R"("FlexAttention")") == "attention: 'FlexAttention'");
  CHECK(skip_of_titan("other", R"j({"loss": "chunked CE (4 chunks)"})j") ==
        "other.loss: 'chunked CE (4 chunks)'");
}

}  // namespace headroom::check
