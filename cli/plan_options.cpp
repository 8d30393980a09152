#include "cli/plan_options.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <initializer_list>
#include <utility>

#include "cli/allocator_options.h"
#include "cli/framework_options.h"
#include "cli/option_reader.h"
#include "cli/option_text.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/plan_file.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"
#include "runtimes/typed/filed_plan.h"

namespace headroom::cli {
namespace {

using ir::ParallelPlan;

/// The keys of an option that are always shown, with their defaults: "bucket=25MiB".
std::string usual_keys(const ir::PlanPart& part, std::string_view option) {
  std::string text;
  for (const ir::OptionField& field : part.fields) {
    if (!field.in_spec || field.option != option || !field.always_shown) {
      continue;
    }
    const ir::JsonValue value = field.get(part.usual());
    text += (text.empty() ? "" : ",") + plain_key(field.key) + "=" + value_text(field, value);
  }
  return text;
}

/// The default optimizers in words: "adamw, with torchtitan adamw-fused".
std::string usual_optimizers() {
  const auto word = [](const ir::OptimizerPlan& optimizer) {
    return std::string(ir::word_of(ir::optimizer_words(), optimizer));
  };
  std::string text = word({});
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    if (const ir::OptimizerPlan own = runtime->usual_optimizer({}); !(own == ir::OptimizerPlan{})) {
      text += ", with " + std::string(runtime->name()) + " " + word(own);
    }
  }
  return text;
}

/// The optimizers, with what is meant by the first of the AdamWs.
std::string optimizer_names() {
  std::string text;
  for (const std::string& name : ir::texts_of(ir::optimizer_words())) {
    text += (text.empty() ? "" : ", ") + name;
    text += name == "adamw" ? " (PyTorch's foreach AdamW)" : "";
  }
  return text;
}

/// The options of a plan in the order of the help. Texts that are made from tables live as long as
/// the list.
class PlanOptionSpecs {
 public:
  PlanOptionSpecs() {
    own(ir::plan_options(), {"gpus", "rank"});
    specs_.push_back(
        {.name = "runtime",
         .value = "NAME",
         .fallback = ir::find_field(ir::plan_options().fields, "runtime")->fallback,
         .help = keep("framework that trains the model: " + ir::join(ir::runtime_names()))});
    own(ir::plan_options(), {"runtime_version"});
    parts({PartPlace::kFirst});
    own(ir::plan_options(),
        {"precision", "micro_batch", "sequence", "images", "accumulation", "checkpointing"});
    specs_.push_back({.name = "optimizer",
                      .value = "NAME",
                      .fallback = keep(usual_optimizers()),
                      .help = keep("one of " + optimizer_names())});
    own(ir::plan_options(), {"attention", "loss"});
    specs_.push_back({.name = "model-code",
                      .value = "NAME",
                      .fallback = "",
                      .help = "older spelling of --runtime",
                      .hidden = true});
    own(ir::plan_options(), {"liger"});
    own(ir::generation_options(), {"new_tokens"});
    spec("lora", "", "LoRA adapters of PEFT on frozen weights, such as r=16");
    specs_.back().bare = true;
    spec("qlora", "", "the same on frozen weights in 4 bits; also takes the keys of --lora");
    specs_.back().bare = true;
    parts({PartPlace::kBeforePrecision, PartPlace::kLast});
    specs_.push_back({.name = "alloc-conf",
                      .value = "CONF",
                      .fallback = "",
                      .help = "value of PYTORCH_ALLOC_CONF, such as expandable_segments:True"});
    own(ir::plan_options(), {"clip_norm", "padded_batch", "keep_logits", "keep_batch", "evaluation",
                             "checkpoint_save", "resume", "steps"});
    specs_.push_back(plan_file_option());
    for (const ReadableFile& file : readable_files()) {
      specs_.push_back({.name = file.format.option,
                        .value = "FILE",
                        .fallback = "",
                        .help = keep(lower_sentence(file.format.help))});
    }
  }

  [[nodiscard]] std::span<const OptionSpec> specs() const { return specs_; }

 private:
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }

  /// Adds a row that has an option of its own.
  void own(const ir::PlanPart& part, const ir::OptionField& field) {
    std::string fallback(field.fallback);
    if (fallback.empty() && field.kind != ir::OptionKind::kSwitch && !field.optional) {
      fallback = value_text(field, field.get(part.usual()));
    }
    specs_.push_back({.name = field.option,
                      .value = field.shown_as,
                      .fallback = keep(std::move(fallback)),
                      .help = keep(lower_sentence(field.help))});
  }
  void own(const ir::PlanPart& part, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      const ir::OptionField* const field = ir::find_field(part.fields, name);
      HEADROOM_ASSERT(field != nullptr);
      own(part, *field);
    }
  }

  /// Adds the options of frameworks' parts.
  void parts(std::initializer_list<PartPlace> places) {
    for (const ir::PlanPart* const part : ir::framework_parts()) {
      if (std::ranges::find(places, place_of(*part)) == places.end()) {
        continue;
      }
      for (const std::string_view option : option_names(*part)) {
        if (is_keyed(*part, option)) {
          keyed(*part, option);
        } else {
          own(*part, *std::ranges::find_if(part->fields, [option](const ir::OptionField& field) {
            return !field.in_spec && field.option == option;
          }));
        }
      }
    }
  }

  /// Adds an option whose value is a list of keys of a part.
  void keyed(const ir::PlanPart& part, std::string_view option) {
    const auto row = std::ranges::find(part.keyed, option, &ir::KeyedOption::name);
    spec(option, keep(usual_keys(part, option)),
         lower_sentence(row == part.keyed.end() ? part.title : row->help));
    specs_.back().bare = option == part.option;
  }

  /// An option whose value is a list of keys, which `--help` of the option shows.
  void spec(std::string_view name, std::string_view usual, const std::string& what) {
    // The option itself is off unless it is typed; only its keys have defaults.
    const std::string alone =
        usual.empty() ? ""
                      : " [--" + std::string(name) + " alone means " + std::string(usual) + "]";
    specs_.push_back({.name = name,
                      .value = "KEY=VALUE,..",
                      .fallback = "",
                      .help = keep(what + "; keys: --help " + std::string(name) + alone)});
  }

  std::deque<std::string> texts_;  ///< A deque, because elements must not move.
  std::vector<OptionSpec> specs_;
};

/// Reads the plan's own fields that have options of their own. The framework and the precision,
/// which depends on it, are read separately.
void read_own_fields(OptionReader& reader, ParallelPlan& plan) {
  for (const ir::OptionField& field : ir::plan_options().fields) {
    if (field.name != "runtime" && field.name != "precision") {
      reader.field(field, plan);
    }
  }
}

/// The keys of frameworks that switch 8-bit formats on, as they are typed: "--fsdp KEY=WORD".
std::vector<std::string> eight_bit_keys() {
  std::vector<std::string> keys;
  for (const ir::PlanPart* const part : ir::framework_parts()) {
    for (const ir::OptionField& field : part->fields) {
      const bool eight_bits = field.key.find("fp8") != std::string_view::npos ||
                              field.key.find("float8") != std::string_view::npos;
      if (field.in_spec && eight_bits && field.kind == ir::OptionKind::kWord) {
        const std::vector<std::string> words = field.words();
        const auto word = std::ranges::find_if(words, [](auto& one) { return one != "none"; });
        keys.push_back("--" + std::string(field.option) + " " + plain_key(field.key) + "=" + *word);
      }
    }
  }
  return keys;
}

Result<ir::Precision> parse_precision(const std::string& text) {
  Result<ir::Precision> precision = ir::parse_word(ir::precision_words(), "precision", text);
  const std::vector<std::string> keys = eight_bit_keys();
  if (precision || keys.empty() ||
      !(text.starts_with("fp8") || text.starts_with("float8") || text.starts_with("mxfp8"))) {
    return precision;
  }
  std::string typed;
  for (const std::string& key : keys) {
    typed += (typed.empty() ? "" : " or ") + key;
  }
  return Error::invalid_argument("precision", text, precision.error().wanted,
                                 "8-bit matrix products are an option of a framework: " + typed);
}

void read_precision(OptionReader& reader, ParallelPlan& plan) {
  reader.with("precision", plan.precision, parse_precision);
  ir::settle_precision(plan);
}

/// Reads the adapters. Only the options count, whatever a plan file has.
void read_adapters(OptionReader& reader, ParallelPlan& plan) {
  for (const std::string_view option : {"lora", "qlora"}) {
    if (!reader.has(option)) {
      continue;
    }
    plan.lora = ir::LoraPlan{};
    plan.quant.reset();
    std::vector<SpecTarget> targets = {
        {.fields = ir::lora_options().fields, .of = "lora", .plan = &plan}};
    if (option == "qlora") {
      plan.quant = ir::QuantPlan{};
      targets.push_back({.fields = ir::quant_options().fields, .of = "qlora", .plan = &plan});
    }
    reader.spec(option, targets);
  }
}

void read_training(OptionReader& reader, ParallelPlan& plan) {
  // A plan file states its optimizer, even if that is foreach AdamW, the default value.
  if (plan.optimizer == ir::OptimizerPlan{} &&
      (!reader.has("plan") || decides_optimizer(reader, plan))) {
    plan.optimizer = ir::runtime_of(plan).usual_optimizer(plan);
  }
  reader.word("optimizer", ir::optimizer_words(), plan.optimizer);
  if (reader.has("generate")) {
    reader.field(*ir::find_field(ir::generation_options().fields, "new_tokens"), plan);
  }
  read_adapters(reader, plan);
  const ir::AllocatorSettings before = plan.allocator;
  reader.with("alloc-conf", plan.allocator,
              [&](const std::string& text) { return parse_allocator_settings(text, before); });
}

Status apply(const Arguments& arguments, ParallelPlan& plan) {
  OptionReader reader(arguments);
  read_own_fields(reader, plan);
  read_framework(reader, plan);
  read_precision(reader, plan);
  read_training(reader, plan);
  return reader.error() ? Status(*reader.error()) : ok();
}

Status check_adapters(const Arguments& arguments) {
  if (arguments.has("lora") && arguments.has("qlora")) {
    return Error::invalid_argument("lora", "and --qlora exclude each other", {},
                                   "leave out --lora: --qlora takes its keys as well");
  }
  return ok();
}

/// What the framework recomputes if nothing is said.
void take_usual_recomputation(PlanRequest& request) {
  const ir::UsualRecomputation usual =
      ir::runtime_of(request.plan).usual_recomputation(request.plan);
  if (request.plan.recompute == ir::Recompute::kNone && usual.recompute != request.plan.recompute) {
    request.plan.recompute = usual.recompute;
    request.notes.emplace_back(usual.note);
  }
}

/// How the options have `name`: "--name value"; the usual value, or that it is absent, if they do
/// not.
std::string said_of(const std::vector<OptionValue>& options, const std::string& name) {
  const std::vector<OptionValue> usual = usual_options();
  for (const std::vector<OptionValue>* some : {&options, &usual}) {
    if (const auto found = std::ranges::find(*some, name, &OptionValue::name);
        found != some->end()) {
      return "--" + name + (found->value.empty() ? "" : " " + found->value);
    }
  }
  return "no --" + name;
}

/// Says what the usual training programs would set where the command line leaves it open.
void note_trainers(const Arguments& arguments, PlanRequest& request) {
  const auto has_value = [&request](const ir::TrainerDefaults::Setting& setting) {
    const std::span<const ir::OptionField> fields = ir::plan_options().fields;
    const auto field = std::ranges::find(fields, setting.option, &ir::OptionField::option);
    return field != fields.end() && value_text(*field, field->get(request.plan)) == setting.value;
  };
  std::string text;
  for (const ir::TrainerDefaults& trainer :
       ir::runtime_of(request.plan).trainer_defaults(request.plan)) {
    std::string settings;
    for (const ir::TrainerDefaults::Setting& setting : trainer.settings) {
      const std::string name(setting.option);
      // A preparation that was noted switches recomputation on, whatever the trainer does.
      const bool settled =
          name == "checkpointing" && request.plan.recompute != ir::Recompute::kNone;
      const std::string said = "--" + name + " " + std::string(setting.value);
      if (!arguments.has(name) && !settled && !has_value(setting)) {
        settings += (settings.empty() ? "" : " ") + said;
      }
    }
    if (!settings.empty()) {
      text += (text.empty() ? "" : ", and ") + std::string(trainer.trainer) + " uses " + settings;
    }
  }
  if (!text.empty()) {
    request.notes.push_back("unless told otherwise, " + text);
  }
}

/// Reads the configuration file of a framework, if one is given, and the options over it.
Status read_framework_file(const Arguments& arguments, const ir::ModelSpec& model,
                           PlanRequest& request) {
  for (const ReadableFile& file : readable_files()) {
    const std::optional<std::string> given = arguments.value(file.format.option);
    if (!given) {
      continue;
    }
    const std::string own(file.runtime->name());
    if (const std::string runtime = arguments.value("runtime").value_or(own); runtime != own) {
      return Error::invalid_argument(
          "runtime", runtime, own + ", whose file --" + std::string(file.format.option) + " reads",
          "leave out --runtime or --" + std::string(file.format.option));
    }
    Result<ir::ConfigurationReading> reading = file.runtime->read_configuration(
        *given == "-" ? "/dev/stdin" : *given, model, request.plan, file.format.name);
    if (!reading) {
      return std::move(reading).error();
    }
    request.plan = std::move(reading->plan);
    request.notes.insert(request.notes.end(), reading->notes.begin(), reading->notes.end());
    if (Status status = apply(arguments, request.plan); !status) {
      return status;
    }
  }
  return ok();
}

/// The plan of `--plan`, over the usual one.
Status read_filed_plan(const Arguments& arguments, PlanRequest& request) {
  const std::optional<std::string> path = arguments.value("plan");
  if (!path) {
    return ok();
  }
  const std::optional<PlanDocument>& document = arguments.plan_document();
  Result<ir::PlanFile> file =
      document ? document->content.read(request.plan) : ir::read_plan_file(*path, request.plan);
  if (!file) {
    return std::move(file).error();
  }
  request.plan = std::move(file->plan);
  if (document) {
    request.notes = document->notes;
  }
  return ok();
}

/// Says which options were typed otherwise than the file has them.
void note_typed(const Arguments& arguments, const ParallelPlan& filed, const ir::ModelSpec& model,
                PlanRequest& request) {
  if (ir::find_runtime(filed.runtime) == nullptr) {
    return;  // The check of the whole plan names it.
  }
  const std::optional<PlanDocument>& document = arguments.plan_document();
  const std::string file = document ? document->name : arguments.value("plan").value_or("");
  const std::vector<OptionValue> before = options_of(filed, model);
  const std::vector<OptionValue> after = options_of(request.plan, model);
  std::vector<std::string> names;
  for (const std::vector<OptionValue>* some : {&before, &after}) {
    for (const OptionValue& option : *some) {
      if (std::ranges::find(names, option.name) == names.end()) {
        names.push_back(option.name);
      }
    }
  }
  for (const std::string& name : names) {
    const std::string said = said_of(before, name);
    if (const std::string now = said_of(after, name); now != said) {
      request.notes.push_back(file + " has " + said + ", the command line " + now +
                              ", which is used");
    }
  }
}

}  // namespace

OptionSpec plan_file_option() {
  return {.name = "plan",
          .value = "FILE",
          .fallback = "",
          .help =
              "a plan file, the --json document of a verb, or a plan as JSON; - is standard "
              "input. MODEL, --gpu and all options are read from it; options that you type "
              "override it"};
}

std::span<const OptionSpec> plan_option_specs() {
  static const PlanOptionSpecs specs;
  return specs.specs();
}

Result<PlanRequest> read_plan_options(const Arguments& arguments, const ir::ModelSpec& model) {
  for (const auto check : {check_one_framework, check_adapters}) {
    if (Status status = check(arguments); !status) {
      return std::move(status).error();
    }
  }
  PlanRequest request{.plan = usual_plan(model), .notes = {}};
  if (Status status = read_filed_plan(arguments, request); !status) {
    return std::move(status).error();
  }
  ParallelPlan filed = request.plan;
  ir::settle_filed(filed);  // Values that follow from the file alone were not typed.
  if (Status status = apply(arguments, request.plan); !status) {
    return std::move(status).error();
  }
  if (arguments.has("plan")) {
    note_typed(arguments, filed, model, request);
  }
  if (Status status = read_framework_file(arguments, model, request); !status) {
    return std::move(status).error();
  }
  if (!arguments.value("checkpointing") && !arguments.value("plan")) {
    take_usual_recomputation(request);
  }
  const auto is_given = [&arguments](const ReadableFile& file) {
    return arguments.has(file.format.option);
  };
  if (!arguments.has("plan") && std::ranges::none_of(readable_files(), is_given)) {
    note_trainers(arguments, request);
  }
  return request;
}

Status read_adapter_options(const Arguments& arguments, ParallelPlan& plan) {
  if (Status status = check_adapters(arguments); !status) {
    return status;
  }
  OptionReader reader(arguments);
  read_adapters(reader, plan);
  return reader.error() ? Status(*reader.error()) : ok();
}

}  // namespace headroom::cli
