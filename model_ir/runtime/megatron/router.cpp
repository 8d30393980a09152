// The router of a mixture of experts.
#include "model_ir/runtime/megatron/router.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model_ir/runtime/megatron/process.h"
#include "model_ir/runtime/torch/launch.h"
#include "model_ir/runtime/torch/record.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// What the router keeps, in the order in which it was made.
enum RouterSaved : std::uint8_t {
  kHidden,
  kWeight,
  kChosen,  ///< int64 [T, top_k]
  kScores,  ///< fp32 [T, top_k]
  kAuxScores,
  kAuxCounts,
  kAuxLoss,
};

/// Tensors of the router, by their shapes: each what one kernel writes.
class RouterTensors {
 public:
  RouterTensors(Eager& eager, const ExpertSizes& sizes) : eager_(eager), sizes_(sizes) {}
  [[nodiscard]] Tensor all(DType dtype) const {
    return torch::computed(eager_, {sizes_.tokens, sizes_.experts}, dtype);
  }
  [[nodiscard]] Tensor chosen(DType dtype) const {
    return torch::computed(eager_, {sizes_.tokens, sizes_.top_k}, dtype);
  }
  [[nodiscard]] Tensor per_expert(DType dtype) const {
    return torch::computed(eager_, {sizes_.experts}, dtype);
  }
  [[nodiscard]] Tensor kept(DType dtype) const {
    return torch::computed(eager_, {*sizes_.capacity, sizes_.experts}, dtype);
  }
  [[nodiscard]] Tensor scalar() const { return torch::computed(eager_, {1}, DType::kFp32); }
  /// zeros_like(logits).int().scatter(...).bool()
  [[nodiscard]] Tensor map(DType dtype) const {
    Tensor zeros = all(dtype);
    Tensor integers = all(DType::kInt32);
    zeros.reset();
    const Tensor scattered = all(DType::kInt32);
    integers.reset();
    return all(DType::kBool);
  }
  /// softmax of fp32 scores, forward and back: a product beside the result.
  [[nodiscard]] Tensor softmax_backward(const Shape& shape) const {
    Tensor result = torch::computed(eager_, shape, DType::kFp32);
    const Tensor product = torch::computed(eager_, shape, DType::kFp32);
    return result;
  }

 private:
  Eager& eager_;
  const ExpertSizes& sizes_;
};

struct Chosen {
  Tensor indices;
  Tensor scores;
  Tensor probabilities;
  Tensor map;
};

/// topk_routing_with_score_function, softmax after top-k.
Chosen choose(const RouterTensors& make, DType dtype) {
  Chosen result;
  const Tensor values = make.chosen(dtype);
  result.indices = make.chosen(DType::kInt64);
  {
    const Tensor wide = make.chosen(DType::kFp32);
    result.scores = make.chosen(DType::kFp32);
  }
  const Tensor narrow = make.chosen(dtype);
  {
    const Tensor zeros = make.all(dtype);
    result.probabilities = make.all(dtype);
  }
  result.map = make.map(dtype);
  return result;
}

/// apply_router_token_dropping, by probability: what an expert has no room for is masked.
void drop_tokens(const RouterTensors& make, DType dtype, Chosen& chosen) {
  const Tensor values = make.kept(dtype);
  const Tensor indices = make.kept(DType::kInt64);
  Tensor zeros = make.all(dtype);
  Tensor scattered = make.all(dtype);
  zeros.reset();
  Tensor map = make.all(DType::kBool);
  scattered.reset();
  chosen.probabilities = make.all(dtype);
  chosen.map = std::move(map);
}

struct AuxLoss {
  Tensor scores;
  Tensor counts;
  Tensor loss;
};

/// The load-balancing loss over all scores. Source: moe_utils.py,
/// compute_routing_scores_for_aux_loss, switch_load_balancing_loss_func.
AuxLoss balance(const Runner& run, const RouterTensors& make, DType dtype) {
  AuxLoss result;
  {
    const Tensor wide = make.all(DType::kFp32);
    result.scores = make.all(DType::kFp32);
  }
  Tensor map;
  {
    const Tensor values = make.chosen(dtype == DType::kFp32 ? dtype : DType::kFp32);
    const Tensor indices = make.chosen(DType::kInt64);
    map = make.map(dtype);
  }
  result.counts = make.per_expert(DType::kInt64);
  { const Tensor wide = make.all(DType::kInt64); }
  const Mesh& mesh = run.context.mesh;
  if (const std::int64_t ranks = mesh.tensor.size * mesh.context.size; ranks > 1) {
    // Tensor-parallel ranks lie side by side, and context-parallel ones next to them.
    run.eager().run(
        CollectiveShape{.kind = CollectiveKind::kAllReduce,
                        .bytes = bytes_of(result.counts.elements(), DType::kInt64).value(),
                        .group = {.size = ranks}});
  }
  const Tensor sums = make.per_expert(DType::kFp32);
  {
    Tensor product = make.per_expert(DType::kFp32);
    const Tensor total = make.scalar();
    product.reset();
    result.loss = make.scalar();
  }
  { const Tensor logged = make.scalar(); }
  return result;
}

/// From the gradient of the load-balancing loss to that of the logits.
Tensor balance_backward(const RouterTensors& make, DType dtype, Node& node, const Shape& all) {
  Tensor gradient;
  for (int step = 0; step < 3; ++step) {
    gradient = make.scalar();
  }
  node.saved[kAuxLoss].reset();
  gradient = make.scalar();
  gradient = make.per_expert(DType::kFp32);
  node.saved[kAuxCounts].reset();
  Tensor scores = make.softmax_backward(all);
  gradient.reset();
  node.saved[kAuxScores].reset();
  return dtype == DType::kFp32 ? std::move(scores) : make.all(dtype);
}

Gradients router_gradients(const Runner& run, const ExpertSizes& sizes, Gradients& grads,
                           Node& node) {
  Eager& eager = run.eager();
  const RouterTensors make(eager, sizes);
  const DType dtype = run.context.dtype;
  Tensor logits;
  if (run.context.megatron.aux_loss) {
    logits = balance_backward(make, dtype, node, {sizes.tokens, sizes.experts});
  }
  Tensor probabilities = std::move(grads[0]);
  if (sizes.capacity) {
    probabilities = make.all(dtype);
  }
  Tensor chosen = make.chosen(dtype);
  probabilities.reset();
  chosen = make.chosen(DType::kFp32);
  Tensor scores = make.softmax_backward({sizes.tokens, sizes.top_k});
  chosen.reset();
  node.saved[kScores].reset();
  chosen = make.chosen(dtype);
  scores.reset();
  Tensor scattered = make.all(dtype);
  chosen.reset();
  node.saved[kChosen].reset();
  if (!logits.defined()) {
    logits = std::move(scattered);
  }
  scattered.reset();
  Gradients result(2);
  eager.touch_cublas();
  result[0] = eager.empty(node.input_shapes[0], dtype);
  eager.run(GemmShape{.m = sizes.tokens,
                      .n = sizes.hidden,
                      .k = sizes.experts,
                      .dtype = dtype,
                      .layout = GemmLayout::kNN});
  result[1] = eager.empty(node.input_shapes[1], dtype);
  eager.run(GemmShape{.m = sizes.experts,
                      .n = sizes.hidden,
                      .k = sizes.tokens,
                      .dtype = dtype,
                      .layout = GemmLayout::kNT});
  return result;
}

}  // namespace

ExpertSizes expert_sizes(const Runner& run, std::int64_t tokens) {
  const Context& context = run.context;
  const MoeSpec& moe = *context.spec.moe;
  ExpertSizes sizes{.tokens = tokens,
                    .hidden = context.spec.hidden,
                    .experts = moe.experts,
                    .local = moe.experts / context.mesh.expert.size,
                    .top_k = moe.top_k,
                    .ffn = moe.expert_ffn / context.mesh.expert_tensor.size,
                    .received = 0,
                    .sent = tokens * moe.top_k,
                    .capacity = {}};
  if (context.megatron.capacity_factor) {
    const double share = static_cast<double>(tokens * moe.top_k) / static_cast<double>(moe.experts);
    sizes.capacity =
        static_cast<std::int64_t>(std::ceil(share * *context.megatron.capacity_factor));
    sizes.sent = *sizes.capacity * moe.experts;
  }
  // One rank alone keeps what it has; padded experts take their capacity.
  const bool even = context.mesh.expert.size == 1 || sizes.capacity;
  sizes.received = even ? sizes.sent
                        : std::max<std::int64_t>(1, std::llround(static_cast<double>(sizes.sent) *
                                                                 context.megatron.expert_load));
  return sizes;
}

Routing route(const Runner& run, const Tensor& hidden, const Tensor& weight,
              const ExpertSizes& sizes) {
  Eager& eager = run.eager();
  const DType dtype = run.context.dtype;
  const RouterTensors make(eager, sizes);
  Record record(eager, {&hidden, &weight});
  eager.touch_cublas();
  eager.run(GemmShape{.m = sizes.tokens, .n = sizes.experts, .k = sizes.hidden, .dtype = dtype});
  const Tensor logits = eager.empty({sizes.tokens, sizes.experts}, dtype);
  Chosen chosen = choose(make, dtype);
  if (sizes.capacity) {
    drop_tokens(make, dtype, chosen);
  }
  AuxLoss loss;
  if (run.context.megatron.aux_loss && eager.grad_enabled()) {
    loss = balance(run, make, dtype);
  }
  if (record.active()) {
    record.save(hidden);
    record.save(weight);
    record.save(chosen.indices);
    record.save(chosen.scores);
    record.save(loss.scores);
    record.save(loss.counts);
    record.save(loss.loss);
  }
  record.finish(chosen.probabilities,
                [run, sizes](Eager&, Gradients& grads, Node& node) -> Gradients {
                  return router_gradients(run, sizes, grads, node);
                });
  return {.probabilities = std::move(chosen.probabilities), .map = std::move(chosen.map)};
}

}  // namespace headroom::ir::megatron
