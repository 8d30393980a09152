#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model_ir/graph/graph.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/torch/eager.h"
#include "runtimes/transformers/quantised.h"

namespace headroom::ir {
struct Instruction;
}  // namespace headroom::ir

namespace headroom::ir::transformers {

/// A LoRA adapter on one linear layer.
struct Adapter {
  torch::Tensor a;          ///< [r, in]
  torch::Tensor b;          ///< [out, r]
  torch::Tensor magnitude;  ///< DoRA: [out]
};

/// A module that a wrapper may have hooked: a layer by its index, or one of these.
inline constexpr std::int32_t kEmbeddingModule = -2;
inline constexpr std::int32_t kHeadModule = -3;

/// One call of a module (nn.Module) of the model's code.
struct ModuleCall {
  enum class Part : std::uint8_t {
    kModel,       ///< The outermost module.
    kDecoder,     ///< Embedding, layers and last norm; a stack of T5 by its first layer's index.
    kEmbeddings,  ///< BERT: tables, norm and dropout.
    kEncoder,     ///< BERT: the layers alone.
    kRotary,      ///< Makes the rotary tables; has no parameters.
    kLayer,
    kSublayer,  ///< T5: norm, block, dropout and addition; identified by its norm.
    kBlock,     ///< Attention or MLP of a layer.
    kHalf,      ///< BERT: a block's products, or what follows them; by its first operator.
    kOperator,  ///< One operator: a linear layer, a norm, an embedding, an activation.
    kAdapted,   ///< PEFT's layer around a linear layer with an adapter; in it:
    kAdapterDropout,
    kAdapterA,
    kAdapterB,
    kMagnitude,    ///< DoRA's layer around both, which owns the magnitude.
    kPooler,       ///< BERT: the first token's linear layer and activation.
    kHead,         ///< BERT's head; in it:
    kPredictions,  ///< Owns the bias of the output layer.
    kTransform,
    kRecorded,  ///< A module of a recording, by its index; linear layers and layers are as above.
  };
  Part part = Part::kModel;
  std::int32_t layer = -1;
  const Op* op = nullptr;    ///< The operator; for a block, its first.
  std::uint32_t module = 0;  ///< kRecorded
};

/// The module that runs only `op`.
[[nodiscard]] inline ModuleCall module_of(const Op& op) {
  return {.part = ModuleCall::Part::kOperator, .layer = op.layer, .op = &op};
}

/// A wrapper's hooks around the calls of modules; empty without a wrapper.
struct ModuleHooks {
  /// Receives a module's arguments and may replace them; undefined tensors are not arguments.
  std::function<void(std::int32_t module, std::vector<torch::Tensor>& inputs)> before;
  std::function<void(std::int32_t module, const std::vector<torch::Tensor>& outputs)> after;
  /// The hooks run outside a layer's checkpoint, because the wrapper is a separate module.
  /// Otherwise they run again when the layer is recomputed.
  bool around_checkpoint = false;
  /// The same around every module. `inputs` are the positional arguments; all of them, and the
  /// outputs, may be replaced.
  std::function<void(const ModuleCall& call, std::initializer_list<torch::Tensor*> inputs)> enter;
  std::function<void(const ModuleCall& call, std::initializer_list<torch::Tensor*> outputs)> leave;
  /// `owner` reads an attribute of `parameter`, which belongs to another module.
  std::function<void(const ModuleCall& owner, const torch::Tensor& parameter)> read;
  /// Type to which the layers' other floating-point arguments are cast, too.
  std::optional<DType> input_dtype;
};

/// Runs `body` on `input` as the module that `call` names, with a wrapper's hooks around it.
template <typename Body>
[[nodiscard]] torch::Tensor call_module(const ModuleHooks& hooks, const ModuleCall& call,
                                        const torch::Tensor& input, const Body& body) {
  if (!hooks.enter) {
    return body(input);
  }
  torch::Tensor given = input;
  hooks.enter(call, {&given});
  torch::Tensor output = body(given);
  given.reset();
  hooks.leave(call, {&output});
  return output;
}

/// A wrapper's hooks around a module that does not correspond to a single operator of the graph.
inline void enter_part(const ModuleHooks& hooks, const ModuleCall& call,
                       std::initializer_list<torch::Tensor*> inputs) {
  if (hooks.enter) {
    hooks.enter(call, inputs);
  }
}
inline void leave_part(const ModuleHooks& hooks, const ModuleCall& call,
                       std::initializer_list<torch::Tensor*> outputs) {
  if (hooks.leave) {
    hooks.leave(call, outputs);
  }
}

/// The module that reads a parameter; a tied table has several.
enum class ParameterReader : std::uint8_t {
  kModule,   ///< The module that owns it. No module calls T5's `shared`.
  kEncoder,  ///< T5's encoder.embed_tokens.
  kDecoder,  ///< T5's decoder.embed_tokens.
  kHead,
};

class KeyValueCache;
class PreparedModel;

/// What the framework that trains the model changes in the model's own code.
struct ModelSetting {
  /// Weights are read and not initialised. Norms, which are set to ones, are filled all the same.
  bool reads_weights = false;
  /// New floating-point tensors have the type of the parameters (deepspeed.zero.Init).
  bool narrows_buffers = false;
  /// A wrapper hooks every module (`ModuleHooks::enter`), not only those that FSDP wraps.
  bool hooks_modules = false;
  /// The codes of quantised weights are stored in the type of the other weights.
  bool wide_codes = false;
  bool buffers_on_host = false;
  bool offloads_activations = false;  ///< Inputs of checkpointed layers go to the host.
  bool compiles_loss = false;
  bool steps_in_backward = false;  ///< Each gradient is applied at once.
  /// Ranks that share parameters stop generating together (synced_gpus).
  bool stops_together = false;
};

/// The module tree after loading, which lives as long as the process.
struct Model {
  const ModelSpec* spec = nullptr;
  const ParallelPlan* plan = nullptr;
  const Graph* graph = nullptr;
  ModelSetting setting;
  std::vector<torch::Tensor> parameters;  ///< By TensorId; undefined for other tensors.
  std::map<std::uint32_t, torch::Tensor> corrections;  ///< By TensorId of a router's weight.
  std::vector<torch::Tensor> buffers;                  ///< Rotary tables and the like.
  std::map<std::uint32_t, QuantisedWeight> quantised;  ///< By TensorId of the weight.
  torch::Tensor dynamic_codes;                         ///< Shared by all double quantisation.
  std::map<std::uint32_t, Adapter> adapters;           ///< By TensorId of the adapted weight.
  /// Trained copies of the modules in PEFT's modules_to_save, by the parameter's TensorId and the
  /// module that reads it.
  std::map<std::pair<std::uint32_t, ParameterReader>, torch::Tensor> retrained;
  std::vector<torch::Tensor> trainable;  ///< In the order of model.parameters().
  std::int64_t parameter_count = 0;
  std::int64_t trainable_count = 0;
  bool training = true;
  ModuleHooks hooks;
  std::shared_ptr<KeyValueCache> cache;           ///< Generation: a forward appends to it.
  std::shared_ptr<const PreparedModel> recorded;  ///< The code of a recorded model.
  /// What its modules keep from one call to the next, by the instruction that says so.
  std::map<const Instruction*, torch::Tensor> kept;
};

/// What a model is made from.
struct ModelSource {
  const ModelSpec& spec;
  const ParallelPlan& plan;
  const Graph& graph;
  ModelSetting setting{};
};

/// Creates the parameters and buffers in the order of the modelling code's constructors. `created`
/// receives the parameters of each module when its constructor returns.
[[nodiscard]] Model load_model(torch::Eager& eager, const ModelSource& source,
                               const std::function<void(const torch::Tensor&)>& created = {});

[[nodiscard]] ParameterReader reader_of(const Model& model, const Op& op);

/// Parameter `index` of `op` in its module; undefined if there is none.
[[nodiscard]] torch::Tensor parameter_of(const Model& model, const Op& op, std::size_t index);

/// All parameters and adapters in the module's order, the integers of quantised weights among them.
[[nodiscard]] std::vector<torch::Tensor> all_parameters(const Model& model);

/// Whether `op` is a linear layer other than the head.
[[nodiscard]] bool is_body_linear(const Op& op);

/// prepare_model_for_kbit_training: parameters that are not quantised become fp32, one by one.
/// Source: huggingface/peft 0.21, src/peft/utils/other.py.
void prepare_kbit(torch::Eager& eager, Model& model);

/// Adds LoRA adapters as PEFT does after loading.
void add_adapters(torch::Eager& eager, Model& model, const LoraPlan& lora);

}  // namespace headroom::ir::transformers
