#include "runtimes/transformers/layers.h"

#include <utility>
#include <vector>

#include "runtimes/torch/checkpoint.h"
#include "runtimes/torch/functions.h"
#include "runtimes/transformers/modeling.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

/// The arguments of a layer in addition to its input.
struct LayerArguments {
  LayerRange range;
  Tensor mask;
  RopeTable tables;  ///< Undefined: the tables that all layers share.
};

LayerArguments arguments_of(Eager& eager, const Model& model, const LayerRange& range,
                            const Shared& shared) {
  const bool windowed =
      model.spec->layers[static_cast<std::size_t>(range.layer)].window.has_value();
  LayerArguments arguments{
      .range = range, .mask = windowed ? shared.window_mask : shared.mask, .tables = {}};
  if (casts_tables(model, shared)) {
    arguments.tables.cos = torch::to(eager, shared.cos, *model.hooks.input_dtype);
    arguments.tables.sin = torch::to(eager, shared.sin, *model.hooks.input_dtype);
  }
  return arguments;
}

/// Gives a layer its own tables while it runs.
class TablesScope {
 public:
  TablesScope(Shared& shared, const RopeTable& tables)
      : shared_(shared), before_{shared.cos, shared.sin} {
    if (tables.cos.defined()) {
      shared_.cos = tables.cos;
      shared_.sin = tables.sin;
    }
  }
  ~TablesScope() {
    shared_.cos = std::move(before_.cos);
    shared_.sin = std::move(before_.sin);
  }
  TablesScope(const TablesScope&) = delete;
  TablesScope& operator=(const TablesScope&) = delete;

 private:
  Shared& shared_;
  RopeTable before_;
};

Tensor run_hooked_layer(Model& model, Interpreter& interpreter, const LayerArguments& arguments,
                        const Tensor& input) {
  const TablesScope tables(interpreter.shared(), arguments.tables);
  std::vector<Tensor> given{input};
  const ModuleCall call{
      .part = ModuleCall::Part::kLayer, .layer = arguments.range.layer, .op = nullptr};
  const bool hooked = model.hooks.before && !model.hooks.around_checkpoint;
  if (hooked) {
    model.hooks.before(arguments.range.layer, given);
  }
  enter_part(model.hooks, call, {&given[0]});
  Tensor output = interpreter.run_layer(arguments.range, given[0], arguments.mask);
  leave_part(model.hooks, call, {&output});
  if (hooked) {
    model.hooks.after(arguments.range.layer, {output});
  }
  return output;
}

/// A reentrant checkpoint returns all results of its layer: attention weights without a reader get
/// a gradient of zeros.
template <typename Layer>
Tensor run_reentrant_layer(Eager& eager, Interpreter& interpreter, Tensor& hidden,
                           const Layer& layer) {
  const torch::Region region = [layer, &interpreter](Eager& again,
                                                     const std::vector<Tensor>& inputs) {
    Tensor earlier = interpreter.exchange_weights({});
    std::vector<Tensor> outputs{layer(again, inputs[0])};
    outputs.push_back(interpreter.exchange_weights(std::move(earlier)));
    return outputs;
  };
  std::vector<Tensor> outputs =
      torch::run_region(eager, {hidden}, region, torch::RegionForm::kReentrant);
  static_cast<void>(interpreter.exchange_weights(std::move(outputs[1])));
  return std::move(outputs[0]);
}

}  // namespace

void require_gradient(const Model& model, const Tensor& rows) {
  if (model.plan->lora && recomputes(model)) {
    rows->requires_grad = true;
  }
}

bool recomputes(const Model& model) {
  return model.training && model.plan->recompute != Recompute::kNone;
}

bool casts_tables(const Model& model, const Shared& shared) {
  const bool complex = modeling_of(*model.spec, *model.plan).rope == RopeForm::kComplex;
  return model.hooks.input_dtype && !complex && shared.cos.defined() &&
         shared.cos.dtype() != *model.hooks.input_dtype;
}

Tensor run_layers(Eager& eager, Model& model, const std::shared_ptr<Interpreter>& interpreter,
                  Tensor hidden) {
  const ParallelPlan& plan = *model.plan;
  torch::OffloadStash stash;
  const bool offloads = model.setting.offloads_activations;
  for (const LayerRange& range : model.graph->layers()) {
    eager.set_layer(range.layer);
    const LayerArguments arguments = arguments_of(eager, model, range, interpreter->shared());
    const auto region = [interpreter, &model, arguments](Eager&, const Tensor& input) {
      return model.hooks.before || model.hooks.enter
                 ? run_hooked_layer(model, *interpreter, arguments, input)
                 : interpreter->run_layer(arguments.range, input, arguments.mask);
    };
    if (model.hooks.around_checkpoint) {
      std::vector<Tensor> inputs{std::exchange(hidden, Tensor{})};
      model.hooks.before(range.layer, inputs);
      hidden = std::move(inputs[0]);
    }
    const bool recompute = model.training && recomputes_layer(plan, range.layer);
    if (!recompute) {
      hidden = region(eager, hidden);
    } else if (plan.recompute == Recompute::kFull) {
      hidden = torch::checkpoint(eager, hidden, region, offloads ? &stash : nullptr);
    } else {
      hidden = run_reentrant_layer(eager, *interpreter, hidden, region);
    }
    if (model.hooks.around_checkpoint) {
      model.hooks.after(range.layer, {hidden});
    }
  }
  stash.flush();
  eager.set_layer(-1);
  return hidden;
}

}  // namespace headroom::ir::transformers
