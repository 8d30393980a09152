#include "runtimes/torchtitan/compiled_steps.h"

#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

Id Steps::columns(Id input, Id weight, std::int64_t in, std::int64_t out) {
  return graph.product({input, weight}, sizes_.wide(out),
                       {.m = sizes_.rows(), .n = out, .k = in, .dtype = sizes_.dtype});
}

Id Steps::input_gradient(Id gradient, Id weight, std::int64_t in, std::int64_t out) {
  return graph.product(
      {gradient, weight}, sizes_.wide(in),
      {.m = sizes_.rows(), .n = in, .k = out, .dtype = sizes_.dtype, .layout = GemmLayout::kNN});
}

Id Steps::weight_gradient(Id gradient, Id input, std::int64_t in, std::int64_t out) {
  return graph.product(
      {gradient, input}, {out, in},
      {.m = out, .n = in, .k = sizes_.rows(), .dtype = sizes_.dtype, .layout = GemmLayout::kNT});
}

void Steps::first_norm(bool keeps) {
  std::vector<Made> made;
  if (keeps) {
    made.push_back(row_sums());
  }
  made.push_back(hidden());
  const std::vector<Id> ids = graph.kernel({values.x, weights.norm1}, made);
  values.rstd1 = ids.front();
  values.normed1 = ids.back();
}

void Steps::project_heads() {
  values.q = columns(values.normed1, weights.wq, sizes_.hidden, sizes_.queries());
  values.k = columns(values.normed1, weights.wk, sizes_.hidden, sizes_.keys());
  values.v = columns(values.normed1, weights.wv, sizes_.hidden, sizes_.keys());
}

/// Casts queries or keys to pairs of fp32 numbers.
Id Steps::widened(Id heads, std::int64_t width) {
  return graph.kernel_of({heads}, {sizes_.wide(width), DType::kFp32, {}});
}

/// A product of complex numbers; `look`: a complex view of the numbers.
Id Steps::turned(Id look) {
  const Shape shape = graph.shape(look);
  return graph.call({look, values.table}, {{shape, DType::kFp32, {}, true}},
                    [this, look, shape](Eager& eager) -> std::vector<Tensor> {
                      return {torch::computed(eager, shape, DType::kFp32, {&graph.tensor(look)})};
                    })[0];
}

/// Casts back to the activations' type.
Id Steps::narrowed(Id look, std::int64_t width) {
  return graph.kernel_of({look}, {sizes_.wide(width), sizes_.dtype, {}});
}

Id Steps::norm_heads(Id product, const HeadNorm& norm, Id* rstd) {
  std::vector<Made> made;
  if (rstd != nullptr) {
    made.push_back({{sizes_.batch, sizes_.sequence, norm.heads}, DType::kFp32, {}});
  }
  made.push_back({sizes_.wide(norm.heads * sizes_.head_dim), sizes_.dtype, {}});
  const std::vector<Id> ids = graph.kernel({product, norm.weight, values.table}, std::move(made));
  if (rstd != nullptr) {
    *rstd = ids.front();
  }
  return ids.back();
}

void Steps::rotate_both(bool keeps) {
  values.q_product = values.q;
  values.k_product = values.k;
  if (sizes_.norms_heads) {
    values.q =
        norm_heads(values.q, {weights.q_norm, sizes_.heads}, keeps ? &values.q_rstd : nullptr);
    values.k =
        norm_heads(values.k, {weights.k_norm, sizes_.kv_heads}, keeps ? &values.k_rstd : nullptr);
    return;
  }
  const Id wide_q = widened(values.q, sizes_.queries());
  const Id look_q = graph.view(wide_q);
  const Id wide_k = widened(values.k, sizes_.keys());
  const Id look_k = graph.view(wide_k);
  const Id turned_q = turned(look_q);
  const Id seen_q = graph.view(turned_q);
  const Id turned_k = turned(look_k);
  const Id seen_k = graph.view(turned_k);
  values.q = narrowed(seen_q, sizes_.queries());
  values.k = narrowed(seen_k, sizes_.keys());
}

/// View of [B, S, A * D] in the form that attention takes.
Tensor Steps::heads(Eager& eager, Id rows, std::int64_t count) const {
  Tensor view = eager.alias(graph.tensor(rows), sizes_.by_head(count), false);
  view->layout = torch::Layout::kSwapped;
  return view;
}

void Steps::attend() {
  const std::vector<Made> made = {{sizes_.wide(sizes_.queries()), sizes_.dtype, {}},
                                  {{sizes_.batch, sizes_.heads, sizes_.sequence}, DType::kFp32, {}},
                                  {{2}, DType::kInt64, {}},
                                  {{}, DType::kInt64, {}}};
  const std::vector<Id> ids =
      graph.call({values.q, values.k, values.v}, made, [this, at = values](Eager& eager) {
        torch::FlashOutputs outputs;
        const torch::GradMode no_grad(eager, false);
        static_cast<void>(torch::flash_attention(eager, heads(eager, at.q, sizes_.heads),
                                                 heads(eager, at.k, sizes_.kv_heads),
                                                 heads(eager, at.v, sizes_.kv_heads), outputs));
        return std::vector<Tensor>{std::move(outputs.output), std::move(outputs.log_sum),
                                   std::move(outputs.seed), std::move(outputs.offset)};
      });
  values.attended = ids[0];
  values.log_sum = ids[1];
  values.seed = ids[2];
  values.offset = ids[3];
}

void Steps::second_norm(bool keeps) {
  values.projected = columns(values.attended, weights.wo, sizes_.queries(), sizes_.hidden);
  std::vector<Made> made;
  if (keeps) {
    made.push_back(row_sums());
  }
  made.push_back(hidden());
  const std::vector<Id> ids = graph.kernel({values.x, values.projected, weights.norm2}, made);
  values.rstd2 = ids.front();
  values.normed2 = ids.back();
}

Id Steps::forward() {
  const bool all = memory_ == BlockMemory::kAll;
  first_norm(all);
  project_heads();
  rotate_both(all);
  attend();
  second_norm(all);
  values.gate = columns(values.normed2, weights.w1, sizes_.hidden, sizes_.ffn);
  values.up = columns(values.normed2, weights.w3, sizes_.hidden, sizes_.ffn);
  values.active = graph.kernel_of(
      {values.gate, values.up}, {sizes_.wide(sizes_.ffn), sizes_.dtype, {values.gate, values.up}});
  const Id down = columns(values.active, weights.w2, sizes_.ffn, sizes_.hidden);
  Made sum = hidden();
  sum.over = {values.projected, down};
  const Id output = graph.kernel_of({values.x, values.projected, down}, sum);
  graph.keep(output);
  if (memory_ == BlockMemory::kOperators) {
    values.q = values.q_product;  // The product itself is kept.
  }
  return output;
}

std::vector<Id*> Steps::kept() {
  Values& at = values;
  const bool eight = sizes_.float8 != Float8Recipe::kNone;
  std::vector<Id*> kept;
  switch (memory_) {
    case BlockMemory::kAll:
      kept = {&at.rstd1, &at.q,      &at.k,         &at.v,     &at.attended, &at.log_sum,
              &at.seed,  &at.offset, &at.projected, &at.rstd2, &at.gate,     &at.up};
      if (!eight) {
        kept.insert(kept.end(), {&at.normed1, &at.normed2, &at.active});
      }
      if (sizes_.norms_heads) {
        kept.insert(kept.end(), {&at.q_product, &at.k_product, &at.q_rstd, &at.k_rstd});
      }
      break;
    case BlockMemory::kOperators:
      kept = {&at.q, &at.v, &at.attended, &at.log_sum, &at.seed, &at.offset, &at.gate};
      break;
    case BlockMemory::kInputs:
      break;
    case BlockMemory::kBudget:
      return kept_of_budget();
  }
  if (eight) {
    keep_scales(kept);
  }
  return kept;
}

std::vector<Id*> Steps::kept_of_budget() {
  Values& at = values;
  const std::array<std::pair<BlockValue, Id*>, 19> names = {{
      {BlockValue::kRstd1, &at.rstd1},
      {BlockValue::kNormed1, &at.normed1},
      {BlockValue::kQueryProduct, &at.q_product},
      {BlockValue::kKeyProduct, &at.k_product},
      {BlockValue::kValues, &at.v},
      {BlockValue::kQueryRstd, &at.q_rstd},
      {BlockValue::kKeyRstd, &at.k_rstd},
      {BlockValue::kQueries, &at.q},
      {BlockValue::kKeys, &at.k},
      {BlockValue::kAttended, &at.attended},
      {BlockValue::kAttended, &at.log_sum},
      {BlockValue::kAttended, &at.seed},
      {BlockValue::kAttended, &at.offset},
      {BlockValue::kProjected, &at.projected},
      {BlockValue::kRstd2, &at.rstd2},
      {BlockValue::kNormed2, &at.normed2},
      {BlockValue::kGate, &at.gate},
      {BlockValue::kUp, &at.up},
      {BlockValue::kActive, &at.active},
  }};
  std::vector<Id*> kept;
  for (const auto& [name, value] : names) {
    if (chosen_.has(name)) {
      kept.push_back(value);
    }
  }
  return kept;
}

bool Steps::keeps_table() const {
  return memory_ == BlockMemory::kBudget &&
         (chosen_.has(BlockValue::kTable) || chosen_.has(BlockValue::kConjugate));
}

/// What a block with full checkpointing, or with selective checkpointing by operators, recomputes
/// before its backward.
void Steps::again() {
  if (memory_ == BlockMemory::kInputs) {
    first_norm(true);
    project_heads();
    rotate_both(true);
    attend();
  }
  second_norm(true);
  if (memory_ == BlockMemory::kInputs) {
    values.gate = columns(values.normed2, weights.w1, sizes_.hidden, sizes_.ffn);
  }
  values.up = columns(values.normed2, weights.w3, sizes_.hidden, sizes_.ffn);
}

}  // namespace headroom::ir::torchtitan
