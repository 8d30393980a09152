// What presets of Megatron-Bridge set and its tables do not state.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/megatron/plan.h"
#include "validators/measured/published_plan.h"
#include "validators/measured/row_reader.h"

namespace headroom::check {
namespace {

/// What rows of these tables differ in.
struct BridgeRow {
  std::string release;
  std::string gpu;
  std::string model = "Qwen3-30B-A3B";
  std::string micro_batch = "4";
  std::string vpp = "1";
  std::string precision = "MXFP8";
  std::string compile = "";
  std::string moe = R"({"experts": 128, "topk": 8, "expert_ffn": 64})";
};

PublishedSetting read_bridge(const BridgeRow& row) {
  const bool deepseek = row.model.starts_with("DeepSeek");
  const std::string text =
      R"({"source": "s", "rows": [{"id": "p", "model": {"name": ")" + row.model +
      R"(", "arch": "qwen3_moe", "layers": 8, "hidden": 64, "heads": 4, "kv_heads": 4,)"
      R"( "head_dim": 16, "ffn": 256, "vocab": 51200, "tied_embeddings": false, "moe": )" +
      row.moe + R"(}, "gpu": "NVIDIA )" + row.gpu + R"(", "num_gpus": 256, "mode": "train",)" +
      R"j( "framework": "Megatron-Bridge (NeMo container )j" + row.release + R"j()", "tp": 1,)j" +
      (deepseek ? R"( "pp": 4, "ep": 64,)" : R"( "pp": 1, "ep": 8,)") + R"( "vpp": )" + row.vpp +
      R"(, "precision": ")" + row.precision + R"(", "optimizer": "adam, distributed",)" +
      R"( "micro_batch": )" + row.micro_batch + R"(, "global_batch": 4096, "seq_len": 4096,)" +
      R"j( "attention": "flash/cuDNN fused (TE)", "compile": ")j" + row.compile +
      R"(", "other": null, "measured": {"step_time_ms": 1100.0}}]})";
  ScoreTools tools;
  tools.find_device = [](const std::string& name) -> Result<cost::DeviceSpec> {
    cost::DeviceSpec device;
    device.name = name;
    return device;
  };
  const auto rows = parse_rows(text, "book.json");
  REQUIRE(rows);
  const PublishedPlanned planned = plan_of_published(rows->front(), tools);
  const Skip* const skip = std::get_if<Skip>(&planned);
  CAPTURE((skip != nullptr ? skip->reason : ""));
  REQUIRE(skip == nullptr);
  return std::get<PublishedSetting>(planned);
}

const std::vector<std::string> kRouter = {"norm", "router"};

}  // namespace

TEST_CASE("presets of Megatron-Bridge: 25.09 has mixtures in graphs, but not on every GPU") {
  CHECK(read_bridge({.release = "25.09", .gpu = "B200"}).run.conditions.all_in_graphs);
  CHECK(!read_bridge({.release = "25.09", .gpu = "H100 80GB"}).run.conditions.all_in_graphs);
  CHECK(!read_bridge({.release = "26.02", .gpu = "B200"}).run.conditions.all_in_graphs);
}

TEST_CASE("presets of Megatron-Bridge: 25.11 exchanges tokens with HybridEP beside Grace") {
  const auto dispatcher = [](const std::string& release, const std::string& gpu) {
    return megatron_of(read_bridge({.release = release, .gpu = gpu}).run.plan).dispatcher;
  };
  CHECK(dispatcher("25.11", "GB200 (192GB)") == ir::MegatronDispatcher::kHybridEp);
  CHECK(dispatcher("25.11", "GB300 (288GB)") == ir::MegatronDispatcher::kHybridEp);
  CHECK(dispatcher("25.11", "B200") == ir::MegatronDispatcher::kAllToAll);
  CHECK(dispatcher("26.02", "GB200 (192GB)") == ir::MegatronDispatcher::kAllToAll);
}

TEST_CASE("presets of Megatron-Bridge: 25.11 settles the rest for rows with a preset's degrees") {
  CHECK(read_bridge({.release = "25.11", .gpu = "GB200 (192GB)"}).run.conditions.graphed ==
        kRouter);
  CHECK(read_bridge({.release = "25.11", .gpu = "GB300 (288GB)"}).run.conditions.graphed.empty());
  const PublishedSetting deepseek =
      read_bridge({.release = "25.11", .gpu = "GB200 (192GB)", .model = "DeepSeek-V3 671B"});
  CHECK(deepseek.run.conditions.graphed == kRouter);
  CHECK(megatron_of(deepseek.run.plan).recompute_modules.latent_up);
  // Interleaved stages overlap their exchange on B200 and H100.
  const auto overlaps = [](const std::string& gpu) {
    return megatron_of(read_bridge({.release = "25.11",
                                    .gpu = gpu,
                                    .model = "Qwen3-30B-A3B",
                                    .micro_batch = "1",
                                    .vpp = "2"})
                           .run.plan)
        .overlap_expert_exchange;
  };
  CHECK(overlaps("B200"));
  CHECK(overlaps("H100 80GB"));
  CHECK(!overlaps("GB300 (288GB)"));
}

TEST_CASE("presets of Megatron-Bridge: whole steps in graphs have fused experts from 26.06 on") {
  const auto fused = [](const std::string& release, const std::string& compile,
                        const std::string& precision) {
    return megatron_of(read_bridge({.release = release,
                                    .gpu = "GB200 (192GB)",
                                    .precision = precision,
                                    .compile = compile})
                           .run.plan)
        .fused_experts;
  };
  const std::string whole = "cuda_graph full_iteration/[]";
  CHECK(fused("26.06", whole, "MXFP8"));
  CHECK(fused("26.06.01", whole, "MXFP8"));
  CHECK(fused("26.08", whole, "MXFP8"));
  CHECK(!fused("26.04", whole, "MXFP8"));
  CHECK(!fused("26.06", whole, "BF16"));
  CHECK(!fused("26.06", "cuda_graph transformer_engine/['moe_router']", "MXFP8"));
}

}  // namespace headroom::check
