#include "model_ir/runtime/deepspeed/wrapper.h"

namespace headroom::ir::deepspeed {

using torch::Tensor;

void EngineState::hold_offloaded(std::int64_t bytes) const {
  RankProgram& program = eager.program();
  (zero.offload_optimizer == OffloadDevice::kNvme ? program.nvme_bytes : program.host_bytes) +=
      bytes;
}

std::int64_t partition_elements(std::int64_t elements, std::int64_t ranks) {
  return align_up(elements, 2 * ranks) / ranks;
}

FlatAdam::FlatAdam(EngineState state, std::int64_t elements) : state_(state), elements_(elements) {
  if (state_.offloads_optimizer()) {
    // Two fp32 moments beside the master copy.
    state_.hold_offloaded(bytes_of(2 * elements_, DType::kFp32).value());
  }
}

void FlatAdam::step() {
  if (state_.offloads_optimizer() || state_.plan.optimizer.kind == OptimizerKind::kNone) {
    return;
  }
  torch::Eager& eager = state_.eager;
  eager.set_site("deepspeed.adam", -1);
  while (moments_.size() < 2) {
    moments_.push_back(eager.empty({elements_}, DType::kFp32, TensorRole::kOptimizerState));
  }
  if (state_.plan.optimizer.form == OptimizerForm::kForeach) {
    const Tensor roots = eager.empty({elements_}, DType::kFp32, TensorRole::kTemporary);
  }
}

}  // namespace headroom::ir::deepspeed
