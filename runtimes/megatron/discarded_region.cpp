#include "runtimes/megatron/discarded_region.h"

#include <cstdint>
#include <utility>

#include "runtimes/torch/range_scope.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::megatron {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// What the recomputation needs and what it leaves for backward.
struct DiscardedRegion::Again {
  torch::Region region;
  std::int32_t layer = -1;
  std::vector<torch::SavedTensor> saved;  ///< The region's inputs, detached.
  std::vector<Tensor> inputs;             ///< The same inputs during the recomputation.
  std::vector<Tensor> outputs;

  void run(Eager& eager) {
    const torch::RangeScope range(eager, RangeKind::kRecomputation);
    const torch::GradMode grad(eager, true);
    for (torch::SavedTensor& input : saved) {
      inputs.push_back(input.unpack(eager));
    }
    const std::int32_t before = eager.layer();
    eager.set_layer(layer);
    outputs = region(eager, inputs);
    eager.set_layer(before);
  }

  Gradients gradients(Eager& eager, const Gradients& grads) {
    std::vector<Tensor> roots;
    std::vector<Tensor> seeds;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].requires_grad()) {
        roots.push_back(outputs[i]);
        seeds.push_back(grads[i]);
      }
    }
    eager.backward(roots, seeds);
    roots.clear();
    outputs.clear();
    Gradients result;
    for (const Tensor& input : inputs) {
      result.push_back(input.defined() ? Tensor(eager, input->grad) : Tensor{});
    }
    inputs.clear();
    for (torch::SavedTensor& input : saved) {
      input.reset();
    }
    return result;
  }
};

DiscardedRegion::DiscardedRegion(const Runner& run, const std::vector<Tensor>& inputs,
                                 torch::Region region)
    : run_(run), again_(std::make_shared<Again>()) {
  Eager& eager = run.eager();
  again_->region = std::move(region);
  again_->layer = eager.layer();
  for (const Tensor& input : inputs) {
    Tensor detached = eager.alias(input, input.shape(), false);
    detached->layout = input->layout;
    detached->requires_grad = input.requires_grad();
    again_->saved.push_back(eager.save(detached));
  }
  Record record(eager, inputs);
  {
    const torch::GradMode grad(eager, false);
    outputs_ = again_->region(eager, inputs);
  }
  std::vector<Tensor*> results;
  for (Tensor& output : outputs_) {
    results.push_back(&output);
  }
  record.finish(results, [again = again_](Eager& e, Gradients& grads, Node&) -> Gradients {
    return again->gradients(e, grads);
  });
}

void DiscardedRegion::discard_until(const Tensor& hook) {
  Eager& eager = run_.eager();
  std::vector<std::int64_t> bytes;
  for (const Tensor& output : outputs_) {
    bytes.push_back(bytes_of(output.elements(), output.dtype()).value());
    eager.drain_storage(output);
  }
  hook->grad_fn->before_apply = [again = again_, outputs = std::move(outputs_),
                                 bytes](Eager& e) mutable {
    again->run(e);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      e.fill_storage(outputs[i], bytes[i], TensorRole::kActivation);
    }
    outputs.clear();
  };
  outputs_.clear();
}

}  // namespace headroom::ir::megatron
