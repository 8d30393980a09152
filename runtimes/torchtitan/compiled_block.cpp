#include "runtimes/torchtitan/compiled_block.h"

#include <array>
#include <utility>
#include <vector>

#include "runtimes/torch/record.h"
#include "runtimes/torchtitan/budget_block.h"
#include "runtimes/torchtitan/compiled_steps.h"
#include "runtimes/torchtitan/memory_budget.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {

Id Steps::run() {
  const bool eight = sizes_.float8 != Float8Recipe::kNone;
  const bool budget = memory_ == BlockMemory::kBudget;
  Id result = 0;
  if (budget) {
    result = BudgetBlock(*this, chosen_).forward();
  } else {
    result = eight ? forward_float8() : forward();
  }
  for (const Id* const value : kept()) {
    graph.keep(*value);
  }
  if (budget) {
    graph.schedule();
  }
  return result;
}

std::vector<Id> Steps::run_back(Id tangent) {
  if (memory_ == BlockMemory::kBudget) {
    std::vector<Id> grads = BudgetBlock(*this, chosen_).backward(tangent);
    graph.schedule();
    return grads;
  }
  return sizes_.float8 != Float8Recipe::kNone ? backward_float8(tangent) : backward(tangent);
}
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Tensor;

/// The weights of the norms of queries and keys come last, if they exist.
constexpr std::array<Id Weights::*, 11> kWeights = {
    &Weights::norm1, &Weights::wq, &Weights::wk, &Weights::wv,     &Weights::wo,    &Weights::norm2,
    &Weights::w1,    &Weights::w3, &Weights::w2, &Weights::q_norm, &Weights::k_norm};

std::size_t weight_count(const Sizes& sizes) {
  return sizes.norms_heads ? kWeights.size() : kWeights.size() - 2;
}

/// Runs backward from the saved tensors: input, rotary table, weights, then those that
/// `Steps::kept` lists.
Gradients run_backward(Eager& eager, Gradients& grads, Node& node, const Sizes& sizes,
                       const BlockKeeps& keeps) {
  Steps steps(eager, sizes, keeps);
  std::size_t at = 0;
  const auto next = [&] {
    Tensor tensor = node.saved[at].unpack(eager);
    node.saved[at].reset();
    ++at;
    return tensor;
  };
  steps.values.x = steps.graph.taken(next(), false);
  steps.values.table = steps.graph.taken(next(), steps.keeps_table());
  for (std::size_t i = 0; i < weight_count(sizes); ++i) {
    steps.weights.*kWeights[i] = steps.graph.taken(next(), false);
  }
  for (Id* const value : steps.kept()) {
    *value = steps.graph.taken(next(), true);
  }
  const Id tangent = steps.graph.argument(grads[0]);
  const std::vector<Id> made = steps.run_back(tangent);
  steps.graph.run();
  Gradients result;
  for (const Id gradient : made) {
    result.push_back(steps.graph.take(gradient));
  }
  return result;
}

Sizes sizes_of(const Model& model, const Block& block, const Tensor& x) {
  Sizes sizes = block_sizes(*model.spec, x.shape()[0], x.shape()[1]);
  sizes.dtype = x.dtype();
  sizes.float8 = titan_of(*model.plan).float8;
  sizes.float8_weights = block.wq.dtype() == DType::kFp8;
  return sizes;
}

}  // namespace

Tensor compiled_block(Eager& eager, const Model& model, const Block& block, const Tensor& x,
                      const Tensor& rotary, const BlockKeeps& keeps) {
  const Sizes sizes = sizes_of(model, block, x);
  const std::array<const Tensor*, 11> weights = {
      &block.attention_norm, &block.wq, &block.wk, &block.wv, &block.wo,
      &block.ffn_norm,       &block.w1, &block.w3, &block.w2, &block.q_norm,
      &block.k_norm};
  const std::size_t count = weight_count(sizes);
  std::vector<Tensor> inputs{block.attention_norm, x};  // They are in the order of the gradients.
  for (std::size_t i = 1; i < count; ++i) {
    inputs.push_back(*weights[i]);
  }
  Record record(eager, inputs);
  Steps steps(eager, sizes, keeps);
  steps.values.x = steps.graph.argument(x);
  steps.values.table = steps.graph.argument(rotary);
  for (std::size_t i = 0; i < count; ++i) {
    steps.weights.*kWeights[i] = steps.graph.argument(*weights[i]);
  }
  const Id result = steps.run();
  const std::vector<Id*> kept = steps.kept();
  steps.graph.run();
  record.save(x);
  record.save(rotary);
  for (std::size_t i = 0; i < count; ++i) {
    record.save(*weights[i]);
  }
  for (const Id* const value : kept) {
    record.save(steps.graph.tensor(*value));
  }
  Tensor output = steps.graph.take(result);
  record.finish(output, [sizes, keeps](Eager& e, Gradients& grads, Node& node) -> Gradients {
    return run_backward(e, grads, node, sizes, keeps);
  });
  return output;
}

}  // namespace headroom::ir::torchtitan
