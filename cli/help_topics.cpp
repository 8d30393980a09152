#include "cli/help_topics.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "cli/framework_options.h"
#include "model_ir/plan/plan_words.h"
#include "planner/space/framework_search.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

/// Options that a verb's own help shows; an option that asks for a framework is shown as well.
constexpr std::array<std::string_view, 33> kUsual = {
    "gpu",       "gpus",        "node",         "budget",       "runtime",   "precision",
    "seq",       "micro-batch", "global-batch", "accumulation", "optimizer", "checkpointing",
    "recompute", "attention",   "lora",         "qlora",        "tp",        "pp",
    "cp",        "ep",          "zero",         "offload",      "objective", "why",
    "front",     "vary",        "plan",         "oom",          "format",    "output",
    "faster",    "json",        "help"};

struct TopicRow {
  std::string_view name;
  std::string_view title;
  std::vector<std::string_view> options;
};

/// The pages about what is common to all frameworks.
std::vector<TopicRow> common_topics() {
  return {
      {"hardware",
       "the GPU, its memory, and the machine around it",
       {"gpu", "gpus", "budget", "node", "network", "performance", "host-memory", "nvme",
        "nvme-rate", "rank"}},
      {"training",
       "what one training step computes, and with which code",
       {"runtime",   "runtime-version", "precision",    "frozen-weights", "micro-batch",
        "seq",       "accumulation",    "global-batch", "checkpointing",  "recompute",
        "optimizer", "attention",       "loss",         "liger",          "clip-norm",
        "images",    "padded",          "compile",      "offload",        "optimizer-offload"}},
      {"parallelism",
       "how the model and the batch are distributed over GPUs",
       {"tp", "pp", "cp", "ep", "etp", "zero", "reshard", "replicas", "sequence-parallel",
        "schedule", "layers-per-virtual-stage"}},
      {"lora", "adapters of PEFT, and frozen weights in 4 or 8 bits", {"lora", "qlora"}},
      {"memory",
       "what else a run keeps in memory, and how much of the run is replayed",
       {"steps", "evaluation", "save", "resume", "generate", "keep-logits", "keep-batch"}},
      {"allocator", "PyTorch's caching allocator (PYTORCH_ALLOC_CONF)", {"alloc-conf"}},
      {"model",
       "how the model's files are read",
       {"as", "ignored-keys", "task", "num-labels", "layer", "all-layers"}},
      {"cost",
       "what a training run costs, and how long it takes",
       {"price", "power", "tokens", "within"}},
      {"search",
       "what the search looks for, and how long",
       {"objective", "front", "why", "confidence", "replay", "time-limit", "work-limit",
        "search-memory", "threads"}},
      {"answer",
       "what is printed, and where to",
       {"faster", "script", "vary", "calibrate-from", "routing-imbalance", "format", "no-limit",
        "output", "json", "color", "config-dir", "help"}},
      {"files", "files that hold a whole plan, or what a run printed", {"plan", "program", "oom"}}};
}

const OptionSpec* option_named(const VerbSpec& verb, std::string_view name) {
  for (const std::span<const OptionSpec> options :
       {std::span<const OptionSpec>(verb.options), common_options()}) {
    const auto found = std::ranges::find(options, name, &OptionSpec::name);
    if (found != options.end() && !found->hidden) {
      return &*found;
    }
  }
  return nullptr;
}

void add_option(const VerbSpec& verb, HelpTopic& topic, std::string_view name) {
  const OptionSpec* const option = option_named(verb, name);
  if (option != nullptr && std::ranges::find(topic.options, option) == topic.options.end()) {
    topic.options.push_back(option);
  }
}

void add_topic(std::vector<HelpTopic>& topics, HelpTopic topic) {
  if (!topic.options.empty()) {
    topics.push_back(std::move(topic));
  }
}

/// The pages of a verb that takes one plan: one for every part that a framework has.
void add_parts(const VerbSpec& verb, std::vector<HelpTopic>& topics) {
  for (const ir::PlanPart* const part : ir::framework_parts()) {
    HelpTopic topic{.name = std::string(part->option),
                    .title = std::string(part->title.substr(0, part->title.find('.'))),
                    .others = {},
                    .options = {}};
    if (part->runtime != part->option) {
      topic.others.push_back(part->runtime);
    }
    for (const std::string_view option : option_names(*part)) {
      add_option(verb, topic, option);
    }
    for (const ReadableFile& file : readable_files()) {
      if (file.runtime->name() == part->runtime) {
        add_option(verb, topic, file.format.option);
      }
    }
    add_topic(topics, std::move(topic));
  }
}

/// The pages of a verb that searches: one for every framework, with the axes of its search.
void add_searches(const VerbSpec& verb, std::vector<HelpTopic>& topics) {
  for (const plan::FrameworkSearch* const search : plan::framework_searches()) {
    HelpTopic topic{.name = search->runtime(),
                    .title = "the options searched for " + search->runtime(),
                    .others = {},
                    .options = {}};
    for (const ir::PlanPart* const part : ir::framework_parts()) {
      if (part->runtime == search->runtime() && part->option != part->runtime) {
        topic.others.push_back(part->option);
      }
    }
    for (const plan::SearchAxis& axis : search->axes()) {
      add_option(verb, topic, axis.axis->option);
    }
    add_topic(topics, std::move(topic));
  }
}

bool is_named(const HelpTopic& topic, std::string_view name) {
  return topic.name == name || std::ranges::find(topic.others, name) != topic.others.end();
}

HelpTopic everything(const VerbSpec& verb) {
  HelpTopic all{.name = "all", .title = "every option of the verb", .others = {}, .options = {}};
  for (const std::span<const OptionSpec> options :
       {std::span<const OptionSpec>(verb.options), common_options()}) {
    for (const OptionSpec& option : options) {
      add_option(verb, all, option.name);
    }
  }
  return all;
}

}  // namespace

bool is_usual(const OptionSpec& option) {
  const auto asks = [&](const ir::PlanPart* part) { return part->option == option.name; };
  return std::ranges::find(kUsual, option.name) != kUsual.end() ||
         std::ranges::any_of(ir::framework_parts(), asks);
}

std::vector<HelpTopic> topics_of(const VerbSpec& verb) {
  constexpr std::ptrdiff_t kFew = 20;
  std::vector<HelpTopic> topics;
  if (std::ranges::count(verb.options, false, &OptionSpec::hidden) <= kFew) {
    return topics;
  }
  for (const TopicRow& row : common_topics()) {
    HelpTopic topic{.name = std::string(row.name),
                    .title = std::string(row.title),
                    .others = {},
                    .options = {}};
    for (const std::string_view name : row.options) {
      add_option(verb, topic, name);
    }
    add_topic(topics, std::move(topic));
  }
  const bool searches = option_named(verb, "objective") != nullptr;
  searches ? add_searches(verb, topics) : add_parts(verb, topics);
  add_topic(topics, everything(verb));
  return topics;
}

std::string full_help_command(const VerbSpec& verb) {
  return "headroom " + std::string(verb.name) + " --help" + (topics_of(verb).empty() ? "" : " all");
}

Result<HelpTopic> find_topic(const VerbSpec& verb, std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::vector<std::string> known;
  for (HelpTopic& topic : topics_of(verb)) {
    if (is_named(topic, name)) {
      return std::move(topic);
    }
    known.push_back(topic.name);
  }
  if (const OptionSpec* const option = option_named(verb, name)) {
    return HelpTopic{.name = std::string(name), .title = {}, .others = {}, .options = {option}};
  }
  const std::string help = "headroom " + std::string(verb.name) + " --help";
  const std::optional<std::string> closest = closest_word(name, known);
  return Error::invalid_argument("help", name,
                                 known.empty() ? "nothing behind it: this page shows all options"
                                               : "one of " + ir::join(known),
                                 "type " + help + (closest ? " " + *closest : ""));
}

std::string pages_beside(const VerbSpec& verb, const HelpTopic& topic) {
  if (topic.name != "parallelism" || option_named(verb, "objective") != nullptr) {
    return {};
  }
  std::string degrees;
  std::string shards;
  for (const ir::PlanPart* const part : ir::framework_parts()) {
    const auto has_degree = [](const ir::OptionField& field) {
      return field.in_spec && field.key == "tp";
    };
    std::string& pages = std::ranges::any_of(part->fields, has_degree) ? degrees : shards;
    if (&pages == &degrees || part->shards) {
      pages += (pages.empty() ? "" : ", ") + std::string("--help ") + std::string(part->option);
    }
  }
  return "Tensor, pipeline, context and expert parallelism: " + degrees + ". Shards: " + shards +
         ".";
}

std::vector<TopicKey> keys_of(const OptionSpec& option) {
  std::vector<const ir::PlanPart*> parts = {&ir::lora_options(), &ir::quant_options(),
                                            &ir::allocator_options()};
  const std::vector<const ir::PlanPart*> own = ir::framework_parts();
  parts.insert(parts.end(), own.begin(), own.end());
  std::vector<TopicKey> keys;
  for (const ir::PlanPart* const part : parts) {
    // Rows of the allocator are in no option's table: its variable is read by its own grammar.
    const bool whole = part == &ir::allocator_options() && part->option == option.name;
    for (const ir::OptionField& field : part->fields) {
      if (whole || (field.in_spec && field.option == option.name)) {
        keys.push_back({.part = part, .field = &field});
      }
    }
  }
  return keys;
}

}  // namespace headroom::cli
