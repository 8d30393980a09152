#include "runtimes/megatron/offloaded_part.h"

#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// An autograd function that returns its argument as a view, and its gradient unchanged.
template <class Backward>
Tensor marked(const Runner& run, const Tensor& input, Backward backward) {
  Record record(run.eager(), {&input});
  Tensor output = run.eager().alias(input, input.shape(), true);
  output->layout = input->layout;
  record.finish(output, [backward](Eager&, Gradients& grads, Node&) -> Gradients {
    backward();
    return {grads[0]};
  });
  return output;
}

}  // namespace

Tensor OffloadedPart::start(const Tensor& input, OffloadGroup*& group) {
  ActivationOffload& offload = run_.process.offload();
  ActivationOffload::Pass* const pass =
      offload.offloads(module_) ? offload.next_pass(module_) : nullptr;
  if (pass == nullptr) {
    return input;
  }
  group = &offload.start(*pass, module_);
  return marked(run_, input, [&offload, pass] { offload.finish_backward(*pass); });
}

Tensor OffloadedPart::commit(const Tensor& output, std::span<const Tensor> released) {
  ActivationOffload& offload = run_.process.offload();
  ActivationOffload::Pass* const pass =
      offload.offloads(module_) ? offload.current_pass() : nullptr;
  if (pass == nullptr) {
    return output;
  }
  offload.commit(*pass, released);
  return marked(run_, output,
                [&offload, pass, module = module_] { offload.begin_backward(*pass, module); });
}

}  // namespace headroom::ir::megatron
