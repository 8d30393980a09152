// Forward of a compiled block under a memory budget, and what its backward recomputes.
#include "runtimes/torchtitan/budget_block.h"

#include <utility>

namespace headroom::ir::torchtitan {
namespace {

/// The values from which a value is made.
std::vector<BlockValue> parts_of(BlockValue value, bool norms_heads) {
  using V = BlockValue;
  switch (value) {
    case V::kRstd1:
    case V::kTable:
    case V::kConjugate:
      return {};
    case V::kNormed1:
      return {V::kRstd1};
    case V::kQueryProduct:
    case V::kKeyProduct:
    case V::kValues:
      return {V::kNormed1};
    case V::kQueryRstd:
      return {V::kQueryProduct};
    case V::kKeyRstd:
      return {V::kKeyProduct};
    case V::kQueries:
      return {V::kQueryProduct, norms_heads ? V::kQueryRstd : V::kQueryProduct};
    case V::kKeys:
      return {V::kKeyProduct, norms_heads ? V::kKeyRstd : V::kKeyProduct};
    case V::kAttended:
      return {V::kQueries, V::kKeys, V::kValues};
    case V::kProjected:
      return {V::kAttended};
    case V::kRstd2:
      return {V::kProjected};
    case V::kNormed2:
      return {V::kRstd2, V::kProjected};
    case V::kGate:
    case V::kUp:
      return {V::kNormed2};
    case V::kActive:
      return {V::kGate, V::kUp};
  }
  return {};
}

}  // namespace

void BudgetBlock::collect(BlockValue value, KeptValues& wanted) const {
  if (has(value) || wanted.has(value)) {
    return;
  }
  wanted.add(value);
  for (const BlockValue part : parts_of(value, sizes().norms_heads)) {
    collect(part, wanted);
  }
}

void BudgetBlock::demand(Values values) {
  KeptValues wanted;
  for (const BlockValue value : values) {
    collect(value, wanted);
  }
  s_.graph.set_again(in_backward_);
  make(wanted);
  s_.graph.set_again(false);
  for (std::size_t i = 0; i < kBlockValues; ++i) {
    if (wanted.has(static_cast<BlockValue>(i))) {
      have_.add(static_cast<BlockValue>(i));
    }
  }
}

/// Runs a norm and, unless it already exists, its 1/rms. In forward, a kept 1/rms takes a further
/// step after the mean.
Id BudgetBlock::norm(Norm norm, Id& rstd, Again& again) {
  std::vector<Id> group;
  if (!has(norm.rstd)) {
    rstd = s_.graph.kernel_of(norm.reads, s_.row_sums());
    again.rstd = rstd;
    group.push_back(rstd);
    if (!in_backward_ && kept_.has(norm.rstd)) {
      rstd = s_.graph.kernel_of({rstd}, s_.row_sums());
      group.push_back(rstd);
    }
  }
  norm.reads.insert(norm.reads.end(), {rstd, norm.weight});
  const Id output = s_.graph.kernel_of(std::move(norm.reads), s_.hidden());
  again.output = output;
  again.phase = phase_;
  group.push_back(output);
  if ((norm.apart || !in_backward_) && group.size() > 1) {
    s_.graph.fuse(std::move(group));
  }
  return output;
}

void BudgetBlock::make(const KeptValues& wanted) {
  torchtitan::Values& at = s_.values;
  const Weights& w = s_.weights;
  const Sizes& size = sizes();
  if (wanted.has(BlockValue::kNormed1)) {
    at.normed1 = norm({.reads = {at.x},
                       .weight = w.norm1,
                       .rstd = BlockValue::kRstd1,
                       .apart = phase_ <= Phase::kFeedForward},
                      at.rstd1, first_);
  }
  make_heads(wanted);
  if (wanted.has(BlockValue::kProjected)) {
    at.projected = s_.columns(at.attended, w.wo, size.queries(), size.hidden);
  }
  if (wanted.has(BlockValue::kNormed2)) {
    at.normed2 = norm({.reads = {at.x, at.projected},
                       .weight = w.norm2,
                       .rstd = BlockValue::kRstd2,
                       .apart = phase_ == Phase::kGates},
                      at.rstd2, second_);
  }
  if (wanted.has(BlockValue::kGate)) {
    at.gate = s_.columns(at.normed2, w.w1, size.hidden, size.ffn);
  }
  if (wanted.has(BlockValue::kUp)) {
    at.up = s_.columns(at.normed2, w.w3, size.hidden, size.ffn);
  }
  if (wanted.has(BlockValue::kActive)) {
    at.active =
        s_.graph.kernel_of({at.gate, at.up}, {size.wide(size.ffn), size.dtype, {at.gate, at.up}});
    active_ = at.active;
  }
}

/// Makes the products for queries, keys and values, their rotation, and attention.
void BudgetBlock::make_heads(const KeptValues& wanted) {
  torchtitan::Values& at = s_.values;
  const Weights& w = s_.weights;
  const Sizes& size = sizes();
  if (wanted.has(BlockValue::kQueryProduct)) {
    at.q_product = s_.columns(at.normed1, w.wq, size.hidden, size.queries());
  }
  if (wanted.has(BlockValue::kKeyProduct)) {
    at.k_product = s_.columns(at.normed1, w.wk, size.hidden, size.keys());
  }
  if (wanted.has(BlockValue::kValues)) {
    at.v = s_.columns(at.normed1, w.wv, size.hidden, size.keys());
  }
  if (size.norms_heads) {
    norm_heads(wanted);
  } else {
    rotate_complex(wanted.has(BlockValue::kQueries), wanted.has(BlockValue::kKeys));
  }
  if (wanted.has(BlockValue::kAttended)) {
    narrow_both(!in_backward_ && kept_.has(BlockValue::kKeys) && !kept_.has(BlockValue::kQueries));
    s_.attend();
    s_.graph.skip(1);  // Skips the number of a result that nobody reads.
    attends_again_ = in_backward_;
  }
}

/// The view of the rotary table by position. Backward receives this view from forward, if it was
/// chosen at all.
Id BudgetBlock::table() {
  if (!table_) {
    const bool is_look = in_backward_ && kept_.has(BlockValue::kTable);
    table_ = is_look ? s_.values.table : s_.graph.view(s_.values.table);
  }
  return *table_;
}

/// Rotates queries and keys as complex numbers. They are cast back where they are read.
void BudgetBlock::rotate_complex(bool queries, bool keys) {
  const auto look_at = [&](Id product, std::int64_t width) {
    return s_.graph.view(s_.widened(product, width));
  };
  Id q = 0;
  Id k = 0;
  if (queries) {
    q = look_at(s_.values.q_product, sizes().queries());
  }
  if (keys) {
    k = look_at(s_.values.k_product, sizes().keys());
  }
  if (queries || keys) {
    s_.values.table = table();
  }
  if (queries) {
    seen_q_ = s_.graph.view(s_.turned(q));
  }
  if (keys) {
    seen_k_ = s_.graph.view(s_.turned(k));
  }
}

/// Qwen3: computes 1/rms of the heads, and norms and rotates them. Queries and keys have a kernel
/// each.
void BudgetBlock::norm_heads(const KeptValues& wanted) {
  struct Kind {
    BlockValue rstd_name;
    BlockValue name;
    Id product;
    Id weight;
    std::int64_t count;
    Id* rstd;
    Id* heads;
    std::vector<Id> group;
    std::optional<Id> normed;
  };
  torchtitan::Values& at = s_.values;
  std::array<Kind, 2> kinds = {{{BlockValue::kQueryRstd,
                                 BlockValue::kQueries,
                                 at.q_product,
                                 s_.weights.q_norm,
                                 sizes().heads,
                                 &at.q_rstd,
                                 &at.q,
                                 {},
                                 {}},
                                {BlockValue::kKeyRstd,
                                 BlockValue::kKeys,
                                 at.k_product,
                                 s_.weights.k_norm,
                                 sizes().kv_heads,
                                 &at.k_rstd,
                                 &at.k,
                                 {},
                                 {}}}};
  for (Kind& kind : kinds) {
    if (!wanted.has(kind.rstd_name)) {
      continue;
    }
    const Made sums{{sizes().batch, sizes().sequence, kind.count}, DType::kFp32, {}};
    *kind.rstd = s_.graph.kernel_of({kind.product}, sums);
    kind.group.push_back(*kind.rstd);
    if (!in_backward_ && kept_.has(kind.rstd_name)) {
      *kind.rstd = s_.graph.kernel_of({*kind.rstd}, sums);
      kind.group.push_back(*kind.rstd);
    }
  }
  const auto made = [&](const Kind& kind) {
    return Made{sizes().wide(kind.count * sizes().head_dim), sizes().dtype, {}};
  };
  for (Kind& kind : kinds) {
    const bool keeps_rstd = !in_backward_ && kept_.has(kind.rstd_name);
    if (wanted.has(kind.name) && wanted.has(kind.rstd_name) && !keeps_rstd) {
      kind.normed = s_.graph.kernel_of({kind.product, *kind.rstd, kind.weight}, made(kind));
      kind.group.push_back(*kind.normed);
    }
  }
  for (Kind& kind : kinds) {
    if (!wanted.has(kind.name)) {
      continue;
    }
    const std::vector<Id> reads =
        kind.normed ? std::vector<Id>{*kind.normed, at.table}
                    : std::vector<Id>{kind.product, *kind.rstd, kind.weight, at.table};
    *kind.heads = s_.graph.kernel_of(reads, made(kind));
    kind.group.push_back(*kind.heads);
    if (kind.group.size() > 1) {
      s_.graph.fuse(std::move(kind.group));
    }
  }
}

/// Casts queries and keys to 16 bits, as attention reads them. In backward each cast is a copy of
/// its own.
void BudgetBlock::narrow(Id& heads, const std::optional<Id>& seen, std::int64_t width) {
  if (!seen) {
    return;
  }
  const Id first = heads;
  heads = s_.narrowed(*seen, width);
  if (attends_again_) {
    s_.graph.fuse({first, heads});
  }
}

void BudgetBlock::narrow_both(bool keys_first) {
  if (keys_first) {
    narrow(s_.values.k, seen_k_, sizes().keys());
  }
  narrow(s_.values.q, seen_q_, sizes().queries());
  if (!keys_first) {
    narrow(s_.values.k, seen_k_, sizes().keys());
  }
}

Id BudgetBlock::forward() {
  have_ = {};
  demand({BlockValue::kActive});
  const Id down = s_.columns(s_.values.active, s_.weights.w2, sizes().ffn, sizes().hidden);
  Made sum = s_.hidden();
  sum.over = {s_.values.projected, down};
  const Id output = s_.graph.kernel_of({s_.values.x, s_.values.projected, down}, std::move(sum));
  s_.graph.keep(output);
  if (kept_.has(BlockValue::kConjugate)) {
    s_.graph.keep(s_.graph.view(table()));
  }
  return output;
}

}  // namespace headroom::ir::torchtitan
