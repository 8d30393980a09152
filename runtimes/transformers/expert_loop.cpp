#include "runtimes/transformers/expert_loop.h"

#include <algorithm>
#include <utility>

#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/functions_grouped.h"
#include "runtimes/torch/functions_indexed.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/reduce.h"
#include "runtimes/transformers/adapter.h"
#include "runtimes/transformers/norm.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

std::int64_t tokens_of(std::int64_t expert, std::int64_t selected, std::int64_t experts) {
  return selected / experts + (expert < selected % experts ? 1 : 0);
}

Found where(Eager& eager, const Shape& dims, std::int64_t tokens) {
  const Tensor contiguous = torch::computed(eager, dims, DType::kInt64);
  const Tensor positions = torch::nonzero(eager, contiguous, tokens);
  return {.first = eager.alias(positions, {tokens}, true),
          .second = eager.alias(positions, {tokens}, true)};
}

Tensor find_hit(Eager& eager, std::int64_t classes, std::int64_t selected, std::int64_t hit) {
  Tensor chosen;
  {
    const Tensor sums = torch::reduce(eager, {classes}, DType::kInt64,
                                      {.outputs = classes,
                                       .inputs_per_output = selected,
                                       .accumulator_bytes = 8,
                                       .element_bytes = 8});
    chosen = torch::computed(eager, {classes}, DType::kBool, {&sums});
  }
  return torch::nonzero(eager, chosen, hit);
}

namespace {

/// The names of MixtralSparseMoeBlock.forward inside its loop.
struct LoopFrame {
  Tensor mask, hit;
  Found found;  ///< idx, top_x
  Tensor state, weighted;

  /// In the order of their first assignment.
  [[nodiscard]] std::vector<Tensor*> names() {
    return {&mask, &hit, &found.first, &found.second, &state, &weighted};
  }
};

/// One iteration of the loop: `output` with the expert's rows added.
Tensor add_expert(Eager& eager, const ExpertLoopInput& input, std::int64_t expert, LoopFrame& frame,
                  const Tensor& output) {
  const Shape& chosen = input.indices.shape();
  const Shape part{chosen[1], chosen[0]};
  const std::int64_t tokens = tokens_of(expert, input.indices.elements(), input.experts);
  {
    const Tensor copied =
        input.loop == ExpertLoop::kTensors ? torch::computed(eager, part, DType::kInt64) : Tensor{};
    Found found = where(eager, part, tokens);
    frame.found.first = std::move(found.first);
    frame.found.second = std::move(found.second);
  }
  {
    const Tensor seen = torch::view(eager, input.rows, input.rows.shape());  // [None]
    frame.state = torch::gather_rows(eager, seen, frame.found.second);
  }
  {
    Tensor result = input.run(expert, frame.state);
    const Tensor seen = torch::view(eager, input.weights, {chosen[0], chosen[1], 1});
    const Tensor factor = torch::gather_tokens(eager, seen, frame.found.second, frame.found.first);
    Tensor weighted = torch::mul(eager, result, factor);
    result.reset();
    frame.weighted = std::move(weighted);
  }
  const Tensor cast = torch::to(eager, frame.weighted, input.rows.dtype());
  return torch::add_rows_in_place(eager, output, frame.found.second, cast);
}

/// The names of DeepseekV3MoE.moe.
struct MethodFrame {
  Tensor mask;
  Found found;
  Tensor weights, rows, result, weighted;

  void clear() {
    for (Tensor* const name :
         {&mask, &found.first, &found.second, &weights, &rows, &result, &weighted}) {
      name->reset();
    }
  }
};

Tensor add_to_method(Eager& eager, const ExpertLoopInput& input, std::int64_t expert,
                     MethodFrame& frame, const Tensor& output) {
  const std::int64_t tokens = tokens_of(expert, input.indices.elements(), input.experts);
  Found found = where(eager, input.indices.shape(), tokens);
  frame.found.first = std::move(found.first);
  frame.found.second = std::move(found.second);
  frame.weights = torch::gather_tokens(eager, input.weights, frame.found.first, frame.found.second);
  frame.rows = torch::gather_rows(eager, input.rows, frame.found.first);
  frame.result = input.run(expert, frame.rows);
  {
    const Tensor column = torch::view(eager, frame.weights, {tokens, 1});
    frame.weighted = torch::mul(eager, frame.result, column);
  }
  return torch::add_rows_in_place(eager, output, frame.found.first, frame.weighted);
}

}  // namespace

Routing route_in_block(Eager& eager, const MoeSpec& moe, Tensor logits, DType dtype) {
  Routing routing;
  routing.logits = std::move(logits);
  Tensor weights = torch::softmax_last(eager, routing.logits, DType::kFp32);
  {
    auto [values, indices] = torch::top_k(eager, weights, moe.top_k);
    weights = std::move(values);
    routing.indices = std::move(indices);
  }
  if (moe.normalise_top_k) {
    const Tensor sum = torch::sum_rows(eager, weights);
    weights = torch::divide_in_place(eager, weights, sum);
  }
  routing.weights = torch::to(eager, weights, dtype);
  return routing;
}

Tensor run_expert_loop(Eager& eager, const ExpertLoopInput& input, std::vector<Tensor>& names) {
  LoopFrame frame;
  try {
    Tensor output = torch::filled(eager, input.rows.shape(), input.rows.dtype());
    frame.mask = torch::one_hot(eager, input.indices, input.experts);
    if (input.loop != ExpertLoop::kAll) {
      frame.hit = find_hit(eager, input.experts, input.indices.elements(), input.experts);
    }
    if (input.loop == ExpertLoop::kNumbers) {
      frame.hit.reset();  // A list of numbers.
    }
    for (std::int64_t expert = 0; expert < input.experts; ++expert) {
      output = add_expert(eager, input, expert, frame, output);
    }
    for (Tensor* const name : frame.names()) {
      names.push_back(std::move(*name));
    }
    return output;
  } catch (const torch::StopRecomputation&) {
    for (Tensor* const name : frame.names()) {
      name->reset();
    }
    throw;
  }
}

Tensor run_expert_method(Eager& eager, const ExpertLoopInput& input) {
  MethodFrame frame;
  try {
    Tensor output = torch::filled(eager, input.rows.shape(), input.weights.dtype());
    frame.mask = torch::one_hot(eager, input.indices, input.experts);
    for (std::int64_t expert = 0; expert < input.experts; ++expert) {
      output = add_to_method(eager, input, expert, frame, output);
    }
    output = torch::to(eager, output, input.rows.dtype());
    frame.clear();
    return output;
  } catch (const torch::StopRecomputation&) {
    frame.clear();
    throw;
  }
}

}  // namespace headroom::ir::transformers
