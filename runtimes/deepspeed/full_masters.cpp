#include "runtimes/deepspeed/full_masters.h"

#include <utility>

#include "runtimes/deepspeed/gradient_checks.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"

namespace headroom::ir::deepspeed {

using torch::Eager;
using torch::Tensor;

namespace {

Tensor one_element(Eager& eager, DType dtype = DType::kFp32) {
  return eager.empty({1}, dtype, TensorRole::kTemporary);
}

std::int64_t elements_of(const std::vector<Tensor>& tensors) {
  std::int64_t total = 0;
  for (const Tensor& tensor : tensors) {
    total += tensor.elements();
  }
  return total;
}

/// `_flatten_dense_tensors`, after which `tensors` are freed. A single tensor is flat already.
Tensor flatten(Eager& eager, std::vector<Tensor>& tensors, TensorRole role) {
  const torch::Shape shape{elements_of(tensors)};
  Tensor flat = tensors.size() == 1 ? eager.alias(tensors.front(), shape, false)
                                    : torch::computed(eager, shape, tensors.front().dtype(), role);
  torch::release_list(tensors);
  return flat;
}

}  // namespace

void StageZero::after_backward(bool boundary) {
  if (!boundary) {
    return;
  }
  // Source: deepspeed/runtime/engine.py, MEMORY_OPT_ALLREDUCE_SIZE, allreduce_no_retain.
  constexpr std::int64_t kBucketElements = 500'000'000;
  Eager& eager = state_.eager;
  const DType dtype = param_dtype(state_.plan.precision);
  const DType sent_dtype = state_.zero.communication_dtype.value_or(dtype);
  std::int64_t filled = 0;
  int count = 0;
  const auto reduce = [&] {
    Tensor flat;
    if (count > 1) {
      flat = torch::computed(eager, {filled}, dtype, TensorRole::kCommunication);
    }
    Tensor sent;
    if (count > 0 && sent_dtype != dtype) {
      sent = torch::computed(eager, {filled}, sent_dtype, TensorRole::kCommunication);
    }
    if (count > 0) {
      torch::launch_kernels(eager, 2 * bytes_of(filled, dtype).value(),  // Divides by the ranks.
                            torch::elementwise_launches(filled, bits_of(dtype) / 8));
      eager.run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                                .bytes = bytes_of(filled, sent_dtype).value(),
                                .group = {.size = state_.plan.world}});
    }
    filled = 0;
    count = 0;
  };
  eager.set_site("deepspeed.all_reduce", -1);
  for (const Tensor& parameter : state_.model.trainable) {
    if (parameter->grad == nullptr) {  // A parameter that nothing reads.
      set_gradient(eager, parameter,
                   torch::zeros(eager, parameter.shape(), dtype, TensorRole::kGradient));
    }
  }
  for (const Tensor& parameter : state_.model.trainable) {
    filled += parameter.elements();
    ++count;
    if (filled > kBucketElements) {
      reduce();
    }
  }
  reduce();
}

void StageZero::check_overflow() {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.overflow", -1);
  for (const std::vector<Tensor>& group : groups_) {
    for (const Tensor& parameter : group) {
      const Tensor found = has_inf_or_nan(eager, torch::gradient_of(eager, parameter));
    }
  }
  const Tensor flag = one_element(eager, DType::kUInt8);
}

void StageZero::drop_gradients(const std::vector<Tensor>& parameters) {
  for (const Tensor& parameter : parameters) {
    state_.eager.drop_grad(parameter);
  }
}

void UnfusedMasters::initialize() {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.masters", -1);
  for (const std::vector<Tensor>& group : groups_) {
    std::vector<Tensor>& masters = masters_.emplace_back();
    for (const Tensor& parameter : group) {  // parameter.clone().float()
      const Tensor copy = eager.empty(parameter.shape(), parameter.dtype(), TensorRole::kTemporary);
      masters.push_back(
          torch::computed(eager, parameter.shape(), DType::kFp32, TensorRole::kMasterParameter));
    }
  }
  // States are created by a first step on zero gradients of parameters and masters.
  for (const ParameterGroups* groups : {&groups_, &masters_}) {
    for (const std::vector<Tensor>& group : *groups) {
      for (const Tensor& tensor : group) {
        set_gradient(eager, tensor,
                     torch::zeros(eager, tensor.shape(), tensor.dtype(), TensorRole::kTemporary));
      }
    }
  }
  for (std::size_t index = 0; index < masters_.size(); ++index) {
    optimizer_.step(index, masters_[index]);
  }
  for (const ParameterGroups* groups : {&groups_, &masters_}) {
    for (const std::vector<Tensor>& group : *groups) {
      drop_gradients(group);
    }
  }
}

/// `get_weight_norm`: takes each gradient's norm in fp32, squares it and adds it to the sum.
void UnfusedMasters::weigh(const std::vector<Tensor>& parameters) {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.grad_norm", -1);
  Tensor norm;
  Tensor total;
  for (const Tensor& parameter : parameters) {
    Tensor next;
    {
      const Tensor wide =
          torch::computed(eager, parameter.shape(), DType::kFp32, TensorRole::kTemporary);
      next = reduce_all(eager, wide, DType::kFp32);
    }
    norm = std::move(next);
    const Tensor squared = one_element(eager);
    torch::launch_kernels(eager, 0, 2);  // The square and the sum.
    if (!total.defined()) {
      total = one_element(eager);
    }
  }
  const Tensor on_device = one_element(eager);
  total.reset();
}

void UnfusedMasters::step() {
  Eager& eager = state_.eager;
  check_overflow();
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    weigh(groups_[index]);
    eager.set_site("deepspeed.fp32_gradients", -1);
    for (const Tensor& master : masters_[index]) {
      const Tensor gradient =
          torch::computed(eager, master.shape(), DType::kFp32, TensorRole::kGradient);
      torch::launch(eager, {&gradient, &gradient});  // Multiplies by the factor.
      set_gradient(eager, master, gradient);
    }
  }
  for (std::size_t index = 0; index < masters_.size(); ++index) {
    optimizer_.step(index, masters_[index]);
  }
  for (std::size_t index = 0; index < masters_.size(); ++index) {
    for (std::size_t i = 0; i < masters_[index].size(); ++i) {
      torch::launch(eager, {&masters_[index][i], &groups_[index][i]});
    }
    drop_gradients(masters_[index]);
  }
  for (const std::vector<Tensor>& group : groups_) {
    drop_gradients(group);
  }
}

void FusedMasters::initialize() {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.masters", -1);
  for (const std::vector<Tensor>& group : groups_) {
    std::vector<Tensor> copies;
    for (const Tensor& parameter : group) {
      copies.push_back(eager.empty(parameter.shape(), parameter.dtype(), TensorRole::kParameter));
      torch::launch_copy(eager, parameter, copies.back(), torch::CopyOrder::kSame);
    }
    const Tensor flat = flatten(eager, copies, TensorRole::kParameter);
    for (const Tensor& parameter : group) {  // Parameters become views of the flat tensor.
      eager.move_storage(parameter, flat);
    }
    flat_.push_back(flat);
    const Tensor copy = eager.empty(flat.shape(), flat.dtype(), TensorRole::kTemporary);
    masters_.push_back(
        torch::computed(eager, flat.shape(), DType::kFp32, TensorRole::kMasterParameter));
  }
  for (const Tensor& master : masters_) {  // A first step on zero gradients creates states.
    set_gradient(eager, master,
                 torch::zeros(eager, master.shape(), DType::kFp32, TensorRole::kTemporary));
  }
  for (std::size_t index = 0; index < masters_.size(); ++index) {
    optimizer_.step(index, std::span(&masters_[index], 1));
  }
  drop_gradients(masters_);
}

void FusedMasters::step() {
  Eager& eager = state_.eager;
  check_overflow();
  std::vector<Tensor> flat;
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    eager.set_site("deepspeed.fp32_gradients", -1);
    std::vector<Tensor> wide;
    for (const Tensor& parameter : groups_[index]) {
      wide.push_back(
          torch::computed(eager, parameter.shape(), DType::kFp32, TensorRole::kGradient));
    }
    flat.push_back(flatten(eager, wide, TensorRole::kGradient));
    set_gradient(eager, masters_[index], flat.back());
    drop_gradients(groups_[index]);
  }
  eager.set_site("deepspeed.grad_norm", -1);
  {
    Tensor norm;
    for (const Tensor& gradient : flat) {
      Tensor next = reduce_all(eager, gradient, DType::kFp32);
      norm = std::move(next);
    }
    { const Tensor on_device = one_element(eager); }
  }
  for (std::size_t index = 0; index < masters_.size(); ++index) {
    optimizer_.step(index, std::span(&masters_[index], 1));
  }
  drop_gradients(masters_);
  torch::release_list(flat);
}

/// `clip_grad_norm_` in deepspeed/runtime/utils.py.
void PlainOptimizer::clip() {
  Eager& eager = state_.eager;
  eager.set_site("deepspeed.clip", -1);
  std::vector<Tensor> norms;
  for (const Tensor& parameter : state_.model.trainable) {
    norms.push_back(reduce_all(eager, torch::gradient_of(eager, parameter), DType::kFp32));
  }
  const torch::Shape shape{static_cast<std::int64_t>(norms.size())};
  Tensor all = eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  Tensor powers = eager.empty(shape, DType::kFp32, TensorRole::kTemporary);
  all.reset();
  Tensor total = reduce_all(eager, powers, DType::kFp32);
  powers.reset();
  Tensor root = one_element(eager);
  total.reset();
  Tensor product = one_element(eager);
  const Tensor mean = one_element(eager);  // The mean over the ranks.
  product.reset();
  root.reset();
  eager.run(CollectiveShape{
      .kind = CollectiveKind::kAllReduce, .bytes = 4, .group = {.size = state_.plan.world}});
  Tensor most = one_element(eager);  // torch.tensor([max_norm])
  Tensor sum = one_element(eager);
  Tensor ratio = one_element(eager);
  sum.reset();
  Tensor one = one_element(eager);
  Tensor factor = one_element(eager);
  ratio.reset();
  most.reset();
  torch::release_list(norms);
  factor.reset();
  one.reset();
}

void PlainOptimizer::step() {
  if (state_.plan.clip_norm.value_or(0) > 0) {
    clip();
  }
  for (std::size_t index = 0; index < groups_.size(); ++index) {
    optimizer_.step(index, groups_[index]);
  }
  drop_gradients(state_.model.trainable);
}

std::vector<std::vector<Tensor>> FusedMasters::stepped() const {
  std::vector<std::vector<Tensor>> groups;
  for (const Tensor& master : masters_) {
    groups.push_back({master});
  }
  return groups;
}

}  // namespace headroom::ir::deepspeed
