// Optimizer::resume and save: dist_checkpointing of Megatron-Core's optimizers.

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "runtimes/megatron/optimizer.h"
#include "runtimes/megatron/plan.h"

namespace headroom::ir::megatron {

using torch::Tensor;

/// FusedAdam.load_state_dict: torch's own part casts what is given to the parameters' type; then
/// each parameter gets new states, while those that were given live on.
void Optimizer::renew_states() {
  torch::Eager& eager = context_.eager;
  const std::vector<Tensor> given = std::exchange(states_, {});
  const std::vector<Tensor> given_masters =
      context_.megatron.precision_aware ? std::exchange(main_, {}) : std::vector<Tensor>{};
  std::vector<Tensor> casts;
  const DType parameter = context_.megatron.precision_aware ? context_.dtype : DType::kFp32;
  for (const Tensor& state : given) {
    if (state.dtype() != parameter) {
      casts.push_back(eager.empty(state.shape(), parameter, TensorRole::kTemporary));
    }
  }
  for (const std::int64_t elements : shards_) {
    make_states(elements);
  }
}

void Optimizer::resume() {
  if (context_.megatron.optimizer_offload > 0) {
    return;  // Its states are on the host, or come with the first step.
  }
  context_.eager.set_site("load_state_dict", -1);
  for (const std::int64_t elements : shards_) {
    make_states(elements);
  }
  if (context_.megatron.distributed_optimizer) {
    renew_states();  // sharded_state_dict(is_loading=True)
  }
  renew_states();  // What dist_checkpointing.load has read into the states.
}

void Optimizer::save() {
  constexpr std::string_view kSource =
      "Megatron-Core 0.16.1 strategies/filesystem_async.py, preload_tensors: pinned copies of all "
      "that a rank writes";
  const bool precise = context_.megatron.precision_aware;
  const std::int64_t moment_bits = context_.megatron.bf16_moments ? 16 : 32;
  const std::array<std::int64_t, 4> bits = {bits_of(context_.dtype), precise ? 16 : 32, moment_bits,
                                            moment_bits};
  // Every rank writes its shards, or its share of what the data-parallel ranks hold alike.
  const std::int64_t alike = experts_ ? context_.grid.expert_data.size
                                      : context_.grid.data.size * context_.grid.context.size;
  const std::int64_t sharing = context_.megatron.distributed_optimizer ? 1 : alike;
  Bytes requested;
  Bytes taken;
  for (const std::int64_t elements : shards_) {
    for (const std::int64_t each : bits) {
      requested += Bytes{elements * each / 8};
      taken += Bytes{pinned_block(elements * each / 8)};
    }
  }
  context_.eager.program().host.push_back({.use = HostUse::kSaving,
                                           .span = HostSpan::kSaving,
                                           .pinned = true,
                                           .requested = Bytes{requested.value() / sharing},
                                           .bytes = Bytes{taken.value() / sharing},
                                           .source = kSource});
}

}  // namespace headroom::ir::megatron
