#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

#include "model_ir/base/result.h"
#include "runtimes/torchtitan/block_sizes.h"

namespace headroom::ir::torchtitan {

/// Values that a compiled block may keep between forward and backward, in the order in which they
/// are computed.
enum class BlockValue : std::uint8_t {
  kRstd1,         ///< 1/rms of the first norm.
  kNormed1,       ///< Output of the first norm.
  kQueryProduct,  ///< Queries before rotation (and Qwen3's norm of queries).
  kKeyProduct,
  kValues,
  kQueryRstd,  ///< Qwen3: 1/rms of the heads of queries.
  kKeyRstd,
  kQueries,  ///< Queries after rotation.
  kKeys,
  kAttended,  ///< With the log-sum-exp of the rows and the state of the generator.
  kProjected,
  kRstd2,
  kNormed2,
  kGate,
  kUp,
  kActive,
  kTable,      ///< A view of the rotary table, which is an argument.
  kConjugate,  ///< The conjugate view of the rotary table.
};
inline constexpr std::size_t kBlockValues = 18;

class KeptValues {
 public:
  void add(BlockValue value) { values_.set(static_cast<std::size_t>(value)); }
  [[nodiscard]] bool has(BlockValue value) const {
    return values_.test(static_cast<std::size_t>(value));
  }
  friend bool operator==(const KeptValues&, const KeptValues&) = default;

 private:
  std::bitset<kBlockValues> values_;
};

/// How a compiled block decides what it keeps between forward and backward.
enum class BlockMemory : std::uint8_t {
  kAll,        ///< No checkpointing.
  kOperators,  ///< Selective checkpointing by operators: keeps every second product, and attention.
  kInputs,     ///< Full checkpointing.
  kBudget,     ///< Keeps what the partitioner chose within a budget.
};

/// The same, with the partitioner's choice.
struct BlockKeeps {
  BlockMemory memory = BlockMemory::kAll;
  KeptValues chosen;  ///< Used under a budget.
};

/// What the compiler's partitioner lets a dense block of Llama 3 or Qwen3 keep besides its
/// arguments, for a budget from 0 to 1.
///
/// Source: the joint graphs that PyTorch 2.11 traces of TransformerBlock; pytorch/torchtitan 0.2.2
///         torchtitan/distributed/activation_checkpoint.py, apply_ac (memory_budget).
/// Errors: kInvalidArgument if the partitioner chooses a value that has none of the names above.
[[nodiscard]] Result<KeptValues> kept_values(const Sizes& sizes, double budget);

}  // namespace headroom::ir::torchtitan
