#include "cli/dryrun_prediction.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "cli/commands/verbs.h"
#include "cli/judged_question.h"
#include "cli/model_argument.h"
#include "cli/option_text.h"
#include "cli/plan_file.h"
#include "cli/plan_options.h"
#include "cli/question.h"
#include "cli/shell_words.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/model_catalogue.h"
#include "model_ir/spec/param_count.h"
#include "validators/dryrun/recorded_replay.h"

namespace headroom::cli {
namespace {

using ir::JsonValue;
using ir::TensorRole;

/// A word of a program and the option's value that means the same.
struct ProgramWord {
  std::string_view word;
  std::string_view value;
};

// Classes of torch.optim, bitsandbytes.optim and transformers.optimization.
constexpr std::array<ProgramWord, 9> kProgramOptimizers = {
    {{"AdamW", "adamw"},
     {"Adam", "adamw"},
     {"SGD", "sgd"},
     {"AdamW8bit", "adamw-8bit"},
     {"Adam8bit", "adamw-8bit"},
     {"PagedAdamW8bit", "paged-adamw-8bit"},
     {"PagedAdamW32bit", "paged-adamw-32bit"},
     {"Lion", "lion"},
     {"Muon", "muon"}}};
/// Type of the parameters, behind a slash the type of autocast.
constexpr std::array<ProgramWord, 6> kProgramTypes = {{{"float32", "fp32"},
                                                       {"bfloat16", "bf16"},
                                                       {"float16", "fp16"},
                                                       {"float32/bfloat16", "autocast-bf16"},
                                                       {"float32/float16", "autocast-fp16"},
                                                       {"bfloat16/bfloat16", "bf16-autocast"}}};

Error unrecognised(const std::string& why) {
  return Error::invalid_input({}, {}, why, {});
}

const std::string* text_in(const JsonValue& object, std::string_view key) {
  const JsonValue* const value = object.find(key);
  return value == nullptr ? nullptr : value->as_string();
}

std::optional<std::int64_t> number_in(const JsonValue& object, std::string_view key) {
  const JsonValue* const value = object.find(key);
  return value == nullptr ? std::nullopt : value->as_integer();
}

/// "float32/bfloat16": the type of the parameters and that of autocast, if there is one.
std::optional<std::string> types_of(const JsonValue& program) {
  const std::string* const parameters = text_in(program, "param_dtype");
  const std::string* const autocast = text_in(program, "autocast");
  if (parameters == nullptr) {
    return std::nullopt;
  }
  return *parameters + (autocast == nullptr ? "" : "/" + *autocast);
}

std::optional<std::string> optimizer_of(const JsonValue& program) {
  const std::string* const name = text_in(program, "optimizer");
  return name == nullptr ? std::nullopt : std::optional(*name);
}

/// Sets `option` to what `word` means.
template <std::size_t N>
Status set_word(const std::optional<std::string>& word, std::string_view option,
                const std::array<ProgramWord, N>& words, Arguments& arguments) {
  if (arguments.has(option)) {
    return ok();
  }
  if (!word) {
    return unrecognised("the " + std::string(option) + " was not recognised");
  }
  const auto known = std::ranges::find(words, std::string_view(*word), &ProgramWord::word);
  if (known == words.end()) {
    return unrecognised("the " + std::string(option) + " is " + printable(*word) +
                        ", which is not modelled");
  }
  arguments.set(option, std::string(known->value));
  return ok();
}

Status set_number(const JsonValue& program, std::string_view key, std::string_view option,
                  Arguments& arguments) {
  const std::optional<std::int64_t> number = number_in(program, key);
  if (!number) {
    return unrecognised("the shape of a batch was not recognised");
  }
  arguments.set(option, std::to_string(*number));
  return ok();
}

/// The framework around the model, from its wrapper's word.
Status set_wrapper(const JsonValue& program, Arguments& arguments) {
  const std::string* const wrapper = text_in(program, "wrapper");
  if (wrapper == nullptr || *wrapper == "ddp") {
    return ok();
  }
  if (*wrapper == "fsdp" || *wrapper == "fsdp2") {
    arguments.set("fsdp", *wrapper == "fsdp" ? "version=1" : "version=2");
    return ok();
  }
  const std::optional<std::int64_t> stage = number_in(program, "zero_stage");
  if (*wrapper == "deepspeed" && stage) {
    arguments.set("zero", std::to_string(*stage));
    return ok();
  }
  return unrecognised("the settings of the wrapper " + printable(*wrapper) + " are not known");
}

/// "r=16,targets=q_proj+v_proj".
Status set_adapters(const JsonValue& program, Arguments& arguments) {
  const JsonValue* const lora = program.find("lora");
  if (lora == nullptr || lora->is_null()) {
    return ok();
  }
  const std::optional<std::int64_t> rank = number_in(*lora, "r");
  if (!rank) {
    return unrecognised("the adapters were not recognised");
  }
  std::string value = "r=" + std::to_string(*rank);
  const JsonValue* const targets = lora->find("targets");
  if (targets != nullptr && targets->as_array() != nullptr && !targets->as_array()->empty()) {
    std::string names;
    for (const JsonValue& target : *targets->as_array()) {
      const std::string* const name = target.as_string();
      names += name == nullptr ? "" : (names.empty() ? "" : "+") + *name;
    }
    value += ",targets=" + names;
  }
  arguments.set("lora", value);
  return ok();
}

/// Whether memory ran out before the program came to its optimizer.
bool stopped_before_optimizer(const check::DryRunReport& report) {
  return report.oom && report.program.find("optimizer") == nullptr;
}

/// Sentences that say what the prediction assumes or leaves out.
std::vector<std::string> remarks_about(const check::DryRunReport& report, Bytes predicted) {
  std::vector<std::string> remarks;
  if (stopped_before_optimizer(report)) {
    remarks.emplace_back(
        "the optimizer is taken to be adamw: memory ran out before the program came to it");
  }
  const JsonValue* const config = report.program.find("config");
  const JsonValue* const cache = config == nullptr ? nullptr : config->find("use_cache");
  if (cache != nullptr && cache->as_bool() == true && report.peak.allocated > predicted) {
    remarks.emplace_back(
        "use_cache is True in the model's configuration: unless the program switches it off, "
        "training keeps copies of keys and values, which the prediction leaves out");
  }
  return remarks;
}

/// The options of `fit` that ask about the program.
Result<Arguments> options_of_program(const Arguments& typed, const check::DryRunRequest& request,
                                     const check::DryRunReport& report) {
  const JsonValue& program = report.program;
  Arguments arguments;
  for (const std::string_view option : {"gpu", "budget", "node", "config-dir"}) {
    if (const auto value = typed.value(option)) {
      arguments.set(option, *value);
    }
  }
  if (stopped_before_optimizer(report)) {
    arguments.set("optimizer", "adamw");
  }
  const std::int64_t world = report.world.value_or(request.world.ranks);
  if (world > 1) {
    arguments.set("gpus", std::to_string(world));
  }
  std::int64_t batches = 1;
  for (const check::DryRunPhase& phase : report.phases) {
    batches = std::max(batches, phase.micro_batch);
  }
  if (batches > 1) {
    arguments.set("accumulation", std::to_string(batches));
  }
  for (Status status : {set_word(types_of(program), "precision", kProgramTypes, arguments),
                        set_word(optimizer_of(program), "optimizer", kProgramOptimizers, arguments),
                        set_number(program, "micro_batch", "micro-batch", arguments),
                        set_number(program, "sequence", "seq", arguments),
                        set_wrapper(program, arguments), set_adapters(program, arguments)}) {
    if (!status) {
      return std::move(status).error();
    }
  }
  const JsonValue* const recomputes = program.find("checkpointing");
  if (recomputes != nullptr && recomputes->as_bool() == true) {
    arguments.set("checkpointing", "full");
  }
  arguments.set("attention", "sdpa-no-cudnn");  // The dry run makes PyTorch prefer flash attention.
  return arguments;
}

/// The model of the program. Its name is one of the catalogue if that has the same model.
Result<LoadedModel> model_of_program(const Arguments& arguments, const JsonValue& program) {
  const JsonValue* const config = program.find("config");
  if (config == nullptr || config->as_object() == nullptr) {
    return unrecognised("no configuration of a transformers model was found");
  }
  Result<ir::HfConfig> read = ir::inspect_hf_config(to_json(*config), "config", {});
  if (!read) {
    return unrecognised("the model is not modelled: " + printable(read.error().got));
  }
  LoadedModel model{.spec = std::move(read->model), .label = {}, .origin = "program", .notes = {}};
  // The program may have changed the configuration of a model that it names, so its name says
  // less than its dimensions.
  const Result<ConfigDir> folder = config_dir_of(arguments);
  const Result<std::vector<ir::ModelTitle>> titles =
      folder ? ir::list_titles(folder->path + "/models")
             : Result<std::vector<ir::ModelTitle>>(folder.error());
  const std::int64_t parameters = ir::count_parameters(model.spec).total();
  for (const ir::ModelTitle& title : titles ? *titles : std::vector<ir::ModelTitle>{}) {
    // Models that were trained further have the dimensions of their base, whose name is shorter.
    if (title.parameters != parameters ||
        (!model.label.empty() && title.name.size() >= model.label.size())) {
      continue;
    }
    Result<ir::ModelSpec> same = ir::load_model(folder->path + "/models", title.name);
    if (same) {
      same->name = model.spec.name;
      model.label = *same == model.spec ? title.name : model.label;
    }
  }
  return model;
}

/// The observer of a dry run sees blocks and lines, so that it counts the temporaries of forward
/// and backward among the activations.
std::size_t category_of(TensorRole role, ir::PhaseKind phase) {
  const bool in_step = phase == ir::PhaseKind::kForward || phase == ir::PhaseKind::kBackward ||
                       phase == ir::PhaseKind::kForwardBackward;
  switch (role) {
    case TensorRole::kParameter:
      return check::dry_run_category("parameters");
    case TensorRole::kGradient:
      return check::dry_run_category("gradients");
    case TensorRole::kOptimizerState:
    case TensorRole::kMasterParameter:
      return check::dry_run_category("optimizer states");
    case TensorRole::kActivation:
    case TensorRole::kLogits:
      return check::dry_run_category("activations");
    case TensorRole::kTemporary:
      return check::dry_run_category(in_step ? "activations" : "other");
    case TensorRole::kCommunication:
    case TensorRole::kWorkspace:
    case TensorRole::kBuffer:
    case TensorRole::kInput:
      break;
  }
  return check::dry_run_category("other");
}

Result<DryRunPrediction> predict(const Arguments& arguments, Question question) {
  // The stand-in hands out rising addresses.
  question.request.plan.allocator.segments = check::standin_settings().segments;
  const Result<JudgedQuestion> judged =
      judge_question(arguments, std::move(question), UsualRouting::kEven);
  if (!judged) {
    return judged.error();
  }
  const cost::StepEstimate& estimate = judged->estimate;
  DryRunPrediction prediction{.of = {},
                              .peak_allocated = estimate.peak_allocated,
                              .peak_reserved = estimate.peak_reserved,
                              .moment = estimate.peak_moment,
                              .by_category = std::vector<Bytes>(check::kDryRunCategories),
                              .remarks = {},
                              .command = {}};
  for (std::size_t role = 0; role < estimate.peak_by_role.size(); ++role) {
    prediction.by_category[category_of(static_cast<TensorRole>(role), estimate.peak_phase.kind)] +=
        estimate.peak_by_role.at(role);
  }
  ir::ParallelPlan plan = judged->question.request.plan;
  if (plan.attention == ir::AttentionKind::kSdpaNoCudnn) {
    plan.attention = ir::AttentionKind::kSdpa;  // The preference is the dry run's, not the user's.
  }
  plan.allocator.segments = ir::SegmentPlaces::kDriver;
  for (const OptionValue& option : options_of(plan, judged->question.model.spec)) {
    prediction.of += (prediction.of.empty() ? "" : " ") + typed_option(option, question_options());
  }
  return prediction;
}

}  // namespace

OptionSpec against_option() {
  return {.name = "against",
          .value = "FILE",
          .fallback = "the plan that is recognised in the program",
          .help = "plan file whose prediction is shown beside what was measured"};
}

Result<DryRunPrediction> predict_plan(const Arguments& arguments) {
  Arguments asked;
  asked.set("plan", arguments.value("against").value_or(""));
  for (const std::string_view option : {"gpu", "budget", "node", "config-dir"}) {
    if (const auto value = arguments.value(option)) {
      asked.set(option, *value);
    }
  }
  const Result<Arguments> filed = with_plan_file(fit_command().verb, asked);
  if (!filed) {
    return filed.error();
  }
  Result<Question> question = read_question(*filed);
  if (!question) {
    return std::move(question).error();
  }
  const std::string command = "headroom fit --plan " + shell_word(*asked.value("plan")) +
                              " --gpu " + shell_word(question->device.name);
  Result<DryRunPrediction> prediction = predict(*filed, std::move(question).value());
  if (prediction) {
    prediction->command = command;
  }
  return prediction;
}

Result<DryRunPrediction> predict_program(const Arguments& arguments,
                                         const check::DryRunRequest& request,
                                         const check::DryRunReport& report) {
  if (report.program.as_object() == nullptr) {
    return unrecognised("nothing of the model and its plan was recognised");
  }
  const Result<Arguments> asked = options_of_program(arguments, request, report);
  if (!asked) {
    return asked.error();
  }
  Result<LoadedModel> model = model_of_program(*asked, report.program);
  if (!model) {
    return std::move(model).error();
  }
  Result<PlanRequest> plan = read_plan_options(*asked, model->spec);
  Result<cost::DeviceSpec> device = read_gpu(*asked);
  const Result<Bytes> budget = read_budget(*asked);
  if (!plan || !device || !budget) {
    return unrecognised(printable(!plan     ? plan.error().got
                                  : !device ? device.error().got
                                            : budget.error().got));
  }
  const std::string name = model->label;
  Result<DryRunPrediction> prediction = predict(*asked, {.model = std::move(model).value(),
                                                         .device = std::move(device).value(),
                                                         .budget = *budget,
                                                         .request = std::move(plan).value()});
  if (prediction) {
    prediction->remarks = remarks_about(report, prediction->peak_allocated);
  }
  if (prediction && !name.empty()) {
    prediction->command = "headroom fit " + shell_word(name) + " --gpu " +
                          shell_word(request.device.name) +
                          (prediction->of.empty() ? "" : " " + prediction->of);
  }
  return prediction;
}

}  // namespace headroom::cli
