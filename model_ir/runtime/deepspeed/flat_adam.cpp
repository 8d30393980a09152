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

std::size_t moment_count(const OptimizerPlan& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::kNone:
      return 0;
    case OptimizerKind::kSgd:
      return optimizer.momentum > 0 ? 1 : 0;
    case OptimizerKind::kLion:
      return 1;
    case OptimizerKind::kAdamW:
    case OptimizerKind::kAdafactor:
    case OptimizerKind::kAdafactorTorch:
      break;
  }
  return 2;
}

FlatAdam::FlatAdam(EngineState state, std::int64_t elements) : state_(state), elements_(elements) {
  if (state_.offloads_optimizer()) {
    // fp32 moments beside the master copy.
    const auto moments = static_cast<std::int64_t>(moment_count(state_.plan.optimizer));
    state_.hold_offloaded(bytes_of(moments * elements_, DType::kFp32).value());
  }
}

void FlatAdam::step() {
  if (state_.offloads_optimizer() || state_.plan.optimizer.kind == OptimizerKind::kNone) {
    return;
  }
  torch::Eager& eager = state_.eager;
  eager.set_site("deepspeed.adam", -1);
  while (moments_.size() < moment_count(state_.plan.optimizer)) {
    moments_.push_back(eager.empty({elements_}, DType::kFp32, TensorRole::kOptimizerState));
  }
  if (state_.plan.optimizer.kind == OptimizerKind::kAdamW &&
      state_.plan.optimizer.form == OptimizerForm::kForeach) {
    const Tensor roots = eager.empty({elements_}, DType::kFp32, TensorRole::kTemporary);
  }
}

}  // namespace headroom::ir::deepspeed
