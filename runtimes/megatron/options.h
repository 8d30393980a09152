#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/interface/option.h"
#include "runtimes/megatron/plan.h"

/// The options of Megatron-Core. Their names are those of Megatron-LM's arguments; degrees have the
/// usual letters.
namespace headroom::ir {

/// A module that selective recomputation can name.
struct MegatronModule {
  std::string_view name;
  bool MegatronModules::*value;
};

/// A module whose saved tensors can be offloaded to the host.
struct MegatronOffloadModule {
  std::string_view name;
  bool MegatronOffload::*value;
};

[[nodiscard]] std::span<const MegatronModule> megatron_modules();
[[nodiscard]] std::span<const MegatronOffloadModule> megatron_offload_modules();
/// The modules that selective recomputation recomputes. If none is chosen, this is core attention.
/// Source: megatron/core/transformer/transformer_config.py, __post_init__.
[[nodiscard]] MegatronModules recomputed_modules(const MegatronPlan& megatron);
/// The names of the chosen modules.
[[nodiscard]] std::vector<std::string> names_of(const MegatronModules& modules);
[[nodiscard]] std::vector<std::string> names_of(const MegatronOffload& modules);
/// Errors:  kInvalidArgument naming `key`, all modules, and the closest one.
[[nodiscard]] Result<MegatronOffload> parse_offload_modules(std::string_view key,
                                                            const std::vector<std::string>& names);
[[nodiscard]] std::span<const Word<MegatronAttention>> megatron_attention_words();
[[nodiscard]] std::span<const Word<MegatronContext>> megatron_context_words();
[[nodiscard]] std::span<const Word<MegatronDispatcher>> megatron_dispatcher_words();
[[nodiscard]] std::span<const Word<MegatronCrossEntropy>> megatron_cross_entropy_words();
[[nodiscard]] std::span<const Word<MegatronFp8>> megatron_fp8_words();
[[nodiscard]] std::span<const Word<MegatronRecompute>> megatron_recompute_words();

namespace megatron {

/// `ParallelPlan::megatron` with its table of options.
[[nodiscard]] const PlanPart& options();

}  // namespace megatron

}  // namespace headroom::ir
