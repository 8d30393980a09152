#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

#include "model_ir/base/result.h"
#include "runtimes/torchtitan/block_sizes.h"

namespace headroom::ir::torchtitan {

/// What a compiled block may keep between forward and backward, in the order in which it is made.
enum class BlockValue : std::uint8_t {
  kRstd1,         ///< 1/rms of the first norm,
  kNormed1,       ///< and its output.
  kQueryProduct,  ///< Before rotation (and Qwen3's norms of heads),
  kKeyProduct,
  kValues,
  kQueryRstd,  ///< Qwen3: 1/rms of the heads.
  kKeyRstd,
  kQueries,  ///< and behind it.
  kKeys,
  kAttended,  ///< With the sums of rows and the state of the generator.
  kProjected,
  kRstd2,
  kNormed2,
  kGate,
  kUp,
  kActive,
  kTable,      ///< A look at the table of rotations, which is an argument,
  kConjugate,  ///< and the conjugate look.
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

/// What a compiled block keeps between forward and backward.
enum class BlockMemory : std::uint8_t {
  kAll,        ///< No checkpointing.
  kOperators,  ///< Selective checkpointing by operators: every second product, and attention.
  kInputs,     ///< Full checkpointing.
  kBudget,     ///< What the partitioner chose within a budget.
};

/// The same, with the choice.
struct BlockKeeps {
  BlockMemory memory = BlockMemory::kAll;
  KeptValues chosen;  ///< Under a budget.
};

/// What the compiler's partitioner lets a dense block of Llama 3 or Qwen3 keep for a budget from 0
/// to 1, beside its arguments.
///
/// Source: the joint graphs that PyTorch 2.11 traces of TransformerBlock; pytorch/torchtitan 0.2.2
///         torchtitan/distributed/activation_checkpoint.py, apply_ac (memory_budget).
/// Errors: kInvalidArgument if a value is chosen that none of the names above stands for.
[[nodiscard]] Result<KeptValues> kept_values(const Sizes& sizes, double budget);

}  // namespace headroom::ir::torchtitan
