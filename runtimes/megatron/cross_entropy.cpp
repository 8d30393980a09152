#include <utility>

#include "runtimes/megatron/head.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

void reduce_over_ranks(const Runner& run, std::int64_t elements) {
  run.eager().run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                                  .bytes = bytes_of(elements, DType::kFp32).value(),
                                  .group = run.context.grid.tensor.group(),
                                  .axis = MeshAxis::kTensor});
}

/// Launches kernels that read and write `bytes` bytes in all for each element of the logits.
void launch_over(Eager& eager, const torch::Shape& logits, std::int64_t bytes) {
  torch::launch_kernels(eager, logits.elements() * bytes);
}

/// A kernel of Transformer Engine that reads or writes each token's logits `times` times.
void launch_rows(Eager& eager, const Tensor& logits, std::int64_t times = 1) {
  torch::launch_kernels(eager, times * torch::bytes_of(logits), 1, TrafficKind::kCrossEntropy);
}

/// Kernels over the tokens, which are so short that only their launches matter.
void launch_per_token(const Runner& run, std::int64_t launches) {
  torch::launch_kernels(run.eager(), launches * run.context.tokens() * 8, launches);
}

/// What the forward saves, and its result.
struct Losses {
  Tensor probabilities;  ///< exp(logits - max) divided by its sum, fp32.
  Tensor target_mask;
  Tensor target;
  Tensor loss;
};

/// Makes tensors of one element per token.
class PerToken {
 public:
  explicit PerToken(const Runner& run) : run_(run) {}
  [[nodiscard]] Tensor make(DType dtype) const {
    return run_.eager().empty({run_.context.tokens()}, dtype, TensorRole::kLogits);
  }

 private:
  const Runner& run_;
};

/// VocabParallelCrossEntropy, operator by operator.
Losses unfused_losses(const Runner& run, const Tensor& logits) {
  const PerToken per(run);
  Losses result;
  // float() of fp32 logits returns the same tensor, which is then changed in place.
  result.probabilities = logits.dtype() == DType::kFp32
                             ? logits
                             : run.eager().empty(logits.shape(), DType::kFp32, TensorRole::kLogits);
  if (logits.dtype() != DType::kFp32) {
    torch::launch(run.eager(), {&logits, &result.probabilities});
  }
  const Tensor maximum = per.make(DType::kFp32);
  { const Tensor indices = per.make(DType::kInt64); }
  launch_over(run.eager(), logits.shape(), 4);  // Maximum.
  reduce_over_ranks(run, run.context.tokens());
  launch_over(run.eager(), logits.shape(), 8);  // Subtracts the maximum, in place.
  launch_per_token(run, 9);
  {
    const Tensor below = per.make(DType::kBool);
    const Tensor above = per.make(DType::kBool);
    result.target_mask = per.make(DType::kBool);
  }
  {
    const Tensor clone = per.make(DType::kInt64);
    result.target = per.make(DType::kInt64);
  }
  Tensor predicted;
  Tensor sum;
  {
    const Tensor range = per.make(DType::kInt64);
    {
      const Tensor picked = per.make(DType::kFp32);
      predicted = per.make(DType::kFp32);
    }
    sum = per.make(DType::kFp32);
  }
  launch_over(run.eager(), logits.shape(), 8);  // exp, in place.
  launch_over(run.eager(), logits.shape(), 4);  // Sum.
  reduce_over_ranks(run, run.context.tokens());
  reduce_over_ranks(run, run.context.tokens());
  launch_per_token(run, 2);
  launch_over(run.eager(), logits.shape(), 8);  // Division, in place.
  const Tensor logarithm = per.make(DType::kFp32);
  result.loss = per.make(DType::kFp32);
  return result;
}

/// The same in compiled regions between the reductions. They read and write whole logits in fp32
/// instead of changing them in place. The two sums are reduced as one.
Losses fused_losses(const Runner& run, const Tensor& logits) {
  const PerToken per(run);
  Eager& eager = run.eager();
  Losses result;
  result.probabilities = logits.dtype() == DType::kFp32
                             ? logits  // float() of fp32 logits returns the same tensor.
                             : eager.empty(logits.shape(), DType::kFp32, TensorRole::kLogits);
  const Tensor maximum = per.make(DType::kFp32);
  launch_over(eager, logits.shape(), bits_of(logits.dtype()) / 8 + 4);
  reduce_over_ranks(run, run.context.tokens());
  result.target_mask = per.make(DType::kBool);
  result.target = per.make(DType::kInt64);
  Tensor both;
  {
    const Tensor predicted = per.make(DType::kFp32);
    const Tensor sum = per.make(DType::kFp32);
    both = eager.empty({2, run.context.tokens()}, DType::kFp32, TensorRole::kLogits);
  }
  { const Tensor exponentials = eager.empty(logits.shape(), DType::kFp32, TensorRole::kLogits); }
  // One kernel writes the exponentials to a new array and copies them over the logits.
  launch_over(eager, logits.shape(), 16);
  launch_per_token(run, 3);
  reduce_over_ranks(run, 2 * run.context.tokens());
  result.loss = per.make(DType::kFp32);
  launch_over(eager, logits.shape(), 8);
  return result;
}

/// TE's parallel_cross_entropy: the kernel writes the gradient over the logits.
/// Source: transformer_engine/pytorch/triton/cross_entropy.py.
Losses te_losses(const Runner& run, const Tensor& logits) {
  constexpr std::int64_t kStatistics = 3;  // Maximum, denominator and the target's logit.
  const PerToken per(run);
  Eager& eager = run.eager();
  const std::int64_t ranks = run.context.grid.tensor.size;
  const std::int64_t own = kStatistics * run.context.tokens();
  Losses result;
  result.loss = per.make(DType::kFp32);
  const Tensor statistics = eager.empty({own}, DType::kFp32, TensorRole::kLogits);
  if (ranks > 1) {
    const Tensor gathered = eager.empty({own * ranks}, DType::kFp32, TensorRole::kLogits);
    eager.run(CollectiveShape{.kind = CollectiveKind::kAllGather,
                              .bytes = bytes_of(gathered.elements(), DType::kFp32).value(),
                              .group = run.context.grid.tensor.group(),
                              .axis = MeshAxis::kTensor});
  }
  // online_softmax_kernel reads the logits; cross_entropy_kernel reads and writes them.
  launch_rows(eager, logits);
  launch_rows(eager, logits, 2);
  result.probabilities = logits;
  return result;
}

/// The result of the compiled backward is bf16, whatever the type of the logits.
Tensor fused_gradient(const Runner& run, const torch::Shape& logits) {
  Eager& eager = run.eager();
  const Tensor wide = eager.empty(logits, DType::kFp32, TensorRole::kLogits);
  launch_over(eager, logits, 8);   // A copy of the probabilities.
  launch_per_token(run, 1);        // Subtracts one at each target.
  launch_over(eager, logits, 10);  // The gradient, and its copy back over the probabilities.
  return eager.empty(logits, DType::kBf16, TensorRole::kLogits);
}

Gradients loss_gradients(const Runner& run, Gradients&, Node& node) {
  Eager& eager = run.eager();
  const torch::Unpacked saved(eager, node);
  const PerToken per(run);
  switch (run.context.megatron.cross_entropy) {
    case MegatronCrossEntropy::kNative:
      return {fused_gradient(run, node.input_shapes[0])};
    case MegatronCrossEntropy::kTransformerEngine: {
      {
        const Tensor one = eager.empty({1}, DType::kFp32, TensorRole::kLogits);
      }
      if (run.context.plan.workload.micro_batch > 1) {
        const Tensor contiguous = per.make(DType::kFp32);
      }
      launch_rows(eager, saved[0], 2);  // element_mul_kernel
      return {saved[0]};
    }
    case MegatronCrossEntropy::kUnfused:
      break;
  }
  const Tensor range = per.make(DType::kInt64);
  Tensor update;
  {
    const Tensor wide = per.make(DType::kFp32);
    update = per.make(DType::kFp32);
  }
  { const Tensor picked = per.make(DType::kFp32); }
  launch_per_token(run, 5);
  launch_over(eager, node.input_shapes[0], 8);  // Multiplies by the incoming gradient, in place.
  return {saved[0]};
}

Losses losses_of(const Runner& run, const Tensor& logits) {
  switch (run.context.megatron.cross_entropy) {
    case MegatronCrossEntropy::kNative:
      return fused_losses(run, logits);
    case MegatronCrossEntropy::kTransformerEngine:
      return te_losses(run, logits);
    case MegatronCrossEntropy::kUnfused:
      break;
  }
  return unfused_losses(run, logits);
}

}  // namespace

Tensor token_losses(const Runner& run, const Tensor& logits, const Tensor& labels) {
  Eager& eager = run.eager();
  eager.set_site("cross_entropy", -1);
  const PerToken per(run);
  const bool several = run.context.plan.workload.micro_batch > 1;
  const Tensor targets = several ? per.make(DType::kInt64) : labels;
  Record record(eager, {&logits});
  Tensor loss;
  {
    Losses losses = losses_of(run, logits);
    record.save(losses.probabilities);
    record.save(losses.target_mask);
    record.save(losses.target);
    loss = std::move(losses.loss);
  }
  record.finish(loss, [run](Eager&, Gradients& grads, Node& node) -> Gradients {
    return loss_gradients(run, grads, node);
  });
  // transpose(0, 1).contiguous()
  return several ? contiguous_copy(run, loss) : loss;
}

}  // namespace headroom::ir::megatron
