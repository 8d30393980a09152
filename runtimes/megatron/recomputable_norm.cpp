#include "runtimes/megatron/recomputable_norm.h"

#include <utility>

#include "runtimes/megatron/te_norm.h"
#include "runtimes/torch/range_scope.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// What the recomputation leaves for backward.
struct RecomputableNorm::Again {
  torch::SavedTensor saved;  ///< The input.
  Tensor input;
  NormWeights weights;
  NormOutput normed;
};

RecomputableNorm::RecomputableNorm(const Runner& run, const Tensor& input,
                                   const NormWeights& weights, bool recompute)
    : run_(run) {
  Eager& eager = run.eager();
  if (!recompute || !eager.grad_enabled()) {
    output_ = norm(run, input, weights);
    return;
  }
  again_ =
      std::make_shared<Again>(Again{.saved = {}, .input = {}, .weights = weights, .normed = {}});
  Record record(eager, {&input, &weights.weight, &weights.bias});
  output_ = std::move(norm_forward(run, input, weights).output);
  again_->saved = eager.save(input);
  record.finish(output_, [run, again = again_](Eager&, Gradients&, Node& node) -> Gradients {
    NormGradients result = norm_backward(run, again->input, node.wants(2));
    result.input->tracked_view = true;
    again->normed = {};
    again->input.reset();
    again->saved.reset();
    return {std::move(result.input), std::move(result.weight), std::move(result.bias)};
  });
}

void RecomputableNorm::discard_until(const Tensor& hook) {
  if (!again_ || hook->grad_fn == nullptr) {
    return;
  }
  Eager& eager = run_.eager();
  const std::int64_t bytes = bytes_of(output_.elements(), output_.dtype()).value();
  eager.drain_storage(output_);
  // The activation of experts may have a hook on the same tensor, which runs first.
  hook->grad_fn->before_apply = [run = run_, again = again_, output = output_, bytes,
                                 first = std::move(hook->grad_fn->before_apply)](Eager& e) mutable {
    if (first) {
      first(e);
    }
    {
      const torch::RangeScope range(e, RangeKind::kRecomputation);
      again->input = again->saved.unpack(e);
      again->normed = norm_forward(run, again->input, again->weights);
    }
    e.fill_storage(output, bytes, TensorRole::kActivation);
    output.reset();
  };
}

}  // namespace headroom::ir::megatron
