#include "runtimes/torchtitan/tensor_mesh.h"

#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torchtitan {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

void TensorMesh::run(CollectiveKind kind, const Shape& whole, DType dtype) {
  eager_.run(CollectiveShape{.kind = kind,
                             .bytes = bytes_of(whole.elements(), dtype).value(),
                             .group = {.size = ranks_},
                             .axis = MeshAxis::kTensor});
}

/// The collective concatenates parts along the first dimension. For another dimension they are
/// concatenated again, unless all dimensions before it are 1.
Tensor TensorMesh::gathered(const Shape& whole, DType dtype, int dim) {
  std::int64_t before = 1;
  for (int i = 0; i < dim; ++i) {
    before *= whole[i];
  }
  run(CollectiveKind::kAllGather, whole, dtype);
  Tensor parts = eager_.empty(whole, dtype);
  return before == 1 ? parts : torch::computed(eager_, whole, dtype, {&parts});
}

Tensor TensorMesh::gather_sequence(const Tensor& local) {
  if (ranks_ == 1) {
    return local;
  }
  const Shape whole = local.shape().with(1, local.shape()[1] * ranks_);
  Record record(eager_, {&local});
  Tensor output = gathered(whole, local.dtype(), 1);
  if (record.active()) {
    record.finish(output, [this](Eager&, Gradients& grads, Node&) -> Gradients {
      Tensor scattered = scatter(grads[0], nullptr);
      wait();
      return {scattered};
    });
  }
  return output;
}

Tensor TensorMesh::gather_local_sequence(const Tensor& local) {
  if (ranks_ == 1) {
    return local;
  }
  const Shape own = local.shape();
  Record record(eager_, {&local});
  Tensor output = gathered(own.with(1, own[1] * ranks_), local.dtype(), 1);
  if (record.active()) {
    record.finish(output, [own](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {torch::computed(e, own, grads[0].dtype(), {&grads[0]})};
    });
  }
  return output;
}

Tensor TensorMesh::sum_gradients(const Tensor& whole) {
  Record record(eager_, {&whole});
  if (ranks_ == 1 || !record.active()) {
    return whole;
  }
  Tensor output = eager_.alias(whole, whole.shape(), true);
  record.finish(output, [this](Eager& e, Gradients& grads, Node&) -> Gradients {
    Tensor sum = e.empty(grads[0].shape(), grads[0].dtype());
    run(CollectiveKind::kAllReduce, grads[0].shape(), grads[0].dtype());
    return {sum};
  });
  return output;
}

/// Parts of the sequence are concatenated along the first dimension, then reduce-scattered. The
/// list of selective checkpointing contains the collective, but not the concatenation.
Tensor TensorMesh::scatter(const Tensor& partial, OperatorCache* cache) {
  const Shape whole = partial.shape();
  const Shape own = whole.with(1, whole[1] / ranks_);
  input_ = torch::computed(eager_, whole, partial.dtype(), {&partial});
  if (cache != nullptr && cache->again()) {
    return cache->take();
  }
  run(CollectiveKind::kReduceScatter, whole, partial.dtype());
  Tensor output = eager_.empty(own, partial.dtype());
  if (cache != nullptr) {
    cache->keep(eager_, output);
  }
  return output;
}

Tensor TensorMesh::scatter_sequence(const Tensor& partial, OperatorCache* cache) {
  if (ranks_ == 1) {
    return partial;
  }
  Record record(eager_, {&partial});
  Tensor output = scatter(partial, cache);
  if (record.active()) {
    record.finish(output,
                  [this, whole = partial.shape()](Eager&, Gradients& grads, Node&) -> Gradients {
                    return {gathered(whole, grads[0].dtype(), 1)};
                  });
  }
  return output;
}

Tensor TensorMesh::gather_columns(const Tensor& local) {
  const Shape whole = local.shape().with(-1, local.shape()[-1] * ranks_);
  Record record(eager_, {&local});
  Tensor output = gathered(whole, local.dtype(), whole.rank() - 1);
  if (record.active()) {
    record.finish(output, [own = local.shape()](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {e.empty(own, grads[0].dtype())};
    });
  }
  return output;
}

Tensor mask_ids(Eager& eager, std::int64_t count, Tensor& masked) {
  Tensor mask;
  {
    const Tensor below = eager.empty({count}, DType::kBool);
    const Tensor above = eager.empty({count}, DType::kBool);
    mask = eager.empty({count}, DType::kBool);
  }
  const Tensor shifted = eager.empty({count}, DType::kInt64);
  masked = eager.empty({count}, DType::kInt64);
  return mask;
}

Tensor TensorMesh::embedding(const Tensor& weight, const Tensor& ids) {
  if (ranks_ == 1) {
    return torch::embedding(eager_, weight, ids);
  }
  Tensor whole;  // The table as backward sees it. It is never allocated in forward.
  {
    Record record(eager_, {&weight});
    whole = eager_.alias(weight, weight.shape().with(0, weight.shape()[0] * ranks_), true);
    const Shape own = whole_gradients_ ? whole.shape() : weight.shape();
    if (record.active()) {
      record.finish(whole, [own](Eager& e, Gradients& grads, Node& node) -> Gradients {
        node.input_shapes[0] = own;
        const bool cuts = own.elements() != grads[0].elements();
        return {cuts ? e.empty(own, grads[0].dtype()) : std::move(grads[0])};
      });
    }
  }
  Tensor masked;
  const Tensor mask = mask_ids(eager_, ids.elements(), masked);
  return torch::embedding(eager_, whole, ids);
}

}  // namespace headroom::ir::torchtitan
