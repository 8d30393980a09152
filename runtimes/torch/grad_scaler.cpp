#include "runtimes/torch/grad_scaler.h"

#include <utility>
#include <vector>

#include "model_ir/base/check.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/functions.h"

namespace headroom::ir::torch {

Tensor GradScaler::scalar(DType dtype) {
  return zeros(eager_, Shape{}, dtype, TensorRole::kTemporary);
}

Tensor GradScaler::scale(const Tensor& loss) {
  eager_.set_site("grad_scaler.scale", -1);
  if (!scale_.defined()) {
    scale_ = zeros(eager_, Shape{}, DType::kFp32, TensorRole::kOptimizerState);
    growth_ = zeros(eager_, Shape{}, DType::kInt32, TensorRole::kOptimizerState);
  }
  return mul(eager_, loss, scale_);
}

void GradScaler::check(std::span<const Tensor> parameters, Tensor inverse) {
  Tensor found = scalar(DType::kFp32);
  // One copy of each per device, made when first needed; copies are not kernels.
  found_ = eager_.empty(Shape{}, DType::kFp32, TensorRole::kTemporary);
  Tensor inverse_copy = eager_.empty(Shape{}, DType::kFp32, TensorRole::kTemporary);
  for (const auto& group : groups_by_dtype(parameters, with_gradient(parameters))) {
    launch_list(eager_, parameters, group, ListKernel::kOneList, 2);
    if (reduction_ == FoundReduction::kDTensors) {
      const Tensor sum = eager_.empty(Shape{}, DType::kFp32, TensorRole::kTemporary);
      reduce_found();
    }
  }
  inverse_copy.reset();
  inverse.reset();
  found.reset();
}

void GradScaler::reduce_found() {
  if (ranks_ > 1) {
    eager_.run(
        CollectiveShape{.kind = CollectiveKind::kAllReduce, .bytes = 4, .group = {.size = ranks_}});
  }
}

void GradScaler::unscale(std::span<const Tensor> parameters) {
  HEADROOM_ASSERT(scale_.defined() && !unscaled_);
  eager_.set_site("grad_scaler.unscale", -1);
  // The reciprocal is taken in fp64.
  Tensor wide = scalar(DType::kFp64);
  Tensor reciprocal = scalar(DType::kFp64);
  wide.reset();
  Tensor inverse = scalar(DType::kFp32);
  reciprocal.reset();
  check(parameters, std::move(inverse));
  if (reduction_ == FoundReduction::kInPlace) {
    reduce_found();
  }
  unscaled_ = true;
}

void GradScaler::step(const OptimizerPlan& plan, std::span<const Tensor> parameters,
                      OptimizerState& state) {
  const bool torch_fused = plan.form == OptimizerForm::kFused &&
                           (plan.kind == OptimizerKind::kAdamW || plan.kind == OptimizerKind::kSgd);
  if (torch_fused) {
    fused_step(plan, parameters, state);
    return;
  }
  if (!unscaled_) {
    unscale(parameters);
  }
  torch::step(eager_, plan, parameters, state);
}

void GradScaler::fused_step(const OptimizerPlan& plan, std::span<const Tensor> parameters,
                            OptimizerState& state) {
  eager_.set_site("grad_scaler.step", -1);
  const bool first_check = !unscaled_;
  if (first_check) {
    Tensor one = scalar(DType::kFp32);
    check(parameters, std::move(one));
  }
  Tensor found = scalar(DType::kFp32);  // sum() starts with the number 0: a new tensor.
  Tensor factor;
  if (first_check) {
    factor = scalar(DType::kFp32);
  }
  torch::step(eager_, plan, parameters, state);
  if (plan.kind == OptimizerKind::kAdamW) {
    // Step counts are decremented if an overflow was found.
    for (const auto& group : groups_by_dtype(parameters, with_gradient(parameters))) {
      const std::vector<std::int64_t> counts(group.size(), 1);
      count_kernels(eager_, list_launches(counts, ListKernel::kTwoLists));
    }
  }
  eager_.set_site("grad_scaler.step", -1);
  factor.reset();
  found.reset();
}

void GradScaler::update() {
  eager_.set_site("grad_scaler.update", -1);
  count_kernels(eager_, 1);
  found_.reset();
  unscaled_ = false;
}

}  // namespace headroom::ir::torch
