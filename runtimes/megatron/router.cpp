// The router of a mixture of experts.
#include "runtimes/megatron/router.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "runtimes/megatron/process.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// Tensors that the router saves, in the order in which they were made.
enum RouterSaved : std::uint8_t {
  kHidden,
  kWeight,
  kChosen,  ///< int64 [T, top_k]
  kScores,  ///< fp32 [T, top_k]
  kAuxScores,
  kAuxCounts,
  kAuxLoss,
};

/// Kernels of an unsorted topk along `length` elements of each of `slices`. Each slice has one
/// block. A few long slices have several blocks each, and passes over eight bits of a value at a
/// time.
/// Source: pytorch/pytorch 2.11 aten/src/ATen/native/cuda/TensorTopK.cu, should_use_multiblock,
///         mbtopk::launch (a fill, three kernels per pass, two scans by key of two kernels each,
///         the counts of a block's k-th value, the result).
std::int64_t topk_launches(std::int64_t slices, std::int64_t length, DType dtype) {
  struct Threshold {
    std::int64_t slices;  ///< Largest number of slices.
    std::int64_t length;  ///< Smallest length.
  };
  constexpr std::array<Threshold, 7> kSeveralBlocks = {{{20, 20'000},
                                                        {40, 10'000},
                                                        {80, 8'000},
                                                        {199, 5'000},
                                                        {799, 3'000},
                                                        {4'000, 800},
                                                        {65'535, 400}}};
  const auto found = std::ranges::find_if(
      kSeveralBlocks, [slices](const Threshold& each) { return slices <= each.slices; });
  if (found == kSeveralBlocks.end() || length < found->length) {
    return 1;
  }
  constexpr std::int64_t kRadixBits = 8;
  return 7 + 3 * (bits_of(dtype) / kRadixBits);
}

/// Makes tensors of the router by their shapes. One kernel writes each tensor.
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
  [[nodiscard]] Tensor picked(DType dtype) const {
    return eager_.empty({*sizes_.capacity, sizes_.experts}, dtype);
  }
  /// Unsorted topk over each expert's tokens, which writes `picked`.
  void pick(const Tensor& values) const {
    const std::int64_t bytes = torch::bytes_of(values);
    torch::launch_kernels(eager_,
                          bytes + sizes_.tokens * sizes_.experts * bits_of(values.dtype()) / 8,
                          topk_launches(sizes_.experts, sizes_.tokens, values.dtype()));
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
  /// softmax of fp32 scores, forward and backward. Backward makes a product besides its result.
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
  const bool casts = dtype != DType::kFp32;
  const Tensor values = make.chosen(dtype);
  result.indices = make.chosen(DType::kInt64);
  {
    const Tensor wide = casts ? make.chosen(DType::kFp32) : Tensor{};
    result.scores = make.chosen(DType::kFp32);
  }
  const Tensor narrow = casts ? make.chosen(dtype) : Tensor{};
  {
    const Tensor zeros = make.all(dtype);
    result.probabilities = make.all(dtype);
  }
  result.map = make.map(dtype);
  return result;
}

/// apply_router_token_dropping by probability: masks the tokens beyond an expert's capacity.
void drop_tokens(const Runner& run, const RouterTensors& make, DType dtype, Chosen& chosen) {
  const Tensor values = make.picked(dtype);
  const Tensor indices = make.picked(DType::kInt64);
  make.pick(values);
  run.process.layer_offload().hold(indices);
  Tensor zeros = make.all(dtype);
  Tensor scattered = make.all(dtype);
  zeros.reset();
  Tensor map = make.all(DType::kBool);
  scattered.reset();
  chosen.probabilities = make.all(dtype);
  chosen.map = std::move(map);
  run.process.layer_offload().hold(chosen.map);
}

struct AuxLoss {
  Tensor scores;
  Tensor counts;
  Tensor loss;
};

/// The load-balancing loss over all scores.
/// Source: moe_utils.py, compute_routing_scores_for_aux_loss, switch_load_balancing_loss_func.
AuxLoss balance(const Runner& run, const RouterTensors& make, DType dtype) {
  AuxLoss result;
  {
    const Tensor wide = dtype == DType::kFp32 ? Tensor{} : make.all(DType::kFp32);
    result.scores = make.all(DType::kFp32);
  }
  run.process.layer_offload().hold(result.scores);
  Tensor map;
  {
    const Tensor values = make.chosen(dtype == DType::kFp32 ? dtype : DType::kFp32);
    const Tensor indices = make.chosen(DType::kInt64);
    run.process.layer_offload().hold(indices);
    map = make.map(dtype);
  }
  result.counts = make.per_expert(DType::kInt64);
  { const Tensor wide = make.all(DType::kInt64); }
  const RankGrid& grid = run.context.grid;
  if (const std::int64_t ranks = grid.tensor.size * grid.context.size; ranks > 1) {
    // Tensor-parallel ranks are adjacent, and context-parallel ranks come next.
    run.eager().run(
        CollectiveShape{.kind = CollectiveKind::kAllReduce,
                        .bytes = bytes_of(result.counts.elements(), DType::kInt64).value(),
                        .group = {.size = ranks},
                        .axis = grid.tensor.size > 1 ? MeshAxis::kTensor : MeshAxis::kContext});
  }
  {
    const Tensor sums = make.per_expert(DType::kFp32);
    Tensor product = make.per_expert(DType::kFp32);
    const Tensor total = make.scalar();
    product.reset();
    result.loss = make.scalar();
  }
  const Tensor logged = make.scalar();
  run.process.touch_balance_log();
  return result;
}

/// Computes the gradient of the logits from that of the load-balancing loss.
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

/// The type of the logits and of the probabilities: --moe-router-dtype.
DType router_type(const Runner& run) {
  return run.context.megatron.router_fp32 ? DType::kFp32 : run.context.dtype;
}

/// RouterGatingLinearFunction.forward. If the router has its own type, the logits are computed from
/// cast copies.
Tensor gate(const Runner& run, const Tensor& hidden, const Tensor& weight, const Tensor& bias,
            const ExpertSizes& sizes) {
  Eager& eager = run.eager();
  const DType dtype = router_type(run);
  Tensor rows;
  Tensor columns;
  Tensor added;
  if (dtype != run.context.dtype) {
    if (bias.defined()) {
      added = torch::computed(eager, bias.shape(), dtype, {&bias});
    }
    rows = torch::computed(eager, hidden.shape(), dtype, {&hidden});
    columns = torch::computed(eager, weight.shape(), dtype, {&weight});
  }
  if (bias.defined()) {
    eager.touch_cublaslt();  // addmm
  } else {
    eager.touch_cublas();
  }
  eager.run(GemmShape{.m = sizes.tokens, .n = sizes.experts, .k = sizes.hidden, .dtype = dtype});
  return eager.empty({sizes.tokens, sizes.experts}, dtype);
}

/// One of the two products of the gate's backward, with its operand cast before and its result cast
/// after.
Tensor gate_product(const Runner& run, const Shape& operand, const Shape& result,
                    const GemmShape& dims) {
  Eager& eager = run.eager();
  const DType narrow = run.context.dtype;
  if (dims.dtype == narrow) {
    Tensor output = eager.empty(result, narrow);
    eager.run(dims);
    return output;
  }
  Tensor cast = torch::computed(eager, operand, dims.dtype);
  const Tensor wide = eager.empty(result, dims.dtype);
  eager.run(dims);
  cast.reset();
  return torch::computed(eager, result, narrow, {&wide});
}

/// Gradients of the hidden states, of the gate's weight and of its bias, if it has one.
Gradients gate_gradients(const Runner& run, const ExpertSizes& sizes, Node& node) {
  run.eager().touch_cublas();
  const Shape& rows = node.input_shapes[0];
  const Shape& weight = node.input_shapes[1];
  const DType dtype = router_type(run);
  Gradients result(node.next.size());
  result[0] = gate_product(run, weight, rows,
                           {.m = sizes.tokens,
                            .n = sizes.hidden,
                            .k = sizes.experts,
                            .dtype = dtype,
                            .layout = GemmLayout::kNN});
  result[1] = gate_product(run, rows, weight,
                           {.m = sizes.experts,
                            .n = sizes.hidden,
                            .k = sizes.tokens,
                            .dtype = dtype,
                            .layout = GemmLayout::kNT});
  if (result.size() > 2 && node.wants(2)) {
    const Tensor sum = torch::reduce(run.eager(), node.input_shapes[2], dtype,
                                     {.outputs = sizes.experts,
                                      .inputs_per_output = sizes.tokens,
                                      .element_bytes = bits_of(dtype) / 8});
    result[2] = dtype == run.context.dtype
                    ? sum
                    : torch::computed(run.eager(), sum.shape(), run.context.dtype, {&sum});
  }
  return result;
}

/// sinkhorn_load_balancing. One iteration stands for all, because the others reuse its tensors.
Routing route_sinkhorn(const Runner& run, const Tensor& hidden, const Tensor& weight,
                       const ExpertSizes& sizes) {
  Eager& eager = run.eager();
  const RouterTensors make(eager, sizes);
  const DType dtype = router_type(run);
  Record record(eager, {&hidden, &weight});
  Tensor logits = gate(run, hidden, weight, Tensor{}, sizes);
  Tensor chosen;
  Tensor indices;
  {
    Tensor norms;
    {
      Tensor wide = make.all(DType::kFp32);
      const Tensor cost = make.all(DType::kFp32);
      wide.reset();
      const Tensor rows = torch::computed(eager, {sizes.tokens}, DType::kFp32);
      const Tensor columns = make.per_expert(DType::kFp32);
      { const Tensor product = make.all(DType::kFp32); }
      const Tensor product = make.all(DType::kFp32);
      norms = make.all(DType::kFp32);
    }
    chosen = make.chosen(DType::kFp32);
    indices = make.chosen(DType::kInt64);
  }
  Tensor activated;
  {
    const Tensor wide =
        sizes.top_k > 1 && dtype != DType::kFp32 ? make.all(DType::kFp32) : Tensor{};
    activated = make.all(dtype);  // Sigmoid, or softmax.
  }
  Routing result;
  result.map = make.map(dtype);
  result.probabilities = make.all(dtype);
  record.save(hidden);
  record.save(weight);
  record.save(result.map);
  record.save(activated);
  record.finish(result.probabilities,
                [run, sizes, dtype](Eager& e, Gradients& grads, Node& node) -> Gradients {
                  const RouterTensors back(e, sizes);
                  Tensor product = back.all(dtype);
                  grads[0].reset();
                  node.saved[kChosen].reset();
                  const Tensor through = back.all(dtype);
                  product.reset();
                  node.saved[kScores].reset();
                  return gate_gradients(run, sizes, node);
                });
  return result;
}

Gradients router_gradients(const Runner& run, const ExpertSizes& sizes, Gradients& grads,
                           Node& node) {
  Eager& eager = run.eager();
  const RouterTensors make(eager, sizes);
  const DType dtype = router_type(run);
  const bool casts = dtype != DType::kFp32;
  Tensor logits;
  if (run.context.megatron.aux_loss) {
    logits = balance_backward(make, dtype, node, {sizes.tokens, sizes.experts});
  }
  Tensor probabilities = std::move(grads[0]);
  if (sizes.capacity) {
    probabilities = make.all(dtype);
    node.saved.back().reset();
  }
  Tensor chosen = make.chosen(dtype);
  probabilities.reset();
  if (casts) {
    chosen = make.chosen(DType::kFp32);
  }
  Tensor scores = make.softmax_backward({sizes.tokens, sizes.top_k});
  chosen.reset();
  node.saved[kScores].reset();
  chosen = casts ? make.chosen(dtype) : scores;
  scores.reset();
  Tensor scattered = make.all(dtype);
  chosen.reset();
  node.saved[kChosen].reset();
  if (!logits.defined()) {
    logits = std::move(scattered);
  }
  scattered.reset();
  return gate_gradients(run, sizes, node);
}

}  // namespace

ExpertSizes expert_sizes(const Runner& run, std::int64_t tokens) {
  const Context& context = run.context;
  const MoeSpec& moe = *context.spec.moe;
  ExpertSizes sizes{.tokens = tokens,
                    .hidden = context.spec.hidden,
                    .experts = moe.experts,
                    .local = moe.experts / context.grid.expert.size,
                    .top_k = moe.top_k,
                    .ffn = moe.expert_ffn / context.grid.expert_tensor.size,
                    .received = 0,
                    .sent = tokens * moe.top_k,
                    .capacity = {}};
  if (context.megatron.capacity_factor) {
    const double share = static_cast<double>(tokens * moe.top_k) / static_cast<double>(moe.experts);
    sizes.capacity =
        static_cast<std::int64_t>(std::ceil(share * *context.megatron.capacity_factor));
    sizes.sent = *sizes.capacity * moe.experts;
  }
  // A single rank receives what it sends; padded experts receive their capacity.
  const bool even = context.grid.expert.size == 1 || sizes.capacity;
  sizes.received = even ? sizes.sent
                        : std::max<std::int64_t>(1, std::llround(static_cast<double>(sizes.sent) *
                                                                 context.megatron.expert_load));
  return sizes;
}

Routing route(const Runner& run, const Tensor& hidden, const ExpertWeights& experts,
              const ExpertSizes& sizes) {
  const Tensor& weight = experts.router;
  if (run.context.megatron.sinkhorn) {
    return route_sinkhorn(run, hidden, weight, sizes);
  }
  Eager& eager = run.eager();
  const DType dtype = router_type(run);
  const RouterTensors make(eager, sizes);
  Record record(eager, {&hidden, &weight, &experts.router_bias});
  const Tensor logits = gate(run, hidden, weight, experts.router_bias, sizes);
  Chosen chosen = choose(make, dtype);
  if (record.active()) {
    record.save(hidden);
    record.save(weight);
    record.save(chosen.indices);
    record.save(chosen.scores);
  }
  if (sizes.capacity) {
    drop_tokens(run, make, dtype, chosen);
  }
  AuxLoss loss;
  if (run.context.megatron.aux_loss && eager.grad_enabled()) {
    loss = balance(run, make, dtype);
  }
  if (record.active()) {
    record.save(loss.scores);
    record.save(loss.counts);
    record.save(loss.loss);
    if (sizes.capacity) {
      record.save(chosen.map);  // The probabilities are multiplied by it.
    }
  }
  record.finish(chosen.probabilities,
                [run, sizes](Eager&, Gradients& grads, Node& node) -> Gradients {
                  return router_gradients(run, sizes, grads, node);
                });
  return {.probabilities = std::move(chosen.probabilities), .map = std::move(chosen.map)};
}

}  // namespace headroom::ir::megatron
