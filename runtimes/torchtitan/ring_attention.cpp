#include "runtimes/torchtitan/ring_attention.h"

#include <utility>
#include <vector>

#include "runtimes/torch/flash_kernel.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torchtitan {
namespace {

using torch::Eager;
using torch::FlashGradients;
using torch::FlashOutputs;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

/// A new tensor like `model`, with the type `dtype`.
Tensor like(Eager& eager, const Tensor& model, DType dtype) {
  Tensor made = torch::computed(eager, model.shape(), dtype, {&model});
  made->layout = model->layout;
  return made;
}

/// A view of the second half of the sequence of [B, A, S, D].
Tensor second_half(Eager& eager, const Tensor& whole) {
  Tensor half = eager.alias(whole, whole.shape().with(2, whole.shape()[2] / 2), true);
  half->layout = whole->layout;
  return half;
}

/// Keys and values that travel around the ring.
class Ring {
 public:
  Ring(Eager& eager, const ContextGroup& group, const Tensor& key, const Tensor& value)
      : eager_(eager), group_(group), key_(torch::contiguous(eager, key)) {
    value_ = torch::contiguous(eager, value);
  }

  /// Concatenates keys and values for sending. The first call gathers the parts of all ranks at
  /// once.
  Tensor send() {
    Tensor joined = eager_.empty({key_.elements() + value_.elements()}, key_.dtype());
    torch::launch(eager_, {&key_, &value_, &joined});
    if (!gathered_.defined()) {
      gathered_ = eager_.empty({joined.elements() * group_.ranks}, joined.dtype(),
                               TensorRole::kCommunication);
      eager_.run(CollectiveShape{.kind = CollectiveKind::kAllGather,
                                 .bytes = bytes_of(gathered_.elements(), gathered_.dtype()).value(),
                                 .group = {.size = group_.ranks, .stride = group_.stride},
                                 .axis = MeshAxis::kContext});
    }
    return joined;
  }
  /// The next rank's part is a view of the gathered tensor.
  void receive() {
    key_ = view(key_);
    value_ = view(value_);
  }
  [[nodiscard]] const Tensor& key() const { return key_; }
  [[nodiscard]] const Tensor& value() const { return value_; }

 private:
  Tensor view(const Tensor& part) { return eager_.alias(gathered_, part.shape(), true); }

  Eager& eager_;
  ContextGroup group_;
  Tensor key_;
  Tensor value_;
  Tensor gathered_;
};

/// _SDPAMerger: the attention output so far, in fp32.
struct Merged {
  Tensor output;
  Tensor log_sum;

  void add(Eager& eager, const FlashOutputs& part) {
    const Tensor wide = like(eager, part.output, DType::kFp32);
    if (!output.defined()) {
      output = wide;
      log_sum = part.log_sum;
      return;
    }
    const auto small = [&] { return like(eager, part.log_sum, DType::kFp32); };
    const auto large = [&] { return like(eager, wide, DType::kFp32); };
    Tensor difference = small();
    Tensor weight = small();
    difference.reset();
    Tensor step = large();
    Tensor weighted = large();
    weight.reset();
    step.reset();
    const Tensor half = large();
    weighted.reset();
    difference = small();
    weight = small();
    difference.reset();
    const Tensor half_sum = small();
    weight.reset();
    log_sum = like(eager, log_sum, DType::kFp32);  // Concatenates the halves again.
    output = like(eager, output, DType::kFp32);
    output->layout = torch::Layout::kContiguous;
  }
};

FlashOutputs run_ring(Eager& eager, const ContextGroup& group, const Tensor& q, const Tensor& k,
                      const Tensor& v) {
  const torch::GradMode no_grad(eager, false);
  Ring ring(eager, group, k, v);
  Merged merged;
  FlashOutputs part;
  Tensor sent;
  for (std::int64_t i = 0; i < group.ranks; ++i) {
    Tensor key = ring.key();  // Names that still hold the previous round's tensors.
    Tensor value = ring.value();
    if (i > 0) {
      sent.reset();
      ring.receive();
    }
    if (i + 1 < group.ranks) {
      sent = ring.send();
      if (i > 0) {
        sent.reset();
      }
    }
    key.reset();
    value.reset();
    FlashOutputs next;
    static_cast<void>(torch::flash_attention(eager, i == 0 ? q : second_half(eager, q), ring.key(),
                                             ring.value(), next));
    part = std::move(next);
    merged.add(eager, part);
  }
  FlashOutputs outputs;
  outputs.output = eager.empty(q.shape(), q.dtype());
  outputs.log_sum = merged.log_sum;
  outputs.seed = part.seed;
  outputs.offset = part.offset;
  return outputs;
}

/// Gradients of keys and values, which travel around the ring with them.
class RingGradients {
 public:
  RingGradients(Eager& eager, const ContextGroup& group, const Tensor& key, const Tensor& value)
      : eager_(eager), group_(group), key_(like(eager, key, DType::kFp32)) {
    value_ = like(eager, value, DType::kFp32);
  }

  /// Takes the gradients received from the previous rank.
  void receive() {
    const Tensor buffer = std::move(received_);
    sent_.reset();
    key_ = eager_.alias(buffer, key_.shape(), true);
    value_ = eager_.alias(buffer, value_.shape(), true);
  }
  /// Sends the sums to the next rank. Tensors that are not contiguous are copied first.
  void send() {
    const auto flat = [&](const Tensor& part) {
      return part->layout == torch::Layout::kContiguous
                 ? Tensor{}
                 : torch::computed(eager_, part.shape(), DType::kFp32, {&part});
    };
    {
      const Tensor flat_key = flat(key_);
      const Tensor flat_value = flat(value_);
      sent_ = eager_.empty({key_.elements() + value_.elements()}, DType::kFp32);
      torch::launch(eager_, {&key_, &value_, &sent_});
    }
    received_ = eager_.empty({sent_.elements()}, DType::kFp32, TensorRole::kCommunication);
    eager_.run(CollectiveShape{.kind = CollectiveKind::kAllToAll,
                               .bytes = bytes_of(received_.elements(), DType::kFp32).value(),
                               .group = {.size = group_.ranks, .stride = group_.stride},
                               .axis = MeshAxis::kContext});
  }
  /// The gradients that have come around the ring, in the keys' type.
  [[nodiscard]] Tensor finish(DType dtype) {
    return torch::computed(eager_, received_.shape(), dtype, {&received_});
  }

 private:
  Eager& eager_;
  ContextGroup group_;
  Tensor key_;
  Tensor value_;
  Tensor sent_;
  Tensor received_;
};

Gradients ring_gradients(Eager& eager, const ContextGroup& group, Gradients& grads, Node& node) {
  const torch::Unpacked saved(eager, node);  // Key, query, value, log-sum-exp, output.
  const Tensor& q = saved[1];
  Tensor dq = like(eager, q, DType::kFp32);
  RingGradients sums(eager, group, saved[0], saved[2]);
  Ring ring(eager, group, saved[0], saved[2]);
  FlashGradients part;
  Tensor sent;
  Tensor half_sum;
  for (std::int64_t i = 0; i < group.ranks; ++i) {
    if (i + 1 < group.ranks) {
      sent = ring.send();
    }
    torch::FlashInputs inputs{
        .gradient = grads[0], .query = q, .key = {}, .value = {}, .output = saved[4]};
    if (i > 0) {
      half_sum = eager.empty(saved[3].shape().with(-1, saved[3].shape()[-1] / 2), DType::kFp32);
      ring.receive();
      inputs.gradient = second_half(eager, grads[0]);
      if (q.shape()[0] > 1) {  // Half of every sequence is not contiguous.
        inputs.gradient->layout = torch::Layout::kContiguous;
      }
      inputs.query = second_half(eager, q);
      inputs.output = second_half(eager, saved[4]);
    }
    inputs.key = ring.key();
    inputs.value = ring.value();
    FlashGradients next = torch::flash_backward(
        eager, inputs, torch::flash_shape(inputs.query, inputs.key, inputs.value, i == 0));
    part = std::move(next);
    if (i > 0) {
      sums.receive();
    }
    sums.send();
    if (i > 0) {
      dq = like(eager, dq, DType::kFp32);  // Concatenates the halves again.
      dq->layout = torch::Layout::kContiguous;
    }
  }
  Tensor query = like(eager, q, q.dtype());
  dq.reset();
  const Tensor both = sums.finish(q.dtype());
  const auto view = [&](const Tensor& like_this) {
    return eager.alias(both, like_this.shape(), true);
  };
  return {std::move(query), view(saved[0]), view(saved[2])};
}

}  // namespace

Tensor ring_attention(Eager& eager, const ContextGroup& group, const Tensor& q, const Tensor& k,
                      const Tensor& v, FlashOutputs& outputs) {
  Record record(eager, {&q, &k, &v});
  record.save(k);
  record.save(q);
  record.save(v);
  if (!outputs.output.defined()) {
    outputs = run_ring(eager, group, q, k, v);
  }
  Tensor output = outputs.output;
  if (record.active()) {
    record.save(outputs.log_sum);
    record.save_output(output);
    record.save(outputs.seed);
    record.save(outputs.offset);
    record.finish(output, [group](Eager& e, Gradients& grads, Node& node) -> Gradients {
      return ring_gradients(e, group, grads, node);
    });
  }
  return output;
}

}  // namespace headroom::ir::torchtitan
