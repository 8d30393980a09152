#include "runtimes/torchtitan/expert_exchange.h"

#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torchtitan {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

namespace {

Tensor exchanged(Eager& eager, const Tensor& rows, const RankGroup& group) {
  Tensor output = eager.empty(rows.shape(), rows.dtype());
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllToAll,
                            .bytes = torch::bytes_of(rows),
                            .group = group,
                            .axis = MeshAxis::kExpert});
  return output;
}

}  // namespace

Tensor ExpertExchange::counts(const Tensor& counts) {
  Tensor received = exchanged(eager_, counts, {.size = ranks_, .stride = stride_});
  for (int split = 0; split < 2; ++split) {  // For the sent rows and for the received ones.
    const Tensor sums = torch::computed(eager_, {ranks_}, DType::kInt64, TensorRole::kTemporary);
    eager_.run(CopyShape{.kind = CopyKind::kDeviceToHost, .bytes = torch::bytes_of(sums)});
  }
  return received;
}

Tensor ExpertExchange::all_to_all(const Tensor& rows) {
  const RankGroup group{.size = ranks_, .stride = stride_};
  Record record(eager_, {&rows});
  Tensor output = exchanged(eager_, rows, group);
  if (record.active()) {
    record.finish(output, [group](Eager& e, Gradients& grads, Node&) -> Gradients {
      return {exchanged(e, grads[0], group)};
    });
  }
  return output;
}

}  // namespace headroom::ir::torchtitan
