#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/model_call.h"
#include "runtimes/transformers/recording/adapted_weights.h"
#include "runtimes/transformers/recording/operator_run.h"
#include "runtimes/transformers/recording/prepared_code.h"
#include "runtimes/transformers/recording/recorded_loss.h"
#include "runtimes/transformers/recording/tensor_list.h"

namespace headroom::ir::transformers {

/// Runs the recorded code of a model's call.
class CodeRunner : public std::enable_shared_from_this<CodeRunner> {
 public:
  /// Requires that `model.recorded` is set.
  CodeRunner(torch::Eager& eager, Model& model);

  /// Runs the model's call and returns the values of its result: loss, logits.
  [[nodiscard]] std::vector<torch::Tensor> forward(const Batch& batch);

 private:
  struct Frame {
    const RecordedScope& scope;
    Values values;
    ModuleCalls::Code hooked{};  ///< Calls around which a wrapper's hooks run.
    std::size_t next = 0;        ///< The first of them that has not begun.
    std::vector<std::size_t> open{};
    AdaptedWeights::Call adapted{};
    /// Lists of what all turns of a loop made, by the value that stands for the list.
    std::map<std::uint32_t, std::vector<torch::Tensor>> lists{};
  };
  [[nodiscard]] Frame frame_of(const PreparedCode& code, const RecordedScope& scope,
                               const ModuleCalls::Code& hooked) const;
  void run(const PreparedCode& code, Frame& frame, std::vector<torch::Tensor>* result);
  void begin_calls(std::uint32_t at, Frame& frame);
  void end_calls(std::uint32_t at, Frame& frame);
  /// The slot in which the caller's tensor is while a call has another one in its place.
  [[nodiscard]] static std::uint32_t slot_of(const Frame& frame, std::size_t call);
  void read_attributes(const PreparedInstruction& instruction, const Frame& frame);
  void put_adapted(const PreparedInstruction& instruction, Frame& frame, TensorList& inputs);
  void cast_buffers(const PreparedInstruction& instruction, const Frame& frame, TensorList& inputs);
  void require_gradient_of(const PreparedCode& code, std::size_t leave, const Frame& frame);
  void run_op(const PreparedInstruction& instruction, Frame& frame);
  void run_join(const PreparedInstruction& instruction, const Frame& frame, Values& values);
  void attach_node(const PreparedInstruction& instruction, const Frame& frame);
  void run_linear(const Instruction& instruction, Frame& frame);
  void run_fused_loss(const PreparedCode& code, Frame& frame);
  [[nodiscard]] std::vector<torch::Tensor> hand_over(const Instruction& instruction,
                                                     const RecordedBody& body, Frame& frame) const;
  void run_loop(const PreparedInstruction& prepared, Frame& frame);
  void run_layer(const Instruction& instruction, Frame& frame);
  [[nodiscard]] std::vector<torch::Tensor> run_body(std::int32_t index,
                                                    std::vector<torch::Tensor> arguments);
  [[nodiscard]] std::vector<torch::Tensor> run_recomputed(std::int32_t layer,
                                                          std::vector<torch::Tensor> arguments,
                                                          torch::RegionForm form);
  [[nodiscard]] std::vector<torch::Tensor> run_hooked(std::int32_t layer,
                                                      std::vector<torch::Tensor> arguments);
  [[nodiscard]] bool is_embedding(const Instruction& instruction, const Frame& frame) const;
  [[nodiscard]] bool embeds(const Instruction& made) const;
  void call_hook(const Instruction& instruction, const Frame& frame);
  [[nodiscard]] const torch::Tensor& parameter(std::uint32_t index) const;
  [[nodiscard]] torch::Tensor operand(const Reference& reference, const Frame& frame) const;
  [[nodiscard]] std::vector<torch::Tensor> operands(const Instruction& instruction,
                                                    const Frame& frame) const;
  void read(std::span<const Reference> references, const Frame& frame, TensorList& tensors) const;
  /// The tensors that a node saves besides inputs and outputs.
  void read_others(const PreparedInstruction& instruction, const Frame& frame,
                   TensorList& others) const;

  torch::Eager& eager_;
  Model& model_;
  std::shared_ptr<const PreparedModel> prepared_;
  AdaptedWeights adapted_;
  std::optional<RecordedLoss> fused_;  ///< The code in whose place the fused loss runs.
  torch::Tensor padding_;  ///< The batch's padding [B, S]; reset when the first layer runs.
  torch::Tensor mask_;     ///< The mask of a batch with padding; set while layers run.
};

}  // namespace headroom::ir::transformers
