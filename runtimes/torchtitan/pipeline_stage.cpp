#include "runtimes/torchtitan/pipeline_stage.h"

#include <utility>

#include "runtimes/torch/collective.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

namespace {

/// Bytes of a pickled tuple of one tensor without memory.
constexpr std::int64_t kPickledBytes = 114;

std::size_t at(std::int64_t micro_batch) {
  return static_cast<std::size_t>(micro_batch);
}

}  // namespace

PipelineStage::PipelineStage(Eager& eager, TensorMesh& mesh, ModelPart& part,
                             const StagePlace& place)
    : eager_(eager), part_(part), context_{eager, part.model, mesh, part.hooks}, place_(place) {}

Shape PipelineStage::hidden_shape() const {
  const ParallelPlan& plan = *part_.model.plan;
  const TitanPlan titan = titan_of(plan);
  return {titan.pipeline_batch, plan.workload.sequence / plan.mesh.context / plan.mesh.tensor,
          part_.model.spec->hidden};
}

/// send_object_list or recv_object_list: the shape of a hidden state, and the length of the pickled
/// object.
void PipelineStage::tell_shapes(bool receives) {
  eager_.set_site("pipeline.shapes", -1);
  if (receives) {
    const Tensor sizes = eager_.empty({1}, DType::kInt64);
    { const Tensor sum = eager_.empty({}, DType::kInt64); }
    const Tensor object = eager_.empty({kPickledBytes}, DType::kUInt8);
    return;
  }
  const Tensor object = eager_.empty({kPickledBytes}, DType::kUInt8);
  const Tensor size = eager_.empty({1}, DType::kInt64);
  const Tensor sizes = eager_.empty({1}, DType::kInt64);
}

void PipelineStage::prepare_forward() {
  const TitanPlan titan = titan_of(*part_.model.plan);
  const Shape ids{titan.pipeline_batch,
                  part_.model.plan->workload.sequence / part_.model.plan->mesh.context};
  if (receives_input()) {
    tell_shapes(true);
  }
  {
    eager_.set_site("pipeline.shapes", -1);
    const torch::GradMode grad(eager_, false);
    const Tensor input = place_.chunk.first ? eager_.empty(ids, DType::kInt64)
                                            : eager_.empty(hidden_shape(), DType::kBf16);
    const Tensor output = torchtitan::forward(context_, input);
    if (sends_output()) {
      tell_shapes(false);
    }
  }
  eager_.set_site("pipeline.receive", -1);
  inputs_.resize(at(place_.micro_batches));
  if (place_.chunk.first) {
    return;
  }
  for (Tensor& input : inputs_) {
    input = eager_.empty(hidden_shape(), DType::kBf16, TensorRole::kActivation);
    input->requires_grad = true;
  }
}

void PipelineStage::prepare_backward() {
  eager_.set_site("pipeline.receive", -1);
  gradients_.resize(at(place_.micro_batches));
  if (place_.chunk.last) {
    return;
  }
  for (Tensor& gradient : gradients_) {
    gradient = eager_.empty(hidden_shape(), DType::kBf16, TensorRole::kCommunication);
  }
}

void PipelineStage::clear() {
  kept_.clear();
  for (const Tensor& input : inputs_) {
    if (input.defined()) {
      eager_.drop_grad(input);
    }
  }
}

Tensor PipelineStage::forward(std::int64_t micro_batch, const Tensor& ids) {
  const Tensor input = place_.chunk.first ? ids : inputs_[at(micro_batch)];
  Tensor output = torchtitan::forward(context_, input);
  kept_[micro_batch] = {.output = output, .input = input};
  return output;
}

PipelineStage::Kept PipelineStage::take(std::int64_t micro_batch) {
  const auto found = kept_.find(micro_batch);
  Kept kept = std::move(found->second);
  kept_.erase(found);
  return kept;
}

/// stage_backward.
void PipelineStage::run_backward(std::int64_t micro_batch, const Kept& kept, const Tensor& loss) {
  part_.hooks.hold_gradients();
  if (place_.chunk.last) {
    eager_.set_site("loss", -1);
    const Tensor seed = eager_.empty({}, DType::kFp32, TensorRole::kLogits);
    eager_.backward(loss, seed);
    part_.hooks.finish_backward();
  } else {
    eager_.backward(kept.output, gradients_[at(micro_batch)]);
    part_.hooks.finish_backward();
  }
}

void PipelineStage::backward(std::int64_t micro_batch, const Tensor& loss) {
  const Kept kept = take(micro_batch);
  run_backward(micro_batch, kept, loss);
  if (!place_.chunk.first) {
    sent_[micro_batch] = Tensor(eager_, kept.input->grad);
    eager_.drop_grad(kept.input);
  }
  if (place_.chunk.last) {
    torch::detach_in_place(kept.output);
  }
}

/// The gathered tensors that the stage's modules hold as parameters, in their order.
std::vector<Tensor> PipelineStage::weights() const {
  const Model& model = part_.model;
  std::vector<Tensor> all;
  const auto add = [&all](std::initializer_list<const Tensor*> some) {
    for (const Tensor* const weight : some) {
      if (weight->defined()) {
        all.push_back(*weight);
      }
    }
  };
  add({&model.embedding});
  for (const Block& block : model.blocks) {
    add({&block.wq, &block.wk, &block.wv, &block.wo, &block.w1, &block.w2, &block.w3,
         &block.attention_norm, &block.ffn_norm});
  }
  add({&model.norm, &model.output});
  return all;
}

void PipelineStage::backward_input(std::int64_t micro_batch, const Tensor& loss) {
  Owed owed{.kept = take(micro_batch), .weights = {}};
  if (!place_.chunk.first) {
    part_.hooks.hold_gradients();
    const bool last = place_.chunk.last;
    eager_.set_site("loss", -1);
    const Tensor seed =
        last ? eager_.empty({}, DType::kFp32, TensorRole::kLogits) : gradients_[at(micro_batch)];
    const Tensor& root = last ? loss : owed.kept.output;
    owed.weights = torch::backward_input(eager_, root, seed, owed.kept.input, weights());
    part_.hooks.finish_backward();
    torch::detach_in_place(root);
    sent_[micro_batch] = Tensor(eager_, owed.kept.input->grad);
    if (last) {  // Nobody holds the logits any more; the loss is kept instead.
      torch::detach_in_place(owed.kept.output);
      owed.kept.output = loss;
    }
  }
  owed_[micro_batch] = std::move(owed);
}

void PipelineStage::backward_weight(std::int64_t micro_batch) {
  const auto found = owed_.find(micro_batch);
  Owed owed = std::move(found->second);
  owed_.erase(found);
  if (place_.chunk.first) {
    run_backward(micro_batch, owed.kept, {});
    return;
  }
  part_.hooks.hold_gradients();
  torch::backward_weights(eager_, std::move(owed.weights));
}

Tensor PipelineStage::take_gradient(std::int64_t micro_batch) {
  const auto found = sent_.find(micro_batch);
  if (found == sent_.end()) {
    return {};
  }
  Tensor gradient = std::move(found->second);
  sent_.erase(found);
  return gradient;
}

void PipelineStage::set_input(std::int64_t micro_batch, const Tensor& output) {
  Tensor input = torch::detach(eager_, output);
  input->requires_grad = true;
  inputs_[at(micro_batch)] = std::move(input);
}

void PipelineStage::set_gradient(std::int64_t micro_batch, const Tensor& gradient) {
  gradients_[at(micro_batch)] = gradient;
}

/// ProcessGroupNCCL::pointToPoint calls record_stream on the tensor with its own stream.
void PipelineStage::send(const Tensor& tensor, bool crosses) {
  if (crosses) {
    eager_.record_stream(tensor);
    transfer(CollectiveKind::kSend, true);
  }
}

void PipelineStage::transfer(CollectiveKind kind, bool crosses) {
  if (!crosses) {
    return;
  }
  const bool receives = kind == CollectiveKind::kReceive;
  const CollectiveShape shape{.kind = kind,
                              .bytes = bytes_of(hidden_shape().elements(), DType::kBf16).value(),
                              .group = {.size = 2, .stride = place_.distance},
                              .axis = MeshAxis::kPipeline};
  if (receives) {
    torch::finish_collective(eager_, shape, "receive");
  } else {
    static_cast<void>(torch::start_collective(eager_, shape, "send"));
  }
}

}  // namespace headroom::ir::torchtitan
