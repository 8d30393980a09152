#pragma once

#include <memory>
#include <vector>

#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/model.h"
#include "runtimes/transformers/model_call.h"
#include "runtimes/transformers/recording/operator_run.h"
#include "runtimes/transformers/recording/recorded_node.h"

namespace headroom::ir::transformers {

/// Runs the recorded code of a model: its constructors, its forward, its layers.
class CodeRunner : public std::enable_shared_from_this<CodeRunner> {
 public:
  CodeRunner(torch::Eager& eager, Model& model, const RecordedVariant& variant,
             const BatchSizes& sizes);

  /// Runs the model's call and returns the values of its result: loss, logits.
  [[nodiscard]] std::vector<torch::Tensor> forward(const Batch& batch);
  /// Runs the constructors, which make the model's parameters and buffers.
  void load();

 private:
  struct Frame {
    const RecordedScope& scope;
    Values values;
  };
  void run(const RecordedCode& code, Frame& frame, std::vector<torch::Tensor>* result);
  [[nodiscard]] torch::Tensor run_attention(const Instruction& instruction,
                                            const std::vector<torch::Tensor>& inputs);
  void run_op(const Instruction& instruction, Frame& frame);
  void run_constructor(const Instruction& instruction, Frame& frame);
  void put_loaded(const RecordedOutput& output, const Frame& frame, torch::Tensor tensor);
  void attach_node(const Instruction& instruction, const Frame& frame);
  void run_linear(const Instruction& instruction, Frame& frame);
  [[nodiscard]] std::vector<torch::Tensor> hand_over(const Instruction& instruction,
                                                     const RecordedBody& body, Frame& frame) const;
  void run_loop(const Instruction& instruction, Frame& frame);
  void run_layer(const Instruction& instruction, Frame& frame);
  [[nodiscard]] std::vector<torch::Tensor> run_body(const RecordedLayer& layer,
                                                    std::vector<torch::Tensor> arguments);
  [[nodiscard]] std::vector<torch::Tensor> run_recomputed(std::int32_t layer,
                                                          std::vector<torch::Tensor> arguments,
                                                          torch::RegionForm form);
  [[nodiscard]] std::vector<torch::Tensor> run_hooked(std::int32_t layer,
                                                      std::vector<torch::Tensor> arguments);
  void call_hook(const Instruction& instruction, const Frame& frame);
  [[nodiscard]] RecordedNode::Operands node_operands(const Instruction& instruction,
                                                     std::vector<torch::Tensor> inputs,
                                                     const Frame& frame) const;
  [[nodiscard]] torch::Tensor operand(const Reference& reference, const Frame& frame) const;
  [[nodiscard]] std::vector<torch::Tensor> operands(const Instruction& instruction,
                                                    const Frame& frame) const;

  torch::Eager& eager_;
  Model& model_;
  const RecordedVariant& variant_;
  std::shared_ptr<const Replay> replay_;
  std::vector<const Op*> linears_;  ///< By module; null for others.
};

}  // namespace headroom::ir::transformers
