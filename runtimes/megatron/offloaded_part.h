#pragma once

#include <span>

#include "runtimes/megatron/activation_offload.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/transformer_engine.h"

namespace headroom::ir::megatron {

/// One call of a module that --offload-modules may name. Tensors that are saved inside go to the
/// host. A node before the module and one after it tell backward where it is. A module that is not
/// named just runs.
///
///   OffloadedPart part(run, &MegatronOffload::qkv_linear);
///   Tensor output =
///       part.run(input, [&](const Tensor& inside) { return linear(run, inside, ...); });
///   output = part.commit(output, {});
///
/// Source: NVIDIA/Megatron-LM core_v0.16.1, FineGrainedActivationOffloadingInterface.
class OffloadedPart {
 public:
  OffloadedPart(const Runner& run, OffloadModule module) : run_(run), module_(module) {}

  template <class Body>
  [[nodiscard]] auto run(const torch::Tensor& input, const Body& body) {
    OffloadGroup* group = nullptr;
    const torch::Tensor inside = start(input, group);
    const torch::SavedTensorScope hooks(
        run_.eager(), group != nullptr ? group : run_.eager().saved_tensor_hooks());
    return body(inside);
  }
  /// Ends the module's call. Later modules must be done with the tensors in `released`, too: their
  /// memory is freed if what the module saved is offloaded. Backward enters the module through
  /// `output`.
  [[nodiscard]] torch::Tensor commit(const torch::Tensor& output,
                                     std::span<const torch::Tensor> released);

 private:
  [[nodiscard]] torch::Tensor start(const torch::Tensor& input, OffloadGroup*& group);

  Runner run_;
  OffloadModule module_;
};

}  // namespace headroom::ir::megatron
