#pragma once

#include <cstdint>
#include <functional>

#include "validators/executor/tape.h"
#include "validators/executor/unit.h"

/// The operators of a model: each runs forward and records its backward. T tokens are the rows of
/// all activations.
namespace headroom::exec {

/// A parameter of a unit. The unit must be acquired in forward and in backward.
struct Weight {
  Unit* unit = nullptr;
  std::size_t index = 0;
  [[nodiscard]] Tensor value() const { return unit->weight(index); }
  [[nodiscard]] Tensor gradient() const { return unit->gradient(index); }
  [[nodiscard]] bool empty() const { return unit == nullptr; }
};

/// Sizes of a micro-batch, and of attention on this rank.
struct AttentionSizes {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  ///< 0: all keys before the query.
  double scale = 0;
  [[nodiscard]] std::int64_t tokens() const { return batch * sequence; }
};

/// C = op(A) op(B) + beta C.
void product(const Context& context, const Tensor& c, const Tensor& a, bool transpose_a,
             const Tensor& b, bool transpose_b, double beta = 0);

/// sum += the sum of the rows of x.
void add_column_sum(const Context& context, const Tensor& sum, const Tensor& x);
/// Adds the bias to each row of x, in place.
void add_bias_rows(const Context& context, const Tensor& x, const Tensor& bias);

/// Rows of a table. `first`: the first id whose row is here; other ids give rows of zeros.
[[nodiscard]] Var embedding(Tape& tape, const Tensor& ids, const Weight& table, std::int64_t first);
/// x + table[position of each token].
[[nodiscard]] Var add_positions(Tape& tape, const Var& x, const Weight& table,
                                std::int64_t sequence);
struct NormSpec {
  HeadroomNorm kind = HEADROOM_RMS_NORM;
  double epsilon = 1e-5;
};
/// Norm of rows of as many elements as the weight has: [T, H], or the heads of [T, A * D].
[[nodiscard]] Var norm(Tape& tape, const NormSpec& spec, const Var& x, const Weight& weight,
                       const Weight& bias);
/// A matrix in 8 bits: as it is, and transposed for backward. Empty: products are not in 8 bits.
struct Quantised {
  Tensor rows;
  Tensor transposed;
  Tensor scale;  ///< [1] STAT
  HeadroomFp8 format = HEADROOM_E4M3;
};
/// x for linear operators of a layer that read it; empty unless `Types::fp8_products`.
[[nodiscard]] Quantised quantise_input(Tape& tape, const Var& x);
/// x W^T + b with `input`, x in 8 bits; as the next one if `input` is empty.
[[nodiscard]] Var linear(Tape& tape, const Var& x, const Quantised& input, const Weight& weight,
                         const Weight& bias);
/// The same for an x that nobody else reads.
[[nodiscard]] Var project(Tape& tape, const Var& x, const Weight& weight, const Weight& bias);

/// x W^T + b; x [T, K], W [N, K], b empty or [N].
[[nodiscard]] Var linear(Tape& tape, const Var& x, const Weight& weight, const Weight& bias);
[[nodiscard]] Var add(Tape& tape, const Var& a, const Var& b);
[[nodiscard]] Var add_bias(Tape& tape, const Var& x, const Weight& bias);
[[nodiscard]] Var activation(Tape& tape, const Var& x, HeadroomActivation function);
/// f(gate) * up.
[[nodiscard]] Var gated(Tape& tape, const Var& gate, const Var& up, HeadroomActivation function);

struct RopeSpec {
  Tensor table;  ///< HeadroomDeviceTable::rope_table.
  std::int64_t rotated = 0;
  bool interleaved = false;
};
/// Rotates the heads of [T, heads * D] in place: x must have no other reader.
[[nodiscard]] Var rope(Tape& tape, const RopeSpec& spec, const Var& x, std::int64_t sequence,
                       std::int64_t head_dim);
/// Causal attention in one kernel, which saves q, k, v, its output and one number per row.
[[nodiscard]] Var flash_attention(Tape& tape, const AttentionSizes& sizes, const Var& q,
                                  const Var& k, const Var& v);
/// The same in three steps with the probabilities [B, A, S, S] in memory.
[[nodiscard]] Var eager_attention(Tape& tape, const AttentionSizes& sizes, const Var& q,
                                  const Var& k, const Var& v);

// Tensor parallelism (Shoeybi et al. 2019, Megatron-LM, arXiv:1909.08053, section 3).

/// Begins a part that is divided over the tensor-parallel ranks. Identity; the gradient is summed
/// over the ranks (f in the paper). With sequence parallelism: the rows of all ranks, all-gathered;
/// the gradient is reduce-scattered (g in Korthikanti et al. 2022, arXiv:2205.05198,
/// section 4.2.2).
[[nodiscard]] Var enter_tensor_ranks(Tape& tape, const Var& x);
/// All readers of `entered = enter_tensor_ranks(tape, x)` are recorded. With sequence parallelism,
/// the gathered rows are freed, and gathered again before the readers' backward.
void drop_entered(Tape& tape, Var& entered, const Var& x);
/// Ends such a part. Sum over the ranks, in place; the gradient passes (g in the first paper). With
/// sequence parallelism: this rank's rows of the sum; the gradient is all-gathered.
[[nodiscard]] Var leave_tensor_ranks(Tape& tape, const Var& x);
/// Gathers the rows of all ranks with sequence parallelism, for readers that compute the same on
/// all of them, so that each rank's rows of the gradient are already whole.
[[nodiscard]] Var gather_for_all(Tape& tape, const Var& x);

/// Runs `before` in forward and `after` when backward reaches this place.
void mark(Tape& tape, std::function<void()> after);

}  // namespace headroom::exec
