#include "runtimes/transformers/relative_bias.h"

#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

/// Integers for one direction or for both: [S, S'].
class Buckets {
 public:
  Buckets(Eager& eager, const BiasForm& form)
      : eager_(eager), square_{form.queries, form.keys}, causal_(form.causal) {}

  Tensor make() {
    Tensor sum = causal_ ? Tensor{} : sign_part();
    Tensor distances = integers();  // abs, or -min(.., 0)
    if (causal_) {
      clamp(distances);
    }
    Tensor is_small = torch::computed(eager_, square_, DType::kBool);
    Tensor large = logarithmic();
    Tensor chosen = integers();
    if (causal_) {
      sum = integers();  // 0 + where(..) is a new tensor; otherwise the sum is in place.
    }
    chosen.reset();
    distances.reset();
    is_small.reset();
    large.reset();
    return sum;
  }

 private:
  Tensor integers() { return torch::computed(eager_, square_, DType::kInt64); }
  Tensor numbers() { return torch::computed(eager_, square_, DType::kFp32); }

  /// (relative_position > 0).to(torch.long) * num_buckets, added to 0.
  Tensor sign_part() {
    Tensor positive = torch::computed(eager_, square_, DType::kBool);
    Tensor wide = integers();
    positive.reset();
    Tensor product = integers();
    wide.reset();
    Tensor sum = integers();
    product.reset();
    return sum;
  }

  /// -torch.min(relative_position, torch.zeros_like(relative_position)); the zeros are `distances`.
  void clamp(Tensor& distances) {
    Tensor smaller = integers();
    distances.reset();
    distances = integers();
  }

  /// The bucket of a large distance, limited to the last one.
  Tensor logarithmic() {
    Tensor value = numbers();
    for (int step = 0; step < 4; ++step) {  // over max_exact, log, over its range, times buckets
      value = numbers();
    }
    Tensor bucket = integers();
    value.reset();
    Tensor shifted = integers();
    bucket.reset();
    const Tensor last = integers();
    return integers();
  }

  Eager& eager_;
  Shape square_;
  bool causal_;
};

}  // namespace

Tensor relative_bias(Eager& eager, const std::function<Tensor(const Tensor&)>& look_up,
                     const BiasForm& form) {
  const auto range = [&](std::int64_t count) {
    return torch::computed(eager, {count}, DType::kInt64);
  };
  Tensor queries;
  if (!form.positions_given) {
    const Tensor plain = range(form.queries);
    queries = range(form.queries);  // Plus the number of earlier tokens.
  }
  Tensor keys = range(form.keys);
  Tensor distances = torch::computed(eager, {form.queries, form.keys}, DType::kInt64);
  const Tensor buckets = Buckets(eager, form).make();
  const Tensor values = look_up(buckets);
  Tensor bias = torch::heads_first(eager, values);
  queries.reset();
  keys.reset();
  distances.reset();
  return bias;
}

}  // namespace headroom::ir::transformers
