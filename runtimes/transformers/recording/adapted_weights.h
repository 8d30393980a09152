#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/expert_adapter.h"
#include "runtimes/transformers/model.h"

namespace headroom::ir::transformers {

/// Parameters of experts and routers with adapters, which recorded operators read: PEFT puts the
/// sum of a parameter and the product of its adapter's factors in its place while the module runs.
/// Source: huggingface/peft src/peft/tuners/lora/layer.py, ParamWrapper, _activate_lora.
class AdaptedWeights {
 public:
  /// None without LoRA on experts.
  explicit AdaptedWeights(const Model& model);

  /// The sums of one call of a layer, in the order in which they were made.
  struct Call {
    struct Weight {
      std::uint32_t parameter = 0;
      FoldedWeight experts;
      RouterWeight router;
      torch::Tensor sum;
    };
    std::vector<Weight> weights;
  };

  [[nodiscard]] bool empty() const { return adapted_.empty(); }
  [[nodiscard]] bool contains(std::uint32_t parameter) const;
  /// The sum that stands for `parameter`, which has an adapter, among those that `scope` names.
  [[nodiscard]] torch::Tensor sum_for(torch::Eager& eager, const Model& model,
                                      std::uint32_t parameter, const RecordedScope& scope,
                                      Call& call) const;

 private:
  void prepare(torch::Eager& eager, const Model& model, std::uint32_t parameter, Call& call) const;

  std::vector<std::uint32_t> adapted_;  ///< Indices of parameters, ascending.
};

}  // namespace headroom::ir::transformers
