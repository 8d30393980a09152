#include "runtimes/torch/flash_package.h"

#include <utility>

#include "runtimes/torch/flash_kernel.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::torch {
namespace {

Tensor zeros_behind(Eager& eager, const Tensor& heads, std::int64_t dim, Layout layout) {
  Tensor padded = heads_like(eager, heads.shape().with(3, dim), heads.dtype(), layout);
  launch_fill(eager, padded);
  launch(eager, {&heads, &heads});  // A copy writes as many bytes as it reads.
  return padded;
}

Tensor aligned_rows(Eager& eager, const Tensor& heads) {
  const std::int64_t dim = align_up(heads.shape()[3], kFlashAlignment);
  return dim == heads.shape()[3] ? heads : zeros_behind(eager, heads, dim, Layout::kSwapped);
}

/// x[..., :dim] inside a function whose parts are not recorded by autograd.
Tensor seen_rows(Eager& eager, Tensor heads, std::int64_t dim) {
  if (dim == heads.shape()[3]) {
    return heads;
  }
  Tensor seen = eager.alias(heads, heads.shape().with(3, dim), false);
  seen->layout = Layout::kRepeated;
  return seen;
}

Gradients package_gradients(Eager& eager, Gradients& grads, Node& node, AttentionShape kernel) {
  const Unpacked saved(eager, node);  // Query, key, value, output, log-sum-exp, random state.
  FlashInputs inputs{
      .gradient = {}, .query = saved[0], .key = saved[1], .value = saved[2], .output = saved[3]};
  FlashGradients made = empty_gradients(eager, inputs);
  inputs.gradient = aligned_rows(eager, grads[0]);
  run_flash_backward(eager, inputs, made, kernel);
  const std::int64_t dim = grads[0].shape()[3];
  return {seen_rows(eager, std::move(made.query), dim), seen_rows(eager, std::move(made.key), dim),
          seen_rows(eager, std::move(made.value), dim)};
}

}  // namespace

Tensor flash_package(Eager& eager, const Tensor& q, const Tensor& k, const Tensor& v,
                     const FlashPackageOptions& options) {
  const AttentionShape kernel = flash_shape(q, k, v, options.causal);
  Record record(eager, {&q, &k, &v});
  const Tensor query = aligned_rows(eager, q);
  const Tensor key = aligned_rows(eager, k);
  const Tensor value = aligned_rows(eager, v);
  FlashOutputs made = run_flash(eager, query, kernel, options.dropout, FlashMaker::kPackage);
  Tensor output = seen_rows(eager, made.output, q.shape()[3]);
  if (record.active()) {
    record.save(query);
    record.save(key);
    record.save(value);
    record.save_output(made.output);
    record.save(made.log_sum);
    record.save(made.seed);
    record.finish(output, [kernel](Eager& e, Gradients& grads, Node& node) -> Gradients {
      return package_gradients(e, grads, node, kernel);
    });
  }
  return output;
}

Tensor pad_rows(Eager& eager, const Tensor& heads, std::int64_t dim, Layout layout) {
  if (dim == heads.shape()[3]) {
    return heads;
  }
  Record record(eager, {&heads});
  Tensor padded = zeros_behind(eager, heads, dim, layout);
  if (record.active()) {
    const Shape& before = heads.shape();
    record.finish(padded, [before, layout](Eager& e, Gradients& grads, Node&) -> Gradients {
      Tensor gradient = heads_like(e, before, grads[0].dtype(), layout);
      launch(e, {&gradient, &gradient});
      return {std::move(gradient)};
    });
  }
  return padded;
}

Tensor cut_rows(Eager& eager, const Tensor& heads, std::int64_t dim) {
  Tensor cut = slice_last(eager, heads, dim);
  if (dim != heads.shape()[3]) {
    cut->layout = Layout::kRepeated;
  }
  return cut;
}

}  // namespace headroom::ir::torch
