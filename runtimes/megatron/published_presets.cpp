// What the presets of Megatron-Bridge's releases set and its tables of throughput do not state.

#include "runtimes/megatron/published_presets.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace headroom::ir::megatron {
namespace {

/// A row's release and GPU, as its tables write them.
struct Machine {
  std::string release;  ///< Such as "25.11"; empty for other frameworks.
  std::string gpu;

  [[nodiscard]] bool is(std::string_view name) const {
    return gpu.starts_with("NVIDIA " + std::string(name));
  }
  [[nodiscard]] bool has_grace() const { return is("GB200") || is("GB300"); }
};

Machine machine_of(RunReader& row) {
  constexpr std::string_view kBefore = "Megatron-Bridge (NeMo container ";
  const std::string framework = row.text("framework", "");
  Machine machine{.release = {}, .gpu = row.text("gpu", "")};
  if (framework.starts_with(kBefore) && framework.ends_with(")")) {
    machine.release = framework.substr(kBefore.size(), framework.size() - kBefore.size() - 1);
  }
  return machine;
}

/// Release 25.09: mixtures of experts whose recipes set `cuda_graphs`, which captures whole layers.
/// Source: NVIDIA-NeMo/Megatron-Bridge v0.1.0rc4, scripts/performance/configs/qwen3, perf_matrix.
void apply_2509(const Machine& machine, PublishedRun& run) {
  const std::string& model = run.model.name;
  const bool small = model.starts_with("Qwen3-30B") && !machine.is("H100");
  const bool large = model.starts_with("Qwen3-235B") && machine.is("GB200");
  run.conditions.all_in_graphs |= small || large;
}

/// Release 25.11: interleaved stages of Qwen3 on H100 and B200 overlap their all-to-alls. Qwen3 and
/// DeepSeek-V3 on GB200 and GB300 exchange tokens with HybridEP. The other settings are taken from
/// a preset only if the row has its degrees, because the tables ran others, too.
/// Source: NVIDIA-NeMo/Megatron-Bridge v0.2.0, scripts/performance/configs/{qwen3,deepseek}/
///         workload_base_configs.py.
void apply_2511(const Machine& machine, PublishedRun& run) {
  MegatronPlan& megatron = edit_megatron(run.plan);
  const std::string& model = run.model.name;
  const bool qwen = model.starts_with("Qwen3");
  const bool deepseek = model.starts_with("DeepSeek-V3");
  if (qwen && megatron.layers_per_chunk > 0 && (machine.is("H100") || machine.is("B200"))) {
    overlap_exchange(megatron);
  }
  if ((qwen || deepseek) && machine.has_grace()) {
    megatron.dispatcher = MegatronDispatcher::kHybridEp;
  }
  const Mesh& mesh = run.plan.mesh;
  const std::int64_t micro_batch = run.plan.workload.micro_batch;
  const bool small = model.starts_with("Qwen3-30B") && mesh.pipeline == 1 && mesh.expert == 8;
  const bool like_preset = (small && machine.is("GB200") && micro_batch == 4) ||
                           (small && machine.is("B200") && micro_batch == 1);
  const bool large = deepseek && machine.is("GB200") && mesh.pipeline == 4 && mesh.expert == 64;
  if (like_preset || large) {
    graph_layer_parts({.router = true}, run.conditions);
  }
  if (large) {
    megatron.recompute = MegatronRecompute::kSelective;
    megatron.recompute_modules.latent_up = true;
    megatron.recompute_modules.core_attention = false;
  }
}

/// Releases 26.06 and 26.08: presets of MXFP8 that capture the whole step set
/// `cutedsl_fused_grouped_mlp`. (They also set `fp8_dot_product_attention`, which is not modelled:
/// docs/time-model.md.)
/// Source: NVIDIA-NeMo/Megatron-Bridge v0.5.0, scripts/performance/configs/qwen/
///         qwen3_workload_base_configs.py; utils/overrides.py.
void apply_fused_experts(PublishedRun& run) {
  MegatronPlan& megatron = edit_megatron(run.plan);
  const std::optional<MoeSpec>& moe = run.model.moe;
  megatron.fused_experts = run.conditions.all_in_graphs && megatron.fp8 == MegatronFp8::kMxfp8 &&
                           moe && !moe->expert_bias;
}

}  // namespace

void graph_layer_parts(GraphedParts parts, RunConditions& conditions) {
  const auto add = [&conditions](std::string_view operation) {
    conditions.graphed.emplace_back(operation);
  };
  if (parts.attention) {
    constexpr std::array<std::string_view, 5> kAttention = {"qkv", "head_norm", "rope", "attention",
                                                            "attention_out"};
    std::ranges::for_each(kAttention, add);
  }
  if (parts.router) {
    constexpr std::array<std::string_view, 2> kRouter = {"norm", "router"};
    std::ranges::for_each(kRouter, add);
  }
}

void overlap_exchange(MegatronPlan& plan) {
  plan.overlap_expert_exchange = plan.delayed_weight_gradients = true;
  plan.tp_comm_overlap = false;
}

void apply_bridge_preset(RunReader& row, PublishedRun& run) {
  const Machine machine = machine_of(row);
  if (!run.model.moe) {
    return;
  }
  if (machine.release == "25.09") {
    apply_2509(machine, run);
  } else if (machine.release == "25.11") {
    apply_2511(machine, run);
  } else if (machine.release.starts_with("26.06") || machine.release.starts_with("26.08")) {
    apply_fused_experts(run);
  }
}

}  // namespace headroom::ir::megatron
