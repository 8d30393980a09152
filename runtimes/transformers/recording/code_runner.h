#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/model_call.h"
#include "runtimes/transformers/recording/operator_run.h"
#include "runtimes/transformers/recording/prepared_code.h"
#include "runtimes/transformers/recording/tensor_list.h"

namespace headroom::ir::transformers {

/// Runs the recorded code of a model: its constructors, its forward, its layers.
class CodeRunner : public std::enable_shared_from_this<CodeRunner> {
 public:
  /// Requires that `model.recorded` is set.
  CodeRunner(torch::Eager& eager, Model& model);

  /// Runs the model's call and returns the values of its result: loss, logits.
  [[nodiscard]] std::vector<torch::Tensor> forward(const Batch& batch);
  /// Runs the constructors, which make the model's parameters and buffers.
  void load();

 private:
  struct Frame {
    const RecordedScope& scope;
    Values values;
  };
  void run(const PreparedCode& code, Frame& frame, std::vector<torch::Tensor>* result);
  [[nodiscard]] torch::Tensor run_attention(const Instruction& instruction,
                                            std::span<const torch::Tensor> inputs);
  void run_op(const PreparedInstruction& instruction, Frame& frame);
  void run_constructor(const PreparedInstruction& instruction, Frame& frame);
  void put_loaded(const RecordedOutput& output, const Frame& frame, torch::Tensor tensor);
  void attach_node(const PreparedInstruction& instruction, const Frame& frame);
  void run_linear(const Instruction& instruction, Frame& frame);
  [[nodiscard]] std::vector<torch::Tensor> hand_over(const Instruction& instruction,
                                                     const RecordedBody& body, Frame& frame) const;
  void run_loop(const PreparedInstruction& prepared, Frame& frame);
  void run_layer(const Instruction& instruction, Frame& frame);
  [[nodiscard]] std::vector<torch::Tensor> run_body(const RecordedLayer& layer,
                                                    std::vector<torch::Tensor> arguments);
  [[nodiscard]] std::vector<torch::Tensor> run_recomputed(std::int32_t layer,
                                                          std::vector<torch::Tensor> arguments,
                                                          torch::RegionForm form);
  [[nodiscard]] std::vector<torch::Tensor> run_hooked(std::int32_t layer,
                                                      std::vector<torch::Tensor> arguments);
  void call_hook(const Instruction& instruction, const Frame& frame);
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
};

}  // namespace headroom::ir::transformers
