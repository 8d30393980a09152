#include "runtimes/deepspeed/bf16_optimizer.h"

#include <utility>

#include "runtimes/deepspeed/gradient_checks.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/foreach.h"

namespace headroom::ir::deepspeed {

using torch::Eager;
using torch::Tensor;

bool Bf16Optimizer::is_chosen(const ParallelPlan& plan, const ZeroPlan& zero) {
  return zero.stage == 1 && plan.precision == Precision::kBf16Master &&
         zero.grad_accum_dtype == DType::kFp32 && zero.offload_optimizer == OffloadDevice::kNone;
}

void Bf16Optimizer::initialize() {
  Eager& eager = state_.eager;
  for (const std::vector<Tensor>& group : groups_) {
    std::int64_t elements = 0;
    for (const Tensor& parameter : group) {
      elements += parameter.elements();
    }
    const std::int64_t partition = partition_elements(elements, state_.plan.world);
    const std::int64_t padded = partition * state_.plan.world;
    eager.set_site("deepspeed.flatten", -1);
    if (padded == elements && group.size() == 1) {
      flat_.push_back(eager.alias(group.front(), {padded}, false));
    } else {
      const Tensor zeros =
          padded > elements ? eager.empty({padded - elements}, DType::kBf16, TensorRole::kTemporary)
                            : Tensor{};
      flat_.push_back(eager.empty({padded}, DType::kBf16, TensorRole::kParameter));
    }
    for (const Tensor& parameter : group) {  // Parameters become views of the flat tensor.
      eager.move_storage(parameter, flat_.back());
    }
    eager.set_site("deepspeed.masters", -1);
    {
      const Tensor copy = eager.empty({partition}, DType::kBf16, TensorRole::kTemporary);
      masters_.push_back(eager.empty({partition}, DType::kFp32, TensorRole::kMasterParameter));
    }
    gradients_.push_back(torch::zeros(eager, {padded}, DType::kFp32, TensorRole::kGradient));
  }
}

void Bf16Optimizer::after_backward(bool boundary) {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.fp32_gradients", -1);
  for (const std::vector<Tensor>& group : groups_) {
    for (const Tensor& parameter : group) {
      const Tensor wide = eager.empty(parameter.shape(), DType::kFp32, TensorRole::kTemporary);
    }
  }
  if (!boundary) {
    return;
  }
  // Groups are flattened together until they exceed the engine's own bucket.
  // Source: runtime/engine.py, MEMORY_OPT_ALLREDUCE_SIZE, allreduce_no_retain.
  constexpr std::int64_t kBucketElements = 500'000'000;
  eager.set_site("deepspeed.all_reduce", -1);
  for (std::size_t first = 0; first < gradients_.size();) {
    std::size_t next = first;
    std::int64_t elements = 0;
    while (next < gradients_.size() && elements <= kBucketElements) {
      elements += gradients_[next++].elements();
    }
    Tensor flat = gradients_[first];
    if (next - first > 1) {
      flat = eager.empty({elements}, DType::kFp32, TensorRole::kCommunication);
    }
    const DType dtype = state_.zero.communication_dtype.value_or(DType::kBf16);
    const Tensor sent =
        dtype != DType::kFp32 ? eager.empty({elements}, dtype, TensorRole::kCommunication) : flat;
    eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                              .bytes = bytes_of(elements, dtype).value(),
                              .group = {.size = state_.plan.world}});
    first = next;
  }
}

/// `get_global_norm_of_tensors` takes a norm of each parameter's part of the fp32 gradients.
void Bf16Optimizer::weigh() {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.grad_norm", -1);
  std::vector<Tensor> norms;
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    for (const Tensor& parameter : groups_[index]) {
      const Tensor part = eager.alias(gradients_[index], {parameter.elements()}, false);
      norms.push_back(reduce_all(eager, part, DType::kFp32));
    }
  }
  const torch::Shape shape{static_cast<std::int64_t>(norms.size())};
  Tensor all = eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  Tensor powers = eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  all.reset();
  Tensor total = reduce_all(eager, powers, DType::kFp32);
  Tensor root = eager.empty({}, DType::kFp32, TensorRole::kOptimizerState);
  mask_invalid(eager, root);
  torch::release_list(norms);
  total.reset();
  powers.reset();
  norm_ = std::move(root);
  check_norm(eager, norm_);
}

/// `clip_tensors_by_global_norm` scales the gradients in place.
void Bf16Optimizer::make_clip_coefficient() {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.clip", -1);
  const auto scalar = [&](DType dtype) {
    torch::count_kernels(eager, 1);
    return eager.empty({}, dtype, TensorRole::kTemporary);
  };
  Tensor sum = scalar(DType::kFp32);
  Tensor reciprocal = scalar(DType::kFp32);
  Tensor coefficient = scalar(DType::kFp32);
  reciprocal.reset();
  sum.reset();
  { const Tensor below = scalar(DType::kBool); }
  coefficient.reset();
}

void Bf16Optimizer::step() {
  Eager& eager = state_.eager;
  const Tensor before = std::move(norm_);  // The engine rebinds its name after the step.
  weigh();
  if (state_.plan.clip_norm.value_or(0) > 0) {
    make_clip_coefficient();
  }
  for (std::size_t index = 0; index < masters_.size(); ++index) {
    set_gradient(eager, masters_[index],
                 eager.alias(gradients_[index], masters_[index].shape(), false));
  }
  for (std::size_t index = 0; index < masters_.size(); ++index) {
    optimizer_.step(index, std::span(&masters_[index], 1));
  }
  for (const Tensor& flat : flat_) {
    state_.count_all_gather(flat.elements(), DType::kBf16);
  }
  for (const std::vector<Tensor>& group : groups_) {
    for (const Tensor& parameter : group) {
      eager.drop_grad(parameter);
    }
  }
}

std::vector<std::vector<Tensor>> Bf16Optimizer::stepped() const {
  std::vector<std::vector<Tensor>> groups;
  for (const Tensor& master : masters_) {
    groups.push_back({master});
  }
  return groups;
}

}  // namespace headroom::ir::deepspeed
