#include "cli/commands/verbs.h"

#include <utility>

#include "cli/output.h"
#include "cli/question.h"
#include "cli/scalars.h"
#include "model_ir/graph/decoder.h"
#include "model_ir/graph/dot.h"
#include "runtimes/plan_check.h"

namespace headroom::cli {
namespace {

/// The model reduced to the layer `layer`.
Result<ir::ModelSpec> with_one_layer(ir::ModelSpec model, const std::string& layer) {
  const auto last = static_cast<std::int64_t>(model.layers.size()) - 1;
  const Result<std::int64_t> index = parse_whole("layer", layer, 0, last);
  if (!index) {
    return index.error();
  }
  model.layers = {model.layers[static_cast<std::size_t>(*index)]};
  return model;
}

Result<ExitCode> run_graph(const Arguments& arguments, const Context& context) {
  Result<PlanQuestion> question = read_plan_question(arguments);
  if (!question) {
    return std::move(question).error();
  }
  add_notes(context, question->model, question->request);
  const ir::ParallelPlan& plan = question->request.plan;
  if (Status status = ir::check_plan(question->model.spec, plan); !status) {
    return std::move(status).error();
  }
  ir::ModelSpec model = question->model.spec;
  if (const auto layer = arguments.value("layer")) {
    Result<ir::ModelSpec> one = with_one_layer(std::move(model), *layer);
    if (!one) {
      return std::move(one).error();
    }
    model = std::move(one).value();
  }
  const ir::Graph graph = ir::build_graph(
      model, {.batch = plan.workload.micro_batch, .sequence = plan.workload.sequence});
  const ir::DotLayers layers =
      arguments.has("all-layers") ? ir::DotLayers::kAll : ir::DotLayers::kDistinct;
  ir::JsonFields summary;
  summary.add("schema_version", 1);
  summary.add("format", "dot");
  summary.add("operators", graph.op_count());
  summary.add("tensors", graph.tensor_count());
  summary.add("parameters", ir::parameter_count(graph));
  return put_out(arguments, context, ir::to_dot(graph, {.layers = layers}), std::move(summary),
                 false);
}

}  // namespace

Command graph_command() {
  std::vector<OptionSpec> options = {
      {"layer", "N", "", "draw the model with layer N, counted from 0, as its only layer"},
      {"all-layers", "", "", "draw every layer; without it, one layer of each kind is drawn"},
      output_option()};
  for (const OptionSpec& option : plan_question_options()) {
    if (option.name == "micro-batch" || option.name == "seq" || option.name == "as" ||
        option.name == "plan") {
      options.push_back(option);
    }
  }
  return {.verb = {.name = "graph",
                   .summary = "Draws one forward pass as a graph for Graphviz",
                   .positionals = "MODEL",
                   .detail = "MODEL is what headroom fit takes. To make a picture: headroom graph "
                             "MODEL | dot -Tsvg > graph.svg",
                   .options = std::move(options),
                   .example = "graph gpt2 --layer 0 --seq 128",
                   .model_at = 0,
                   .takes_own_options = true},
          .run = run_graph};
}

}  // namespace headroom::cli
