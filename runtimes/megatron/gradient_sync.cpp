#include "runtimes/megatron/gradient_sync.h"

#include <algorithm>
#include <utility>

#include "runtimes/megatron/fp8_tensor.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/torch/collective.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"
#include "runtimes/torch/reduce.h"
#include "runtimes/torch/stream_scope.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::Tensor;

/// check_grads: tests the norm of a bucket for NaN and infinity.
void check_bucket(const Runner& run, std::int64_t elements) {
  Eager& eager = run.eager();
  const Tensor norm = torch::reduce(eager, {}, DType::kFp32,
                                    {.outputs = 1,
                                     .inputs_per_output = elements,
                                     .innermost = true,
                                     .accumulator_bytes = 4,
                                     .element_bytes = bits_of(run.context.grad_dtype) / 8});
  { const Tensor nan = torch::computed(eager, {1}, DType::kBool); }
  const Tensor magnitude = torch::computed(eager, {1}, DType::kFp32);
  const Tensor infinite = torch::computed(eager, {1}, DType::kBool);
}

/// Counts the elements of the gradients that are partial sums on every tensor-parallel rank. These
/// are norms (and biases that every rank holds) under sequence parallelism, and norms of heads.
class SharedElements {
 public:
  explicit SharedElements(bool sequence) : sequence_(sequence) {}

  [[nodiscard]] std::int64_t of(const Chunk& chunk) {
    for (const LayerWeights& layer : chunk.layers) {
      add(layer);
    }
    for (const PredictionWeights& prediction : chunk.predictions) {
      add(prediction.layer);
      if (sequence_) {
        add(prediction.embedding_norm);
        add(prediction.hidden_norm);
        add(prediction.final_norm);
      }
    }
    if (sequence_) {
      add(chunk.final_norm);
    }
    return elements_;
  }

 private:
  void add(const Tensor& tensor) { elements_ += tensor.defined() ? tensor.elements() : 0; }
  void add(const NormWeights& norm) {
    add(norm.weight);
    add(norm.bias);
  }
  void add(const LayerWeights& layer) {
    add(layer.attention.query_norm);
    add(layer.attention.key_norm);
    if (!sequence_) {
      return;
    }
    add(layer.attention.norm);
    add(layer.attention.output.bias);
    add(layer.mlp_norm);
    add(layer.mlp.down.bias);
    if (layer.experts) {
      add(layer.experts->router);
      add(layer.experts->router_bias);
    }
    if (layer.attention.latent) {
      const LatentWeights& latent = *layer.attention.latent;
      add(latent.query_norm);
      add(latent.kv_norm);
      add(latent.query_down.weight);
      add(latent.kv_down.weight);
    }
  }

  bool sequence_;
  std::int64_t elements_ = 0;
};

/// The gradients are flattened into one tensor, all-reduced and copied back.
void reduce_shared(const Runner& run, std::span<const Chunk> chunks) {
  const Axis& ranks = run.context.grid.tensor;
  if (ranks.size == 1) {
    return;
  }
  std::int64_t elements = 0;
  for (const Chunk& chunk : chunks) {
    elements += SharedElements(run.context.sequence_parallel()).of(chunk);
  }
  if (elements > 0) {
    const Tensor coalesced = run.eager().empty({elements}, run.context.grad_dtype);
    run.eager().run(CollectiveShape{.kind = CollectiveKind::kAllReduce,
                                    .bytes = bytes_of(elements, run.context.grad_dtype).value(),
                                    .group = ranks.group(),
                                    .axis = MeshAxis::kTensor});
  }
}

void reduce_tied(const Runner& run, std::span<const GradientBuffer> buffers) {
  for (const GradientBuffer& buffer : buffers) {
    for (const Slot& slot : buffer.slots) {
      if (slot.parameter->shared_embedding) {
        // All-reduces between the first stage and the last.
        const Axis& stages = run.context.grid.pipeline;
        run.eager().run(CollectiveShape{
            .kind = CollectiveKind::kAllReduce,
            .bytes = bytes_of(slot.end - slot.begin, run.context.grad_dtype).value(),
            .group = {.size = 2, .stride = stages.stride * (stages.size - 1)},
            .axis = MeshAxis::kPipeline});
      }
    }
  }
}

}  // namespace

GradientSync::GradientSync(const Runner& run, std::span<const Chunk> chunks,
                           std::span<const GradientBuffer> buffers)
    : run_(run), chunks_(chunks), buffers_(buffers) {
  for (BucketGroup& group : group_buckets(buffers_)) {
    std::size_t gradients = 0;
    for (const BucketOf& each : group) {
      for (std::size_t slot = each.bucket->first; slot < each.bucket->last; ++slot) {
        hook(*each.buffer->slots[slot].parameter, parts_.size());
      }
      gradients += each.slots();
    }
    parts_.push_back({.buckets = std::move(group), .missing = gradients, .mark = {}});
  }
}

/// Source: distributed_data_parallel.py, _make_backward_post_hook.
void GradientSync::hook(const Parameter& parameter, std::size_t part) {
  torch::TensorImpl* const leaf = parameter.tensor.impl();
  torch::Node* const accumulator = torch::accumulator_of(run_.eager(), leaf);
  accumulator->stream = kWrappingStream;
  accumulator->after_accumulate = [this, leaf, part](Eager& eager) {
    // The engine holds the gradient until its hooks have run. The accumulation runs on the stream
    // on which the model was wrapped.
    add_to_buffer(Tensor(eager, leaf->grad));
    run_.process.run_or_owe([this, part] { arrived(part); });
    eager.record_stream(Tensor(eager, leaf->grad));
    eager.drop_grad(Tensor(eager, leaf));
  };
}

/// `param.main_grad.add_(param.grad)`, unless the weight's product has already accumulated.
void GradientSync::add_to_buffer(const Tensor& gradient) {
  if (run_.process.is_dummy(gradient)) {
    return;
  }
  Eager& eager = run_.eager();
  const torch::StreamScope stream(eager, kWrappingStream);
  const std::int64_t held =
      bytes_of(gradient.elements(), run_.context.grad_dtype).value();  // Read and written.
  torch::launch_kernels(
      eager, torch::bytes_of(gradient) + 2 * held,
      torch::elementwise_launches(gradient.elements(), held / gradient.elements()));
}

void GradientSync::arrived(std::size_t part) {
  Part& own = parts_[part];
  if (!run_.context.megatron.overlap_grad_reduce || !enabled_ || first_) {
    return;
  }
  if (--own.missing == 0) {
    const torch::StreamScope stream(run_.eager(), kWrappingStream);
    reduce(own);
  }
}

void GradientSync::reduce(Part& part) {
  if (part.started) {
    return;
  }
  part.started = true;
  for (const BucketOf& each : part.buckets) {
    check_bucket(run_, each.elements());
  }
  if (run_.context.grid.data_context().size > 1) {
    for (const BucketOf& each : part.buckets) {  // gradient_scaling_factor
      const std::int64_t element = bits_of(run_.context.grad_dtype) / 8;
      torch::launch_kernels(run_.eager(), 2 * element * each.elements(),
                            torch::elementwise_launches(each.elements(), element));
    }
  }
  for (const BucketOf& each : part.buckets) {
    reduce_bucket(part, each);
  }
}

void GradientSync::reduce_bucket(Part& part, const BucketOf& each) {
  const std::int64_t bytes = bytes_of(each.elements(), run_.context.grad_dtype).value();
  const bool scatters = run_.context.megatron.distributed_optimizer;
  const std::int64_t ranks = each.buffer->ranks.size;
  if (scatters && ranks == 1) {
    return;  // NCCL launches nothing for a communicator of one rank.
  }
  const CollectiveShape shape{
      .kind = scatters ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
      .bytes = bytes,
      .group = each.buffer->ranks.group()};
  if (run_.context.megatron.overlap_grad_reduce) {
    part.mark = torch::start_collective(run_.eager(), shape, "data_parallel");
  } else {
    run_.eager().run(shape);
  }
  if (const Axis copies = run_.context.grid.copies_of(each.buffer->ranks);
      scatters && copies.size > 1) {
    run_.eager().run(CollectiveShape{
        .kind = CollectiveKind::kAllReduce, .bytes = bytes / ranks, .group = copies.group()});
  }
}

void GradientSync::start(const Chunk& chunk) {
  for (Part& part : parts_) {
    if (part.buckets.front().buffer->chunk == &chunk) {
      reduce(part);
    }
  }
}

void GradientSync::finish() {
  run_.eager().set_site("reduce_gradients", -1);
  for (Part& part : parts_) {
    reduce(part);
    if (part.mark) {  // finish_grad_sync
      run_.eager().wait_mark(run_.eager().stream(), *part.mark);
      part.mark.reset();
    }
    part.started = false;
    part.missing = 0;
    for (const BucketOf& each : part.buckets) {
      part.missing += each.slots();
    }
  }
  reduce_shared(run_, chunks_);
  reduce_tied(run_, buffers_);
  enabled_ = false;
  first_ = false;
}

namespace {

/// Makes the layers whose parameters lie in `bucket` wait for `mark` before they run. The first
/// of them also waits for parameters outside the layers.
void note_gather(const Runner& run, const GradientBuffer& buffer, const Bucket& bucket,
                 std::uint32_t mark) {
  const std::vector<LayerWeights>& layers = buffer.chunk->layers;
  const std::size_t slots = buffer.slots.size();
  if (layers.empty() || slots == 0) {
    return;
  }
  // The last parameters come first, and those of one layer are next to one another.
  const auto layer_of = [&](std::size_t slot) {
    return layers.size() - 1 - std::min(layers.size() - 1, slot * layers.size() / slots);
  };
  for (std::size_t layer = layer_of(bucket.last - 1); layer <= layer_of(bucket.first); ++layer) {
    run.process.note_gather(layers[layer].layer, mark);
  }
}

/// Converts gathered parameters to what products read. FP8 weights are refreshed at once or, if the
/// gather overlaps, when they are next used. Other parameters that are not in the buffer are
/// copied.
/// Source: distributed_data_parallel.py, start_param_sync; param_and_grad_buffer.py,
///         finish_param_sync.
void take_gathered(const Runner& run, const BucketOf& each, bool overlaps) {
  for (std::size_t slot = each.bucket->first; slot < each.bucket->last; ++slot) {
    const Parameter& parameter = *each.buffer->slots[slot].parameter;
    if (parameter.fp8) {
      run.process.fp8_weight(parameter.tensor).current = false;
      if (!overlaps) {
        refresh_weight(run, parameter.tensor);
      }
    } else if (gathers_into_gradients(run.context.megatron)) {
      run.eager().run(
          CopyShape{.kind = CopyKind::kDeviceToDevice, .bytes = torch::bytes_of(parameter.tensor)});
    }
  }
  if (gathers_into_gradients(run.context.megatron)) {
    torch::launch_kernels(run.eager(), bytes_of(each.elements(), each.buffer->gathered).value());
  }
}

}  // namespace

void gather_parameters(const Runner& run, std::span<const GradientBuffer> buffers) {
  if (!run.context.megatron.distributed_optimizer) {
    return;
  }
  const bool overlaps = run.context.megatron.overlap_param_gather;
  for (const BucketGroup& group : group_buckets(buffers)) {
    for (const BucketOf& each : group) {
      const CollectiveShape shape{.kind = CollectiveKind::kAllGather,
                                  .bytes = bytes_of(each.elements(), each.buffer->gathered).value(),
                                  .group = each.buffer->ranks.group()};
      if (overlaps) {
        note_gather(run, *each.buffer, *each.bucket,
                    torch::start_collective(run.eager(), shape, "data_parallel"));
      } else {
        run.eager().run(shape);
      }
    }
    for (const BucketOf& each : group) {
      take_gathered(run, each, overlaps);
    }
  }
}

}  // namespace headroom::ir::megatron
