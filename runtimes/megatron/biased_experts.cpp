#include "runtimes/megatron/biased_experts.h"

#include <utility>

#include "runtimes/megatron/expert_rows.h"
#include "runtimes/megatron/fused.h"
#include "runtimes/megatron/grouped_linear.h"
#include "runtimes/megatron/rows.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_latent.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::computed;
using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// chunk(2, -1): the results are views; backward concatenates the gradients.
std::pair<Tensor, Tensor> halves(const Runner& run, const Tensor& input) {
  Eager& eager = run.eager();
  Record record(eager, {&input});
  const Shape half = input.shape().with(-1, input.shape()[-1] / 2);
  std::pair<Tensor, Tensor> parts{eager.alias(input, half, true), eager.alias(input, half, true)};
  // The rows are not contiguous.
  parts.first->layout = parts.second->layout = torch::Layout::kSwapped;
  Tensor* const outputs[] = {&parts.first, &parts.second};
  record.finish(outputs, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return {computed(e, node.input_shapes[0], grads[0].dtype(), {&grads[0], &grads[1]})};
  });
  return parts;
}

/// `bias * probabilities` of [H] and [R, 1]. Backward makes each gradient in full size and then
/// sums it down.
Tensor weighted_bias(const Runner& run, const Tensor& bias, const Tensor& probabilities) {
  Eager& eager = run.eager();
  Record record(eager, {&bias, &probabilities});
  record.save(probabilities);
  record.save(bias);
  Tensor output = computed(eager, {probabilities.elements(), bias.elements()},
                           probabilities.dtype(), {&probabilities});
  record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
    const torch::Unpacked saved(e, node);
    Gradients result(2);
    for (Tensor& gradient : result) {
      gradient = computed(e, grads[0].shape(), grads[0].dtype(), {&grads[0]});
    }
    return result;
  });
  return output;
}

/// In this scope, operators run PyTorch's own kernels.
class Unfused {
 public:
  explicit Unfused(Eager& eager) : eager_(eager), before_(eager.exchange_unfused(true)) {}
  ~Unfused() { eager_.exchange_unfused(before_); }
  Unfused(const Unfused&) = delete;
  Unfused& operator=(const Unfused&) = delete;

 private:
  Eager& eager_;
  bool before_;
};

}  // namespace

Tensor clamped_quick_geglu(const Runner& run, const Tensor& input, const Tensor& probabilities) {
  Eager& eager = run.eager();
  Tensor joined;
  {
    const Unfused unfused(eager);
    const auto [gate, straight] = halves(run, input);
    const Tensor below = torch::clamp(eager, gate, torch::ClampBounds::kUpper);
    const Tensor inside = torch::clamp(eager, straight, torch::ClampBounds::kBoth);
    joined = torch::cat_last(eager, below, inside);
  }
  const Tensor offset = torch::filled(eager, {}, input.dtype());
  return weighted_gate(run, joined, probabilities, offset);
}

Tensor add_expert_biases(const Runner& run, const Tensor& output, const std::vector<Tensor>& biases,
                         const Tensor& probabilities) {
  Eager& eager = run.eager();
  const Unfused unfused(eager);
  const std::vector<std::int64_t> rows = expert_rows(output.shape()[0], biases.size());
  const std::vector<Tensor> parts = split_rows(eager, output, rows);
  const std::vector<Tensor> shares = split_rows(eager, probabilities, rows);
  std::vector<Tensor> sums;
  for (std::size_t i = 0; i < biases.size(); ++i) {
    const Tensor product = weighted_bias(run, biases[i], shares[i]);
    sums.push_back(torch::add(eager, parts[i], product));
  }
  const Tensor joined = join_rows(eager, sums);
  sums.clear();
  return joined.dtype() == output.dtype() ? joined : torch::to(eager, joined, output.dtype());
}

}  // namespace headroom::ir::megatron
