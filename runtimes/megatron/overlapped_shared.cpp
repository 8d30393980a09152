#include "runtimes/megatron/overlapped_shared.h"

#include <limits>
#include <utility>

#include "runtimes/megatron/fused.h"
#include "runtimes/megatron/streams.h"
#include "runtimes/megatron/te_gemm.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/stream_scope.h"
#include "runtimes/torch/work_recorder.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// set_tensor_grad_fn_sequence_sr with the largest int, so that the node runs first.
void run_first(const Tensor& tensor) {
  if (tensor->grad_fn != nullptr) {
    tensor->grad_fn->sequence = std::numeric_limits<std::int32_t>::max();
  }
}

/// gather_from_sequence_parallel_region.
Tensor gather_sequence(const Runner& run, const Tensor& rows) {
  Record record(run.eager(), {&rows});
  Tensor whole = gather(run, rows);
  record.finish(whole, [run](Eager&, Gradients& grads, Node&) -> Gradients {
    return {scatter(run, grads[0])};
  });
  return whole;
}

/// reduce_scatter_to_sequence_parallel_region.
Tensor scatter_sequence(const Runner& run, const Tensor& whole) {
  Record record(run.eager(), {&whole});
  Tensor part = scatter(run, whole);
  record.finish(part, [run](Eager&, Gradients& grads, Node&) -> Gradients {
    return {gather(run, grads[0])};
  });
  return part;
}

}  // namespace

OverlappedShared::OverlappedShared(const Runner& run, const LayerWeights& layer)
    : run_(run), weights_(*layer.experts->shared), stream_(shared_expert_stream(layer.layer)) {
  run.eager().recorder().name_stream(stream_, "shared_experts");
}

void OverlappedShared::gather_tokens(const Tensor& rows) {
  Eager& eager = run_.eager();
  eager.wait_stream(stream_, eager.stream());
  const Tensor seen = torch::view(eager, rows, rows.shape());
  const torch::StreamScope stream(eager, stream_);
  tokens_ = run_.context.sequence_parallel() ? gather_sequence(run_, seen)
                                             : torch::handed_on(eager, seen);
  run_first(tokens_);
}

void OverlappedShared::first_product(const Tensor& dispatched) {
  run_first(dispatched);
  const torch::StreamScope stream(run_.eager(), stream_);
  // The router saves the norm's output, too.
  const Tensor inner = linear(run_, tokens_, weights_.up.weight, Cut::kNone, KeptInput::kOriginal);
  tokens_.reset();
  activated_ = run_.context.spec.gated_mlp ? swiglu(run_, inner) : torch::gelu(run_.eager(), inner);
}

void OverlappedShared::second_product(const Tensor& combined) {
  run_first(combined);
  const torch::StreamScope stream(run_.eager(), stream_);
  Tensor product = linear(run_, activated_, weights_.down.weight, Cut::kNone);
  activated_.reset();
  output_ = run_.context.sequence_parallel() ? scatter_sequence(run_, product)
                                             : torch::handed_on(run_.eager(), product);
  product.reset();
  run_first(output_);
}

/// After an in-place write to a view, its gradient gets the layout of the view's base (as_strided).
/// It is copied once for the base and once more for the added tensor.
/// Source: torch/csrc/autograd/variable.cpp, set_version_counter and rebase_history;
///         functions/tensor.cpp, CopySlices; derivatives.yaml, as_strided.
Tensor OverlappedShared::add_to(const Tensor& routed) {
  Eager& eager = run_.eager();
  const Tensor shared = std::exchange(output_, Tensor{});
  eager.wait_stream(eager.stream(), stream_);
  Record record(eager, {&routed, &shared});
  Tensor sum = eager.alias(routed, routed.shape(), false);
  torch::launch(eager, {&routed, &shared, &sum});
  record.finish(sum, [](Eager& e, Gradients& grads, Node&) -> Gradients {
    const torch::Shape& shape = grads[0].shape();
    Tensor strided = torch::filled(e, shape, grads[0].dtype());
    torch::launch_copy(e, grads[0], strided, torch::CopyOrder::kSame);
    Tensor of_base = e.empty(shape, strided.dtype());
    torch::launch_copy(e, strided, of_base, torch::CopyOrder::kSame);
    Tensor of_shared = e.empty(shape, strided.dtype());
    torch::launch_copy(e, of_base, of_shared, torch::CopyOrder::kSame);
    torch::launch_copy(e, of_shared, of_base, torch::CopyOrder::kSame);
    strided.reset();
    return {std::move(of_base), std::move(of_shared)};
  });
  return sum;
}

}  // namespace headroom::ir::megatron
