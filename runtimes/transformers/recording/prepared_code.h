#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "model_ir/graph/graph.h"
#include "model_ir/spec/recording/recording.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"
#include "runtimes/transformers/recording/module_calls.h"
#include "runtimes/transformers/recording/operator_work.h"
#include "runtimes/transformers/recording/typed_code.h"

namespace headroom::ir::transformers {

struct PreparedCode;
struct PreparedGradient;

/// An output whose sizes are numbers.
struct PreparedOutput {
  torch::Shape shape;
  DType dtype = DType::kFp32;
  std::int64_t bytes = -1;  ///< The size of its storage; -1: that of the shape.
};

/// A recorded instruction for one micro-batch and sequence length.
struct PreparedInstruction {
  const Instruction* recorded = nullptr;
  std::uint16_t operation = 0;  ///< Its name in the program.
  OperatorTraits traits;
  bool refers = false;    ///< It saves a tensor that is neither input nor output.
  bool buffered = false;  ///< It reads a buffer.
  /// A cast that makes nothing if its input already has the output's type.
  bool may_return_input = false;
  /// A cast that makes nothing of fp16: the softmax that reads it takes fp16 and computes in fp32.
  bool leaves_fp16 = false;
  /// It makes the heads of attention contiguous, and is nothing where the kernel has done so.
  bool orders_heads = false;
  std::vector<PreparedOutput> outputs;
  std::vector<std::int64_t> inside;  ///< The bytes of each step inside it.
  const PreparedGradient* gradient = nullptr;
  std::int64_t turns = 0;  ///< kRepeat
  std::unique_ptr<const PreparedCode> loop;
};

struct PreparedCode {
  std::uint32_t values = 0;
  std::vector<PreparedInstruction> instructions;
};

struct PreparedGradient {
  const RecordedGradient* recorded = nullptr;
  PreparedCode code;
};

/// One variant of a recording for one micro-batch and sequence length. Nothing in it changes while
/// a program is made, so that all calls of the model share it.
class PreparedModel {
 public:
  /// Requires that `graph` is that of the recording, and that all sizes are within bounds.
  PreparedModel(torch::Eager& eager, const Recording& recording, const TypedCode& code,
                const Graph& graph, const BatchSizes& sizes);
  /// Finds the calls of all modules, for a wrapper that hooks them.
  void find_calls() { calls_.emplace(recording_, variant_); }
  PreparedModel(const PreparedModel&) = delete;
  PreparedModel& operator=(const PreparedModel&) = delete;

  [[nodiscard]] const Recording& recording() const { return recording_; }
  [[nodiscard]] const RecordedVariant& variant() const { return variant_; }
  /// The constructors, and the same made ready to run after a change of their code.
  [[nodiscard]] const RecordedLoad& load() const { return *code_.load; }
  [[nodiscard]] PreparedCode prepare_load(torch::Eager& eager, const RecordedCode& changed) const {
    return prepare(eager, changed, code_.load_change);
  }
  [[nodiscard]] const PreparedCode& forward() const { return forward_; }
  [[nodiscard]] const PreparedCode& body(std::size_t index) const { return bodies_[index]; }
  /// Whether no code reads a value of the forward pass, and the returned object holds it all the
  /// same, beside loss and logits: a cache of keys and values.
  [[nodiscard]] bool is_cached(std::uint32_t value) const { return cached_[value]; }
  /// The operator of a linear layer; null for other modules.
  [[nodiscard]] const Op* linear(std::size_t module) const { return linears_[module]; }
  /// The type in which the constructors make a buffer.
  [[nodiscard]] DType buffer_type(std::size_t index) const { return buffer_types_[index]; }
  /// The type in which the code runs that was recorded in type `recorded`.
  [[nodiscard]] DType type_of(DType recorded) const { return typed(code_.change, recorded); }
  /// Nothing, unless they have been asked for.
  [[nodiscard]] const std::optional<ModuleCalls>& calls() const { return calls_; }
  [[nodiscard]] torch::Shape shape_of(const RecordedShape& shape) const;

 private:
  /// Softmax to fp32 takes fp16 as it is, where bf16 is cast first, and its backward pass returns
  /// fp16. Source: pytorch/pytorch aten/src/ATen/native/SoftMax.cpp, softmax (half_to_float).
  void widen_in_softmax(PreparedCode& code);
  /// The mask of a batch with padding is int64, and so is all that is computed of it alone.
  void give_mask();
  /// `code` outlives the result.
  [[nodiscard]] PreparedCode prepare(torch::Eager& eager, const RecordedCode& code,
                                     const std::optional<TypeChange>& change) const;

  const Recording& recording_;
  TypedCode code_;
  const RecordedVariant& variant_;
  BatchSizes sizes_;
  std::vector<const Op*> linears_;  ///< By module.
  std::vector<DType> buffer_types_;
  std::vector<PreparedGradient> gradients_;
  std::map<std::uint32_t, PreparedGradient> narrow_gradients_;  ///< See `widen_in_softmax`.
  PreparedCode forward_;
  std::vector<bool> cached_;  ///< By value of the forward pass.
  std::vector<PreparedCode> bodies_;
  std::optional<ModuleCalls> calls_;
};

}  // namespace headroom::ir::transformers
