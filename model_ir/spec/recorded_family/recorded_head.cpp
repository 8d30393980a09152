#include "model_ir/spec/recorded_family/recorded_head.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace headroom::ir {
namespace {

Task task_asked(const JsonValue& config, const AskedHead& asked) {
  return asked.task.value_or(task_of_class(named_class(config)).value_or(Task::kLanguage));
}

/// The head of a recording for a configuration; empty: the usual one.
std::string_view head_of(const JsonValue& config, const HeadQuestion& question) {
  const Task task = task_asked(config, question.asked);
  if (task != Task::kLanguage) {
    return name_of(task);
  }
  if (question.asked.images && is_recorded(config, question.families, kImagesHead)) {
    return kImagesHead;
  }
  using Head = std::pair<std::string_view, std::string_view>;  // The end of a class, its head.
  constexpr std::array<Head, 4> kHeads = {{{"ForMaskedLM", "masked-lm"},
                                           {"ForConditionalGeneration", "seq2seq-lm"},
                                           {"MTModel", "seq2seq-lm"},
                                           {"ForConditionalGeneration", "speech-seq2seq"}}};
  const std::string named = named_class(config);
  const auto* const found = std::ranges::find_if(kHeads, [&](const Head& one) {
    return named.ends_with(one.first) && is_recorded(config, question.families, one.second);
  });
  return found == kHeads.end() ? std::string_view() : found->second;
}

/// "language model, sequence-classification": the heads with which a family was recorded.
std::string heads_of(const JsonValue& config, const std::string& families) {
  std::string heads = "language model";
  for (const std::string_view head : kRecordedHeads) {
    heads += is_recorded(config, families, head) ? ", " + std::string(head) : "";
  }
  return heads;
}

std::int64_t labels_of(const JsonValue& config, const AskedHead& asked) {
  constexpr std::int64_t kDefault = 2;
  const JsonValue* const names = config.find("id2label");
  const JsonValue* const written = config.find("num_labels");
  if (asked.labels) {
    return *asked.labels;
  }
  if (written != nullptr) {
    return written->as_integer().value_or(kDefault);
  }
  const bool is_named = names != nullptr && names->as_object() != nullptr;
  return is_named ? static_cast<std::int64_t>(names->as_object()->size()) : kDefault;
}

/// The configuration with the number of labels in place of their names, as recordings of heads that
/// classify read it.
JsonValue with_labels(const JsonValue& config, std::int64_t labels) {
  JsonValue result = config;
  JsonValue::Object& members = *result.as_object();
  std::erase_if(members, [](const JsonMember& member) {
    return member.key == "id2label" || member.key == "label2id" || member.key == "num_labels";
  });
  members.push_back({.key = "num_labels", .value = JsonValue{labels}});
  return result;
}

/// The error for a loss of a head that classifies with which no family was recorded.
std::optional<Error> loss_trouble(const JsonValue& config, std::string_view file,
                                  const AskedHead& asked) {
  const JsonValue* const value = config.find("problem_type");
  const std::string* const problem = value == nullptr ? nullptr : value->as_string();
  if (problem != nullptr && (*problem == kSeveralLabels || *problem == "regression")) {
    return Error::invalid_input(file, "/problem_type", *problem,
                                "single_label_classification, with which the family was recorded",
                                "leave problem_type out to ask about one label of each sequence");
  }
  if (labels_of(config, asked) != 1) {
    return std::nullopt;
  }
  constexpr std::string_view kWanted = "at least 2 labels: regression on one was not recorded";
  constexpr std::string_view kFix =
      "use --num-labels 2 for an estimate: the head has one row more, and another loss";
  return asked.labels ? Error::invalid_argument("num-labels", "1", kWanted, kFix)
                      : Error::invalid_input(file, "", "one label", kWanted, kFix);
}

/// Whether the class has a head for which no recording of a family is made.
bool has_other_head(std::string_view name) {
  return !task_of_class(name) && (name.find("Classification") != std::string_view::npos ||
                                  name.find("QuestionAnswering") != std::string_view::npos);
}

/// The error for a recorded family of which the head was not.
Error head_trouble(const JsonValue& config, std::string_view file, const HeadQuestion& question) {
  const std::string wanted =
      "a head with which this family was recorded: " + heads_of(config, question.families);
  const std::string named = named_class(config);
  if (!question.asked.task && has_other_head(named)) {
    return Error::invalid_input(file, "/architectures", named, wanted,
                                "choose one that --task takes, such as --task language");
  }
  const std::string task(name_of(task_asked(config, question.asked)));
  const std::string fix =
      std::string(question.asked.task ? "leave out --task"
                                      : "remove architectures, or add --task "
                                        "language,") +
      " to ask about the language model, or record this head, which needs PyTorch: headroom import "
      "FILE --task " +
      task + " --output model.json";
  return question.asked.task ? Error::invalid_argument("task", task, wanted, fix)
                             : Error::invalid_input(file, "/architectures", named, wanted, fix);
}

}  // namespace

std::string named_class(const JsonValue& config) {
  const JsonValue* const classes = config.find("architectures");
  const JsonValue::Array* const names = classes == nullptr ? nullptr : classes->as_array();
  const std::string* const first =
      names == nullptr || names->empty() ? nullptr : names->front().as_string();
  return first == nullptr ? std::string() : *first;
}

Result<std::optional<FamilyModel>> model_with_head(const JsonValue& config, std::string_view file,
                                                   const HeadQuestion& question) {
  const bool is_known = is_recorded(config, question.families);
  if (is_known && !question.asked.task && has_other_head(named_class(config))) {
    return head_trouble(config, file, question);
  }
  const std::string_view head = head_of(config, question);
  if (!is_known || task_asked(config, question.asked) == Task::kLanguage) {
    return model_of_family(config, file, question.families, question.variants, head);
  }
  if (!is_recorded(config, question.families, head)) {
    return head_trouble(config, file, question);
  }
  if (const std::optional<Error> trouble = loss_trouble(config, file, question.asked)) {
    return *trouble;
  }
  return model_of_family(with_labels(config, labels_of(config, question.asked)), file,
                         question.families, question.variants, head);
}

}  // namespace headroom::ir
