#include "model_ir/runtime/deepspeed/wrapper.h"

namespace headroom::ir::deepspeed {

using torch::Tensor;

void FullMasters::initialize() {
  torch::Eager& eager = state_.eager;
  eager.set_site("deepspeed.masters", -1);
  for (const Tensor& parameter : state_.model.trainable) {
    // parameter.clone().float()
    const Tensor copy = eager.empty(parameter.shape(), parameter.dtype(), TensorRole::kTemporary);
    masters_.push_back(eager.empty(parameter.shape(), DType::kFp32, TensorRole::kMasterParameter));
  }
  // States are made by a first step on zero gradients.
  std::vector<Tensor> gradients;
  for (const DType dtype : {state_.model.trainable.front().dtype(), DType::kFp32}) {
    for (const Tensor& parameter : state_.model.trainable) {
      gradients.push_back(eager.empty(parameter.shape(), dtype, TensorRole::kTemporary));
    }
  }
  for (const Tensor& parameter : state_.model.trainable) {
    for (std::size_t i = 0; i < moment_count(state_.plan.optimizer); ++i) {
      states_.push_back(eager.empty(parameter.shape(), DType::kFp32, TensorRole::kOptimizerState));
    }
  }
  if (state_.plan.optimizer.form == OptimizerForm::kForeach) {
    for (const Tensor& parameter : state_.model.trainable) {
      gradients.push_back(eager.empty(parameter.shape(), DType::kFp32, TensorRole::kTemporary));
    }
  }
}

void FullMasters::after_backward() {
  // The engine's all-reduce flattens gradients into buckets of its own size.
  // Source: deepspeed/runtime/engine.py, MEMORY_OPT_ALLREDUCE_SIZE.
  constexpr std::int64_t kBucketElements = 500'000'000;
  torch::Eager& eager = state_.eager;
  std::int64_t bucket = 0;
  const auto reduce = [&] {
    if (bucket > 0) {
      const Tensor flat =
          eager.empty({bucket}, state_.model.trainable.front().dtype(), TensorRole::kCommunication);
      bucket = 0;
    }
  };
  eager.set_site("deepspeed.all_reduce", -1);
  for (const Tensor& parameter : state_.model.trainable) {
    bucket += parameter.elements();
    if (bucket > kBucketElements) {
      reduce();
    }
  }
  reduce();
}

void FullMasters::step() {
  torch::Eager& eager = state_.eager;
  eager.set_site("deepspeed.adam", -1);
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : state_.model.trainable) {
    gradients.push_back(eager.empty(parameter.shape(), DType::kFp32, TensorRole::kGradient));
  }
  if (state_.plan.optimizer.form == OptimizerForm::kForeach) {
    for (const Tensor& parameter : state_.model.trainable) {
      gradients.push_back(eager.empty(parameter.shape(), DType::kFp32, TensorRole::kTemporary));
    }
  }
}

}  // namespace headroom::ir::deepspeed
