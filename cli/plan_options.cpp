#include "cli/plan_options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <deque>
#include <initializer_list>
#include <utility>

#include "cli/allocator_options.h"
#include "cli/option_text.h"
#include "cli/plan_values.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/deepspeed/config.h"
#include "runtimes/plan_json.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

using ir::ParallelPlan;

constexpr std::int64_t kUsualSequence = 2048;

/// A table's sentence as help shows it: lower case, no full stop.
std::string help_of(std::string_view sentence) {
  std::string text(sentence.substr(0, sentence.size() - (sentence.ends_with('.') ? 1 : 0)));
  const auto is_upper = [&](std::size_t at) {
    return at < text.size() && std::isupper(static_cast<unsigned char>(text[at])) != 0;
  };
  const std::size_t end = std::min(text.find_first_of(" :;,.'"), text.size());
  bool name = text.find_first_of("0123456789") < end;
  for (std::size_t at = 1; at < end; ++at) {
    name = name || is_upper(at);
  }
  if (!name && is_upper(0)) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

/// The options of a plan in the order in which help shows them. Texts that are made from tables
/// live as long as the list.
class PlanOptionSpecs {
 public:
  PlanOptionSpecs() {
    own(ir::plan_options(), {"gpus", "rank"});
    specs_.push_back(
        {.name = "runtime",
         .value = "NAME",
         .fallback = ir::find_field(ir::plan_options().fields, "runtime")->fallback,
         .help = keep("framework that runs the model: " + ir::join(ir::runtime_names()))});
    own(ir::plan_options(), {"runtime_version"});
    own(ir::deepspeed::options(), {"stage", "decay_groups"});
    spec("offload", "", "what ZeRO keeps off the GPU", {&ir::deepspeed::options()});
    spec("zeropp", "", "ZeRO++ and leaf modules at stage 3", {&ir::deepspeed::options()});
    own(ir::plan_options(),
        {"precision", "micro_batch", "sequence", "accumulation", "checkpointing"});
    specs_.push_back(
        {.name = "optimizer",
         .value = "NAME",
         .fallback = "adamw, with torchtitan adamw-fused",
         .help = keep("adamw is PyTorch's foreach AdamW; muon updates the matrices of the layers, "
                      "AdamW the rest: " +
                      ir::join(ir::texts_of(ir::optimizer_words())))});
    own(ir::plan_options(), {"attention", "loss"});
    specs_.push_back({.name = "model-code",
                      .value = "NAME",
                      .fallback = "",
                      .help = "older spelling of --runtime litgpt, torchtune or torchtitan"});
    own(ir::plan_options(), {"liger"});
    own(ir::generation_options(), {"new_tokens"});
    spec("lora", "", "adapters", {&ir::lora_options()});
    spec("qlora", "", "adapters on quantised weights: the keys of --lora, and",
         {&ir::quant_options()});
    spec("ddp", "bucket=25MiB", "DistributedDataParallel", {&ir::transformers::options()});
    spec("fsdp", "reshard=yes,param=bf16,reduce=fp32",
         "PyTorch FSDP, whose shards have the type that --precision says", {&ir::fsdp::options()});
    spec("titan", "tp=1,reshard=default", "torchtitan, on top of --fsdp",
         {&ir::torchtitan::options()});
    spec("tune", "compiled=no", "torchtune", {&ir::torchtune::options()});
    spec("megatron", "tp=1", "Megatron-Core", {&ir::megatron::options()});
    specs_.push_back({.name = "alloc-conf",
                      .value = "CONF",
                      .fallback = "",
                      .help = "PYTORCH_ALLOC_CONF: expandable_segments:True,..."});
    own(ir::plan_options(), {"clip_norm", "padded_batch", "keep_logits", "keep_batch", "evaluation",
                             "checkpoint_save", "steps"});
    specs_.push_back({.name = "plan",
                      .value = "FILE",
                      .fallback = "",
                      .help = "a plan as JSON; options change it"});
    specs_.push_back(
        {.name = "deepspeed",
         .value = "FILE",
         .fallback = "",
         .help = "a DeepSpeed configuration; options change it and fill its \"auto\""});
  }

  [[nodiscard]] std::span<const OptionSpec> specs() const { return specs_; }

 private:
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }

  /// Rows that are options of their own.
  void own(const ir::PlanPart& part, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      const ir::OptionField* const field = ir::find_field(part.fields, name);
      HEADROOM_ASSERT(field != nullptr);
      std::string fallback(field->fallback);
      if (fallback.empty() && field->kind != ir::OptionKind::kSwitch && !field->optional) {
        fallback = value_text(*field, field->get(part.usual()));
      }
      specs_.push_back({.name = field->option,
                        .value = field->shown_as,
                        .fallback = keep(std::move(fallback)),
                        .help = keep(help_of(field->help))});
    }
  }

  /// An option whose value is a list of keys.
  void spec(std::string_view name, std::string_view fallback, std::string_view what,
            std::initializer_list<const ir::PlanPart*> parts) {
    std::string keys;
    for (const ir::PlanPart* const part : parts) {
      keys += (keys.empty() ? "" : ", ") + keys_help(*part, name);
    }
    specs_.push_back(
        {.name = name,
         .value = "SPEC",
         .fallback = fallback,
         .help = keep(std::string(what) +
                      (what.ends_with("and") ? " " : "; keys with commas between: ") + keys)});
  }

  std::deque<std::string> texts_;  ///< Never moved.
  std::vector<OptionSpec> specs_;
};

/// Reads one option after the other; the first fault stays.
class OptionReader {
 public:
  explicit OptionReader(const Arguments& arguments) : arguments_(&arguments) {}

  [[nodiscard]] bool has(std::string_view name) const { return arguments_->has(name); }

  template <typename Value>
  void word(std::string_view name, std::span<const ir::Word<Value>> words, Value& value) {
    if (const auto text = arguments_->value(name)) {
      keep(ir::parse_word(words, name, *text), value);
    }
  }
  /// Hands the text of an option that was given to `parse`, and what comes back to `value`.
  template <typename Value, typename Parse>
  void with(std::string_view name, Value& value, Parse parse) {
    if (const auto text = arguments_->value(name)) {
      keep(parse(*text), value);
    }
  }
  /// A row of a table that is an option of its own.
  void field(const ir::OptionField& row, void* part) {
    if (const auto text = arguments_->value(row.option)) {
      keep(set_option(row, row.option, *text, part));
    }
  }
  /// An option whose value is a list of keys.
  void spec(std::string_view name, std::span<const SpecTarget> targets) {
    if (const auto text = arguments_->value(name)) {
      keep(parse_spec(name, *text, targets));
    }
  }
  void spec(std::string_view name, std::initializer_list<SpecTarget> targets) {
    spec(name, std::span<const SpecTarget>(targets.begin(), targets.size()));
  }

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  void keep(const Status& status) {
    if (!status && !error_) {
      error_ = status.error();
    }
  }
  template <typename From, typename To>
  void keep(const Result<From>& result, To& value) {
    if (result) {
      value = *result;
    } else if (!error_) {
      error_ = result.error();
    }
  }

  const Arguments* arguments_;
  std::optional<Error> error_;
};

/// The plan's own fields that are options of their own. The framework, and the number formats that
/// it decides about, are read apart.
void read_own_fields(OptionReader& reader, ParallelPlan& plan) {
  for (const ir::OptionField& field : ir::plan_options().fields) {
    if (field.name != "runtime" && field.name != "precision") {
      reader.field(field, &plan);
    }
  }
}

/// torchtune shards where the plan has FSDP's part.
bool shards_by_fsdp(const ParallelPlan& plan) {
  return plan.runtime == "fsdp" || plan.runtime == "torchtitan" ||
         (plan.runtime == "torchtune" && plan.fsdp);
}

/// Reads an option whose value is a list of keys of one part; the option alone says enough.
void read_spec(OptionReader& reader, ParallelPlan& plan, const ir::PlanPart& part,
               std::string_view option) {
  if (reader.has(option)) {
    reader.spec(option, {{.fields = part.fields, .of = option, .part = part.edit(plan)}});
  }
}

/// Shards are fp32 unless something else is asked for.
void read_fsdp(OptionReader& reader, ParallelPlan& plan) {
  if (!shards_by_fsdp(plan) && !reader.has("fsdp")) {
    plan.fsdp.reset();
    return;
  }
  if (!plan.fsdp && !reader.has("precision")) {
    plan.precision = ir::Precision::kFp32;
  }
  static_cast<void>(ir::fsdp::options().edit(plan));
  read_spec(reader, plan, ir::fsdp::options(), "fsdp");
}

void read_megatron(OptionReader& reader, ParallelPlan& plan) {
  if (plan.runtime != "megatron" && !reader.has("megatron")) {
    plan.megatron.reset();
    return;
  }
  static_cast<void>(ir::megatron::options().edit(plan));
  read_spec(reader, plan, ir::megatron::options(), "megatron");
}

/// The framework: the one that is named, else the one whose options are given.
void read_runtime(OptionReader& reader, ParallelPlan& plan) {
  if (reader.has("zero") || reader.has("offload")) {
    plan.runtime = "deepspeed";
  } else if (reader.has("titan")) {
    plan.runtime = "torchtitan";
  } else if (reader.has("tune")) {
    plan.runtime = "torchtune";
  } else if (reader.has("fsdp")) {
    plan.runtime = shards_by_fsdp(plan) ? plan.runtime : "fsdp";
  } else if (reader.has("megatron")) {
    plan.runtime = "megatron";
  }
  const auto name = [](std::string_view option) {
    return [option](const std::string& text) -> Result<std::string> {
      if (ir::find_runtime(text) != nullptr) {
        return text;
      }
      const std::vector<std::string> known = ir::runtime_names();
      return Error::invalid_argument(option, text, "one of " + ir::join(known),
                                     ir::suggestion(text, known));
    };
  };
  reader.with("runtime", plan.runtime, name("runtime"));
  std::string code = "transformers";
  reader.with("model-code", code, name("model-code"));
  if (code != "transformers") {
    if (plan.runtime == "fsdp" && !plan.fsdp) {
      plan.fsdp.emplace();
      plan.precision = reader.has("precision") ? plan.precision : ir::Precision::kFp32;
    }
    plan.runtime = code;
  }
}

/// Runtime, ZeRO and DDP decide each other: `--zero` alone says enough.
void read_parallel(OptionReader& reader, ParallelPlan& plan) {
  read_runtime(reader, plan);
  if (plan.runtime == "deepspeed" || reader.has("zero") || reader.has("offload")) {
    void* const zero = ir::deepspeed::options().edit(plan);
    for (const ir::OptionField& field : ir::deepspeed::options().fields) {
      if (!field.in_spec && !field.option.empty()) {
        reader.field(field, zero);
      }
    }
    read_spec(reader, plan, ir::deepspeed::options(), "offload");
    read_spec(reader, plan, ir::deepspeed::options(), "zeropp");
  }
  const bool shards = shards_by_fsdp(plan) || reader.has("fsdp") || plan.runtime == "megatron";
  if (plan.runtime != "deepspeed" && !shards) {
    if (!reader.has("zero") && !reader.has("offload")) {
      plan.zero.reset();
    }
    if (plan.world > 1) {
      static_cast<void>(ir::transformers::options().edit(plan));
    } else {
      plan.ddp.reset();
    }
  } else {
    plan.ddp.reset();
  }
  // The check of the whole plan refuses it where it does not belong.
  read_spec(reader, plan, ir::transformers::options(), "ddp");
  if (shards && !reader.has("zero") && !reader.has("offload")) {
    plan.zero.reset();
  }
  read_fsdp(reader, plan);
  read_spec(reader, plan, ir::torchtitan::options(), "titan");
  read_spec(reader, plan, ir::torchtune::options(), "tune");
  read_megatron(reader, plan);
}

void read_precision(OptionReader& reader, ParallelPlan& plan) {
  reader.word("precision", ir::precision_words(), plan.precision);
  const bool masters = plan.runtime == "deepspeed" || plan.runtime == "megatron";
  if (!masters) {
    return;
  }
  if (plan.precision == ir::Precision::kBf16) {
    plan.precision = ir::Precision::kBf16Master;
  } else if (plan.precision == ir::Precision::kFp16) {
    plan.precision = ir::Precision::kFp16Master;
  }
}

/// Adapters are those of the option alone, whatever a plan file has.
void read_adapters(OptionReader& reader, ParallelPlan& plan) {
  for (const std::string_view option : {"lora", "qlora"}) {
    if (!reader.has(option)) {
      continue;
    }
    plan.lora = ir::LoraPlan{};
    plan.quant.reset();
    std::vector<SpecTarget> targets = {
        {.fields = ir::lora_options().fields, .of = "lora", .part = &*plan.lora}};
    if (option == "qlora") {
      plan.quant = ir::QuantPlan{};
      targets.push_back(
          {.fields = ir::quant_options().fields, .of = "qlora", .part = &*plan.quant});
    }
    reader.spec(option, targets);
  }
}

void read_training(OptionReader& reader, ParallelPlan& plan) {
  // A plan file says which one it has, foreach AdamW as well.
  const bool changes = reader.has("titan") || reader.has("runtime") || reader.has("model-code") ||
                       reader.has("offload") || reader.has("deepspeed");
  if (plan.optimizer == ir::OptimizerPlan{} && (changes || !reader.has("plan"))) {
    plan.optimizer = ir::runtime_of(plan).usual_optimizer(plan);
  }
  reader.word("optimizer", ir::optimizer_words(), plan.optimizer);
  if (reader.has("generate")) {
    reader.field(*ir::find_field(ir::generation_options().fields, "new_tokens"),
                 ir::generation_options().edit(plan));
  }
  read_adapters(reader, plan);
  const ir::AllocatorSettings before = plan.allocator;
  reader.with("alloc-conf", plan.allocator,
              [&](const std::string& text) { return parse_allocator_settings(text, before); });
}

Status apply(const Arguments& arguments, ParallelPlan& plan) {
  OptionReader reader(arguments);
  read_own_fields(reader, plan);
  read_parallel(reader, plan);
  read_precision(reader, plan);
  read_training(reader, plan);
  return reader.error() ? Status(*reader.error()) : ok();
}

ParallelPlan usual_plan(const ir::ModelSpec& model) {
  ParallelPlan plan;
  plan.sequence =
      model.max_positions > 0 ? std::min(kUsualSequence, model.max_positions) : kUsualSequence;
  return plan;
}

/// Options of two frameworks, or two that say the same thing in two ways.
Status check_pairs(const Arguments& arguments) {
  struct Pair {
    const char* one;
    const char* other;
  };
  constexpr std::array<Pair, 8> kPairs = {{{"fsdp", "zero"},
                                           {"fsdp", "offload"},
                                           {"fsdp", "deepspeed"},
                                           {"fsdp", "megatron"},
                                           {"zero", "megatron"},
                                           {"titan", "zero"},
                                           {"titan", "megatron"},
                                           {"lora", "qlora"}}};
  for (const Pair& pair : kPairs) {
    if (arguments.has(pair.one) && arguments.has(pair.other)) {
      return Error::invalid_argument(pair.one,
                                     "--" + std::string(pair.one) + " beside --" + pair.other,
                                     "one of both", "leave the other out");
    }
  }
  return ok();
}

}  // namespace

std::span<const OptionSpec> plan_option_specs() {
  static const PlanOptionSpecs specs;
  return specs.specs();
}

Result<PlanRequest> read_plan_options(const Arguments& arguments, const ir::ModelSpec& model) {
  if (Status pairs = check_pairs(arguments); !pairs) {
    return std::move(pairs).error();
  }
  PlanRequest request{.plan = usual_plan(model), .notes = {}};
  if (const auto file = arguments.value("plan")) {
    const std::string path = *file == "-" ? "/dev/stdin" : *file;
    Result<ParallelPlan> plan = ir::read_plan(path, request.plan);
    if (!plan) {
      return std::move(plan).error();
    }
    request.plan = *plan;
  }
  if (Status status = apply(arguments, request.plan); !status) {
    return std::move(status).error();
  }
  const std::optional<std::string> file = arguments.value("deepspeed");
  if (!file) {
    return request;
  }
  const std::string path = *file == "-" ? "/dev/stdin" : *file;
  Result<ir::deepspeed::ConfigReading> config =
      ir::deepspeed::read_config(path, model, request.plan);
  if (!config) {
    return std::move(config).error();
  }
  request = {.plan = config->plan, .notes = config->notes};
  if (arguments.has("megatron")) {
    return Error::invalid_argument("deepspeed", *file, "no --megatron beside it",
                                   "leave out one of them");
  }
  if (arguments.value("runtime").value_or("deepspeed") != "deepspeed") {
    return Error::invalid_argument("runtime", *arguments.value("runtime"),
                                   "deepspeed, which --deepspeed is for");
  }
  const Status status = apply(arguments, request.plan);
  return status ? Result<PlanRequest>(request) : Result<PlanRequest>(status.error());
}

std::vector<OptionValue> usual_options() {
  return {{"gpus", "1"},
          {"precision", "bf16"},
          {"micro-batch", "1"},
          {"accumulation", "1"},
          {"checkpointing", "none"},
          {"optimizer", "adamw"},
          {"attention", "sdpa"},
          {"loss", "hf"}};
}

std::vector<OptionValue> options_of(const ParallelPlan& plan, const ir::ModelSpec& model) {
  const ParallelPlan usual = usual_plan(model);
  std::vector<OptionValue> options;
  const auto add_if = [&](bool differs, std::string_view name, std::string value) {
    if (differs) {
      options.push_back({std::string(name), std::move(value)});
    }
  };
  /// Fields of the plan itself that differ from `before`.
  const auto own = [&](std::initializer_list<std::string_view> names, const ParallelPlan& before) {
    for (const std::string_view name : names) {
      const ir::OptionField& field = *ir::find_field(ir::plan_options().fields, name);
      const bool flag = field.kind == ir::OptionKind::kSwitch;
      add_if(!field.same(&plan, &before), field.option,
             flag ? "" : value_text(field, field.get(&plan)));
    }
  };
  const auto part = [&](const ir::PlanPart& of) {
    const void* const found = of.find(plan);
    add_if(found != nullptr, of.option, found != nullptr ? spec_text(of, found) : "");
  };
  own({"gpus", "rank"}, usual);
  const bool zero = plan.zero.has_value();
  if (zero) {
    add_if(true, "zero", std::to_string(plan.zero->stage));
    add_if(plan.zero->decay_groups, "decay-groups", "");
    add_if(!offload_text(*plan.zero).empty(), "offload", offload_text(*plan.zero));
    add_if(!zero_plus_text(*plan.zero).empty(), "zeropp", zero_plus_text(*plan.zero));
  }
  const bool implied = zero || plan.megatron || plan.titan || plan.tune || plan.runtime == "fsdp";
  if (!implied) {
    own({"runtime"}, usual);
  }
  own({"runtime_version"}, usual);
  const bool fsdp = shards_by_fsdp(plan);
  add_if(fsdp, "fsdp", fsdp_text(plan.fsdp.value_or(ir::FsdpPlan{})));
  ParallelPlan formats = usual;
  formats.precision = zero   ? ir::Precision::kBf16Master
                      : fsdp ? ir::Precision::kFp32
                             : usual.precision;
  own({"precision"}, formats);
  own({"micro_batch", "sequence", "accumulation", "checkpointing"}, usual);
  add_if(!(plan.optimizer == ir::runtime_of(plan).usual_optimizer(plan)), "optimizer",
         std::string(ir::word_of(ir::optimizer_words(), plan.optimizer)));
  own({"attention", "loss", "liger"}, usual);
  add_if(plan.generation.has_value(), "generate",
         plan.generation ? std::to_string(plan.generation->new_tokens) : "");
  add_if(plan.lora.has_value(), plan.quant ? "qlora" : "lora", plan.lora ? adapter_text(plan) : "");
  add_if(plan.ddp.has_value() && !(*plan.ddp == ir::DdpPlan{}), "ddp",
         plan.ddp ? ddp_text(*plan.ddp) : "");
  part(ir::torchtitan::options());
  part(ir::torchtune::options());
  part(ir::megatron::options());
  add_if(!(plan.allocator == usual.allocator), "alloc-conf", to_text(plan.allocator));
  own({"clip_norm", "padded_batch", "keep_logits", "keep_batch", "evaluation", "checkpoint_save",
       "steps"},
      usual);
  return options;
}

}  // namespace headroom::cli
