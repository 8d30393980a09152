#include "gui/whatif/scenario.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

namespace headroom::gui {
namespace {

using ir::Precision;

constexpr std::array kTorchPrecisions = {Precision::kBf16,         Precision::kBf16AutocastBf16,
                                         Precision::kAutocastBf16, Precision::kAutocastFp16,
                                         Precision::kFp16,         Precision::kFp32};
// DeepSpeed keeps 16-bit parameters beside an fp32 master copy of its own.
// Source: deepspeedai/DeepSpeed deepspeed/runtime/engine.py, _configure_bf16_optimizer.
constexpr std::array kDeepspeedPrecisions = {Precision::kBf16Master, Precision::kFp16Master,
                                             Precision::kFp32};

// What shards are stored in; FSDP's policy casts from there.
constexpr std::array kFsdpPrecisions = {Precision::kFp32, Precision::kBf16};

/// The recipe nearest to `precision` among those that `runtime` has.
Precision nearest(Precision precision, std::string_view runtime) {
  const auto offered = precisions_of(runtime);
  if (std::find(offered.begin(), offered.end(), precision) != offered.end()) {
    return precision;
  }
  const bool sixteen = precision == Precision::kFp16 || precision == Precision::kAutocastFp16 ||
                       precision == Precision::kFp16Master;
  if (runtime == "deepspeed" || runtime == "megatron") {
    return sixteen ? Precision::kFp16Master : Precision::kBf16Master;
  }
  return sixteen && runtime != "fsdp" ? Precision::kFp16 : Precision::kBf16;
}

/// Gives the plan Megatron's part and takes away what that part says otherwise.
void settle_megatron(ir::ParallelPlan& plan) {
  ir::MegatronPlan megatron = plan.megatron.value_or(ir::MegatronPlan{});
  if (plan.world % (megatron.tensor * megatron.pipeline * megatron.context) != 0) {
    megatron.tensor = 1;
    megatron.pipeline = 1;
    megatron.context = 1;
  }
  megatron.sequence_parallel = megatron.tensor > 1;
  if (plan.recompute != ir::Recompute::kNone) {
    megatron.recompute = ir::MegatronRecompute::kFullUniform;
  }
  const ir::ParallelPlan usual;
  plan.megatron = megatron;
  plan.recompute = usual.recompute;
  plan.recompute_every = usual.recompute_every;
  plan.attention = usual.attention;
  plan.loss = usual.loss;
  if (plan.optimizer.kind != ir::OptimizerKind::kAdamW ||
      plan.optimizer.form != ir::OptimizerForm::kFused) {
    plan.optimizer = usual.optimizer;
  }
}

}  // namespace

ModelSource model_source(std::string_view text) {
  const std::filesystem::path path(text);
  std::error_code fault;
  const bool spelt_as_path = text.ends_with(".json") || text.ends_with(".gguf") ||
                             text.starts_with('.') || text.starts_with('/');
  // A Hugging Face id holds a slash, too.
  const bool there = text.find('/') != std::string_view::npos && exists(path, fault);
  if (!spelt_as_path && !there) {
    return {.kind = ModelSource::Kind::kCatalogue, .text = std::string(text)};
  }
  const bool folder = is_directory(path, fault);
  return {.kind = ModelSource::Kind::kFile,
          .text = folder ? (path / "config.json").string() : std::string(text)};
}

Scenario default_scenario() {
  return settled({.model = {.kind = ModelSource::Kind::kCatalogue, .text = "llama-3.1-8b"},
                  .gpu = "a100-80gb",
                  .plan = {},
                  .budget = Bytes{0}});
}

std::span<const Precision> precisions_of(std::string_view runtime) {
  if (runtime == "fsdp") {
    return kFsdpPrecisions;
  }
  if (runtime == "deepspeed" || runtime == "megatron") {
    return kDeepspeedPrecisions;  // Megatron's optimizer keeps such a copy, too.
  }
  return kTorchPrecisions;
}

Scenario settled(Scenario scenario) {
  ir::ParallelPlan& plan = scenario.plan;
  const bool deepspeed = plan.runtime == "deepspeed";
  if (!deepspeed) {
    plan.zero.reset();
  } else if (!plan.zero) {
    plan.zero.emplace();
    plan.zero->stage = 2;
  }
  const bool fsdp = plan.runtime == "fsdp";
  if (!fsdp) {
    plan.fsdp.reset();
  } else if (!plan.fsdp || plan.world % plan.fsdp->replicas != 0) {
    plan.fsdp = ir::FsdpPlan{};
  }
  const bool megatron = plan.runtime == "megatron";
  if (megatron) {
    settle_megatron(plan);
  } else {
    plan.megatron.reset();
  }
  if (fsdp || megatron) {
    plan.lora.reset();
  }
  if (deepspeed || fsdp || megatron || plan.world == 1) {
    plan.ddp.reset();
  } else if (!plan.ddp) {
    plan.ddp = ir::DdpPlan{};
  }
  plan.precision = nearest(plan.precision, plan.runtime);
  if (!plan.lora) {
    plan.quant.reset();
  }
  return scenario;
}

}  // namespace headroom::gui
