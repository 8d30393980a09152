#include "runtimes/torchtitan/kept_values.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtimes/torch/partitioner.h"

namespace headroom::ir::torchtitan {
namespace {

using torch::JointNode;
using torch::JointOp;
using Id = std::size_t;

constexpr std::int64_t kHalf = 2;       ///< Bytes of 16-bit activations.
constexpr std::int64_t kFullBytes = 4;  ///< Bytes of fp32 values.

/// A block's forward and backward, operator by operator, as they are traced. Of backward, it
/// contains only operators that read forward's values.
class BlockGraph {
 public:
  explicit BlockGraph(const Sizes& sizes) : sizes_(sizes) { build(); }

  [[nodiscard]] const std::vector<JointNode>& nodes() const { return nodes_; }
  [[nodiscard]] const std::map<Id, BlockValue>& names() const { return names_; }

 private:
  struct Product {
    Id weight = 0;  ///< Transposed.
    Id result = 0;
    std::int64_t width = 0;
  };
  struct Norm {
    Id weight = 0;
    Id rstd = 0;
    Id scaled = 0;  ///< x / rms, fp32.
    Id output = 0;
  };
  struct Width {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    [[nodiscard]] std::int64_t elements() const { return rows * columns; }
  };

  Id add(JointNode node) {
    nodes_.push_back(std::move(node));
    return nodes_.size() - 1;
  }
  Id input(std::int64_t elements, std::int64_t bytes = kHalf) {
    return add(
        {.op = JointOp::kInput, .reads = {}, .bytes = elements * bytes, .is_parameter = true});
  }
  Id point(std::vector<Id> reads, std::int64_t bytes) {
    return add({.op = JointOp::kPointwise, .reads = std::move(reads), .bytes = bytes});
  }
  Id view(Id read) {
    return add({.op = JointOp::kView, .reads = {read}, .bytes = nodes_[read].bytes});
  }
  Id other(std::vector<Id> reads, std::int64_t bytes) {
    return add({.op = JointOp::kOther, .reads = std::move(reads), .bytes = bytes});
  }
  /// Adds an operator of backward; its own readers do not matter.
  void back(JointOp op, std::vector<Id> reads) {
    add({.op = op, .reads = std::move(reads), .is_gradient = true});
  }
  void name(Id node, BlockValue value) { names_.emplace(node, value); }

  Norm norm(Id input, Id weight, Width width);
  void norm_backward(const Norm& norm);
  [[nodiscard]] std::pair<Id, Id> pair_of(Id table);
  Product product(Id input, Id weight, Width width, std::int64_t depth);
  Id rotated_complex(Id look, Id table);
  Id rotated_halves(Id heads, std::pair<Id, Id> table);
  void rotate(Id table);
  void attend();
  void feed_forward();
  void feed_forward_backward();
  void attention_backward();
  void heads_backward();
  void build();

  Sizes sizes_;
  std::vector<JointNode> nodes_;
  std::map<Id, BlockValue> names_;
  struct {
    Id norm1, x, wq, wk, wv, q_norm, k_norm, table, wo, norm2, w1, w3, w2;
  } in_{};
  Norm first_;
  Norm second_;
  Norm q_heads_;
  Norm k_heads_;
  Product q_;
  Product k_;
  Product v_;
  Product o_;
  Product gate_;
  Product up_;
  Product down_;
  Id input1_ = 0;  ///< Input of the products, rows by width.
  Id input2_ = 0;
  Id input_o_ = 0;
  Id input_down_ = 0;
  Id turned_q_ = 0;  ///< Queries, keys and values as attention reads them.
  Id turned_k_ = 0;
  Id turned_v_ = 0;
  Id table_ = 0;              ///< A view of the complex table.
  std::pair<Id, Id> halves_;  ///< Views of cosines and sines.
  Id sum_ = 0;                ///< Sum of x and attention's output.
  Id items_[4] = {};  ///< Results of attention: output, log-sum-exp of the rows, seed, offset.
  Id wide_gate_ = 0;
  Id sigmoid_ = 0;  ///< Divisor of the sigmoid.
  Id silu_ = 0;
  Id up_look_ = 0;
};

/// _fused_rms_norm, decomposed.
BlockGraph::Norm BlockGraph::norm(Id input, Id weight, Width width) {
  const std::int64_t full = width.elements() * kFullBytes;
  const std::int64_t sums = width.rows * kFullBytes;
  const Id wide = point({input}, full);
  const Id squares = point({wide}, full);
  const Id mean = point({squares}, sums);
  const Id shifted = point({mean}, sums);
  Norm norm{.weight = weight};
  norm.rstd = point({shifted}, sums);
  norm.scaled = point({wide, norm.rstd}, full);
  const Id weighed = point({norm.scaled, weight}, full);
  norm.output = point({weighed}, width.elements() * kHalf);
  return norm;
}

/// What its backward reads; the weight is cast.
void BlockGraph::norm_backward(const Norm& norm) {
  const Id weight = point({norm.weight}, 2 * nodes_[norm.weight].bytes);
  back(JointOp::kPointwise, {weight});
  back(JointOp::kPointwise, {norm.scaled});
  const Id divided = point({norm.scaled}, nodes_[norm.scaled].bytes);
  back(JointOp::kPointwise, {divided});
  back(JointOp::kPointwise, {norm.rstd});
  back(JointOp::kPointwise, {norm.scaled});
}

BlockGraph::Product BlockGraph::product(Id input, Id weight, Width width, std::int64_t depth) {
  Product product{.weight = view(weight), .width = width.columns};
  const double flops = 2.0 * static_cast<double>(width.rows) * static_cast<double>(width.columns) *
                       static_cast<double>(depth);
  product.result = add({.op = JointOp::kIntensive,
                        .reads = {input, product.weight},
                        .bytes = width.elements() * kHalf,
                        .flops = flops});
  return product;
}

/// The complex view `look`, multiplied by the table.
Id BlockGraph::rotated_complex(Id look, Id table) {
  const Id turned = point({look, table}, nodes_[look].bytes);
  const Id numbers = other({turned}, nodes_[look].bytes);
  return view(numbers);
}

/// (x * cos) + (rotate_half(x) * sin).
Id BlockGraph::rotated_halves(Id heads, std::pair<Id, Id> table) {
  const std::int64_t bytes = nodes_[heads].bytes;
  const auto half = [&] {
    return add({.op = JointOp::kView, .reads = {heads}, .bytes = bytes / 2});
  };
  const Id straight = point({heads, table.first}, bytes);
  const Id first = half();
  const Id second = half();
  const Id negated = point({second}, bytes / 2);
  const Id halves = add({.op = JointOp::kCat, .reads = {negated, first}, .bytes = bytes});
  const Id crossed = point({halves, table.second}, bytes);
  return point({straight, crossed}, bytes);
}

/// Cosines and sines of the rows of a table.
std::pair<Id, Id> BlockGraph::pair_of(Id table) {
  const Id rows = view(table);
  const auto half = [&] {
    return add({.op = JointOp::kView, .reads = {rows}, .bytes = nodes_[rows].bytes / 2});
  };
  const Id cosines = half();
  return {cosines, half()};
}

void BlockGraph::rotate(Id table) {
  const std::int64_t rows = sizes_.rows();
  const auto by_head = [&](const Product& product) { return view(view(product.result)); };
  const Id q = by_head(q_);
  const Id k = by_head(k_);
  const Id v = by_head(v_);
  Id q_out = 0;
  Id k_out = 0;
  if (sizes_.norms_heads) {
    q_heads_ = norm(q, in_.q_norm, {rows * sizes_.heads, sizes_.head_dim});
    k_heads_ = norm(k, in_.k_norm, {rows * sizes_.kv_heads, sizes_.head_dim});
    halves_ = pair_of(table);
    q_out = rotated_halves(q_heads_.output, halves_);
    k_out = rotated_halves(k_heads_.output, halves_);
  } else {
    const auto complex = [&](Id heads) {
      const Id wide = point({heads}, 2 * nodes_[heads].bytes);
      return other({view(wide)}, nodes_[wide].bytes);
    };
    const Id q_look = complex(q);
    const Id k_look = complex(k);
    table_ = view(table);
    const Id q_wide = rotated_complex(q_look, table_);
    const Id k_wide = rotated_complex(k_look, table_);
    q_out = point({q_wide}, nodes_[q].bytes);
    k_out = point({k_wide}, nodes_[k].bytes);
  }
  turned_q_ = view(q_out);
  turned_k_ = view(k_out);
  turned_v_ = view(v);
}

/// Attention's operator returns a tuple. Values that only backward reads are not part of forward.
void BlockGraph::attend() {
  const double scores = static_cast<double>(sizes_.batch * sizes_.heads) *
                        static_cast<double>(sizes_.sequence) * static_cast<double>(sizes_.sequence);
  const std::int64_t output = sizes_.rows() * sizes_.queries() * kHalf;
  const std::int64_t sums = sizes_.rows() * sizes_.heads * kFullBytes;
  constexpr std::int64_t kSeed = 16;
  constexpr std::int64_t kOffset = 8;
  const Id tuple = add({.op = JointOp::kIntensive,
                        .reads = {turned_q_, turned_k_, turned_v_},
                        .bytes = output + sums + kSeed + kOffset,
                        .flops = 4 * scores * static_cast<double>(sizes_.head_dim),
                        .is_tuple = true});
  const std::int64_t bytes[4] = {output, sums, kSeed, kOffset};
  for (std::size_t i = 0; i < 4; ++i) {
    items_[i] = add({.op = JointOp::kItem, .reads = {tuple}, .bytes = bytes[i]});
  }
  const Id rows = view(view(items_[0]));
  const Id weight = view(in_.wo);
  input_o_ = view(rows);
  const Width width{sizes_.rows(), sizes_.hidden};
  o_ = {.weight = weight, .width = sizes_.hidden};
  o_.result = add({.op = JointOp::kIntensive,
                   .reads = {input_o_, weight},
                   .bytes = width.elements() * kHalf,
                   .flops = 2.0 * static_cast<double>(width.elements()) *
                            static_cast<double>(sizes_.queries())});
}

/// silu(w1(x)) * w3(x) and the product after it.
void BlockGraph::feed_forward() {
  const std::int64_t rows = sizes_.rows();
  const std::int64_t half = rows * sizes_.ffn * kHalf;
  const std::int64_t full = rows * sizes_.ffn * kFullBytes;
  gate_ = product(input2_, in_.w1, {rows, sizes_.ffn}, sizes_.hidden);
  wide_gate_ = point({view(gate_.result)}, full);
  const Id negated = point({wide_gate_}, full);
  sigmoid_ = point({point({negated}, full)}, full);
  silu_ = point({point({wide_gate_, sigmoid_}, full)}, half);
  up_ = product(input2_, in_.w3, {rows, sizes_.ffn}, sizes_.hidden);
  up_look_ = view(up_.result);
  const Id active = point({silu_, up_look_}, half);
  name(active, BlockValue::kActive);
  input_down_ = view(active);
  name(input_down_, BlockValue::kActive);
  down_ = product(input_down_, in_.w2, {rows, sizes_.hidden}, sizes_.ffn);
  const Id output = point({sum_, view(down_.result)}, rows * sizes_.hidden * kHalf);
  nodes_[output].is_output = true;
}

void BlockGraph::feed_forward_backward() {
  const std::int64_t full = nodes_[wide_gate_].bytes;
  back(JointOp::kIntensive, {input_down_});
  back(JointOp::kIntensive, {view(down_.weight)});
  back(JointOp::kPointwise, {silu_});
  back(JointOp::kPointwise, {up_look_});
  back(JointOp::kIntensive, {input2_});
  back(JointOp::kIntensive, {view(up_.weight)});
  const Id share = point({point({sigmoid_}, full)}, full);
  back(JointOp::kPointwise, {share});
  const Id slope = point({point({wide_gate_, point({share}, full)}, full)}, full);
  back(JointOp::kPointwise, {slope});
  back(JointOp::kIntensive, {input2_});
  back(JointOp::kIntensive, {view(gate_.weight)});
}

void BlockGraph::attention_backward() {
  back(JointOp::kIntensive, {input_o_});
  back(JointOp::kIntensive, {view(o_.weight)});
  back(JointOp::kOther,
       {turned_q_, turned_k_, turned_v_, items_[0], items_[1], items_[2], items_[3]});
}

void BlockGraph::heads_backward() {
  if (sizes_.norms_heads) {
    back(JointOp::kPointwise, {halves_.second});
    back(JointOp::kPointwise, {halves_.first});
    norm_backward(k_heads_);
    norm_backward(q_heads_);
  } else {
    const Id conjugate = other({table_}, nodes_[table_].bytes);
    name(conjugate, BlockValue::kConjugate);
    back(JointOp::kPointwise, {point({conjugate}, nodes_[table_].bytes)});
  }
  for (const Product* product : {&v_, &k_, &q_}) {
    back(JointOp::kIntensive, {input1_});
    back(JointOp::kIntensive, {view(product->weight)});
  }
}

void BlockGraph::build() {
  const std::int64_t rows = sizes_.rows();
  const std::int64_t hidden = sizes_.hidden;
  in_.norm1 = input(hidden);
  in_.x = input(rows * hidden);
  nodes_[in_.x].is_parameter = false;
  in_.wq = input(sizes_.queries() * hidden);
  in_.wk = input(sizes_.keys() * hidden);
  in_.wv = input(sizes_.keys() * hidden);
  if (sizes_.norms_heads) {
    in_.q_norm = input(sizes_.head_dim);
    in_.k_norm = input(sizes_.head_dim);
  }
  const std::int64_t angles = sizes_.sequence * sizes_.head_dim;  // Pairs of 16 or 32 bits.
  in_.table = sizes_.norms_heads ? input(2 * angles) : input(angles, kFullBytes);
  nodes_[in_.table].is_parameter = false;
  in_.wo = input(sizes_.queries() * hidden);
  in_.norm2 = input(hidden);
  in_.w1 = input(sizes_.ffn * hidden);
  in_.w3 = input(sizes_.ffn * hidden);
  in_.w2 = input(sizes_.ffn * hidden);
  const Id tangent = other({}, rows * hidden * kHalf);
  nodes_[tangent].is_gradient = true;
  first_ = norm(in_.x, in_.norm1, {rows, hidden});
  input1_ = view(first_.output);
  q_ = product(input1_, in_.wq, {rows, sizes_.queries()}, hidden);
  k_ = product(input1_, in_.wk, {rows, sizes_.keys()}, hidden);
  v_ = product(input1_, in_.wv, {rows, sizes_.keys()}, hidden);
  rotate(in_.table);
  attend();
  sum_ = point({in_.x, view(o_.result)}, rows * hidden * kHalf);
  second_ = norm(sum_, in_.norm2, {rows, hidden});
  input2_ = view(second_.output);
  feed_forward();
  feed_forward_backward();
  norm_backward(second_);
  attention_backward();
  heads_backward();
  norm_backward(first_);
  name(first_.rstd, BlockValue::kRstd1);
  name(input1_, BlockValue::kNormed1);
  name(table_, BlockValue::kTable);
  name(q_.result, BlockValue::kQueryProduct);
  name(k_.result, BlockValue::kKeyProduct);
  name(v_.result, BlockValue::kValues);
  name(turned_v_, BlockValue::kValues);
  name(turned_q_, BlockValue::kQueries);
  name(turned_k_, BlockValue::kKeys);
  if (sizes_.norms_heads) {
    name(q_heads_.rstd, BlockValue::kQueryRstd);
    name(k_heads_.rstd, BlockValue::kKeyRstd);
  }
  for (const Id item : items_) {
    name(item, BlockValue::kAttended);
  }
  name(o_.result, BlockValue::kProjected);
  name(second_.rstd, BlockValue::kRstd2);
  name(input2_, BlockValue::kNormed2);
  name(gate_.result, BlockValue::kGate);
  name(up_.result, BlockValue::kUp);
}

}  // namespace

Result<KeptValues> kept_values(const Sizes& sizes, double budget) {
  const BlockGraph graph(sizes);
  KeptValues kept;
  for (const Id node : torch::saved_nodes(graph.nodes(), budget)) {
    if (graph.nodes()[node].op == JointOp::kInput) {
      continue;
    }
    const auto found = graph.names().find(node);
    if (found == graph.names().end()) {
      return Error::invalid_argument("titan", "memory-budget=" + std::to_string(budget),
                                     "a budget for which the values that the partitioner keeps are "
                                     "modelled",
                                     "use another budget, or selective instead");
    }
    kept.add(found->second);
  }
  return kept;
}

}  // namespace headroom::ir::torchtitan
