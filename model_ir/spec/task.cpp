#include "model_ir/spec/task.h"

#include <array>

#include "model_ir/spec/family.h"
#include "model_ir/spec/recording/recording.h"

namespace headroom::ir {
namespace {

constexpr std::array kTasks = {Task::kLanguage, Task::kSequenceClassification,
                               Task::kTokenClassification};

constexpr ClassifierForm kScore{.module = "score"};
constexpr ClassifierForm kTokenScore{
    .module = "score", .bias = true, .drops = true, .widens = true};
constexpr ClassifierForm kTokenClassifier{.module = "classifier", .bias = true, .drops = true};

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::optional<ClassifierForm> token_form(Family family) {
  switch (family) {
    case Family::kGemma3Text:
    case Family::kOpt:
    case Family::kDeepseekV2:
    case Family::kOlmo2:
    case Family::kGranite:
    case Family::kCohere:
    case Family::kT5:
      return std::nullopt;
    case Family::kBert:
    case Family::kGpt2:
    case Family::kBloom:
    case Family::kFalcon:
      return kTokenClassifier;
    case Family::kGptNeox: {
      ClassifierForm form = kTokenClassifier;
      form.widens = true;
      return form;
    }
    default:
      return kTokenScore;
  }
}

std::optional<ClassifierForm> sequence_form(Family family) {
  switch (family) {
    case Family::kGranite:
    case Family::kCohere:
    case Family::kT5:  // Its head reads the end of the decoder's sequence, which is not modelled.
      return std::nullopt;
    case Family::kBert:
      return ClassifierForm{.module = "classifier", .bias = true, .pools = true, .drops = true};
    default:
      return kScore;
  }
}

}  // namespace

std::string_view name_of(Task task) {
  switch (task) {
    case Task::kLanguage:
      return "language";
    case Task::kSequenceClassification:
      return "sequence-classification";
    case Task::kTokenClassification:
      return "token-classification";
  }
  return "?";
}

std::optional<Task> parse_task(std::string_view name) {
  for (const Task task : kTasks) {
    if (name_of(task) == name) {
      return task;
    }
  }
  return std::nullopt;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const Task task : kTasks) {
    names.emplace_back(name_of(task));
  }
  return names;
}

std::optional<Task> task_of_class(std::string_view name) {
  if (ends_with(name, "ForSequenceClassification")) {
    return Task::kSequenceClassification;
  }
  return ends_with(name, "ForTokenClassification") ? std::optional(Task::kTokenClassification)
                                                   : std::nullopt;
}

std::optional<ClassifierForm> classifier_form(Family family, Task task) {
  switch (task) {
    case Task::kLanguage:
      return std::nullopt;
    case Task::kSequenceClassification:
      return sequence_form(family);
    case Task::kTokenClassification:
      return token_form(family);
  }
  return std::nullopt;
}

std::string_view head_module(const ModelSpec& model) {
  const std::optional<ClassifierForm> form = classifier_form(model.family, model.task);
  return form ? form->module : "lm_head";
}

Status set_task(ModelSpec& model, Task task, std::int64_t labels) {
  if (task == model.task && (task == Task::kLanguage || labels == model.labels)) {
    return ok();
  }
  if (model.recording && task == model.task) {
    return Error::invalid_argument("num-labels", std::to_string(labels),
                                   "the number that was recorded, " + std::to_string(model.labels),
                                   "leave --num-labels out");
  }
  if (model.recording) {
    return Error::invalid_argument(
        "task", std::string(name_of(task)),
        "the head that was recorded, " + std::string(name_of(model.task)),
        "record it with this head from its config.json: headroom import FILE --task " +
            std::string(name_of(task)) + " --output model.json");
  }
  if (task == Task::kLanguage || !classifier_form(model.family, task)) {
    return Error::invalid_argument(
        "task", std::string(name_of(task)),
        task == Task::kLanguage
            ? "the task of the configuration, " + std::string(name_of(model.task))
            : "a head that " + std::string(name_of(model.family)) + " has and that is modelled",
        "leave --task out");
  }
  if (labels < 1) {
    return Error::invalid_argument("num-labels", std::to_string(labels), "at least 1 label");
  }
  model.task = task;
  model.labels = labels;
  model.tied_embeddings = false;
  model.head_bias = false;
  model.head_transform = false;
  model.scales_logits = false;
  model.logit_scale = 1;
  model.logit_softcap = 0;
  return ok();
}

}  // namespace headroom::ir
