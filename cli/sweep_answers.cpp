#include "cli/sweep_answers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cli/shell_words.h"
#include "model_ir/base/error.h"

namespace headroom::cli {
namespace {

constexpr std::array<std::string_view, 3> kItemKeys = {"model", "gpu", "gpus"};

std::string text_in(const ir::JsonValue& answer, std::string_view key) {
  const ir::JsonValue* const value = answer.find(key);
  return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string();
}

bool is_answer(const ir::JsonValue& value) {
  return std::ranges::all_of(
      kItemKeys, [&value](std::string_view key) { return !text_in(value, key).empty(); });
}

/// The name of the GPU in the answer's plan file, whatever name was typed for the sweep.
std::string device_in(const ir::JsonValue& answer) {
  const ir::JsonValue* const file = answer.find("plan_file");
  return file == nullptr ? std::string() : text_in(*file, "device");
}

bool has_plan(const ir::JsonValue& answer) {
  const ir::JsonValue* const file = answer.find("plan_file");
  return file != nullptr && file->as_object() != nullptr;
}

bool is_wanted(const ir::JsonValue& answer, const AnswerWanted& wanted) {
  const auto fits = [&answer](const std::optional<std::string>& typed, std::string_view key) {
    return !typed || *typed == text_in(answer, key);
  };
  return fits(wanted.model, "model") && fits(wanted.gpus, "gpus") &&
         (fits(wanted.gpu, "gpu") || wanted.device == device_in(answer));
}

/// Leaves those whose sweep was given the name of the GPU that is typed now, if there are any.
void prefer_typed_name(std::vector<const ir::JsonValue*>& answers, const std::string& gpu) {
  const auto other = [&gpu](const ir::JsonValue* answer) { return text_in(*answer, "gpu") != gpu; };
  if (!std::ranges::all_of(answers, other)) {
    std::erase_if(answers, other);
  }
}

/// The answers of the document of --json; nothing if the text is none.
std::optional<std::vector<ir::JsonValue>> answers_of_document(std::string_view text) {
  if (text.find("\"answers\"") == std::string_view::npos) {
    return std::nullopt;
  }
  const Result<ir::JsonValue> document = ir::parse_json(text, "");
  const ir::JsonValue* const all = document ? document->find("answers") : nullptr;
  if (all == nullptr || all->as_array() == nullptr ||
      !std::ranges::all_of(*all->as_array(), is_answer)) {
    return std::nullopt;
  }
  return std::vector<ir::JsonValue>(all->as_array()->begin(), all->as_array()->end());
}

/// "gpt2 --gpu h100 --gpus 8", as it is typed.
std::string item_words(const ir::JsonValue& answer) {
  return shell_word(text_in(answer, "model")) + " --gpu " + shell_word(text_in(answer, "gpu")) +
         " --gpus " + shell_word(text_in(answer, "gpus"));
}

std::string listed(const std::vector<const ir::JsonValue*>& answers) {
  constexpr std::size_t kMost = 6;
  std::string text;
  for (std::size_t at = 0; at < std::min(answers.size(), kMost); ++at) {
    text += (at == 0 ? "" : "; ") + item_words(*answers[at]);
  }
  return text + (answers.size() > kMost ? "; ..." : "");
}

}  // namespace

std::optional<std::vector<ir::JsonValue>> sweep_answers(std::string_view text) {
  if (std::optional<std::vector<ir::JsonValue>> document = answers_of_document(text)) {
    return document;
  }
  constexpr std::string_view kLineBegin = "{\"model\":";  // As `sweep` writes a line.
  if (!text.starts_with(kLineBegin)) {
    return std::nullopt;
  }
  std::vector<ir::JsonValue> answers;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    Result<ir::JsonValue> answer = ir::parse_json(line, "");
    if (!answer) {
      continue;  // Empty, or cut where a sweep was interrupted; the next sweep begins a new line.
    }
    if (!is_answer(*answer)) {
      return std::nullopt;
    }
    answers.push_back(std::move(answer).value());
  }
  return answers.empty() ? std::nullopt : std::optional(std::move(answers));
}

Result<ir::JsonValue> chosen_answer(const std::vector<ir::JsonValue>& answers,
                                    const AnswerWanted& wanted, const std::string& file) {
  std::vector<const ir::JsonValue*> with_plan;
  std::vector<const ir::JsonValue*> meant;
  for (const ir::JsonValue& answer : answers) {
    if (has_plan(answer)) {
      with_plan.push_back(&answer);
      if (is_wanted(answer, wanted)) {
        meant.push_back(&answer);
      }
    }
  }
  if (with_plan.empty()) {
    return Error::invalid_input(file, "", "answers of a sweep without any plan",
                                "an answer with a plan_file",
                                "nothing fitted, or the file is of an older release: run the sweep "
                                "again into a new file");
  }
  if (wanted.gpu) {
    prefer_typed_name(meant, *wanted.gpu);
  }
  if (meant.size() == 1) {
    return *meant.front();
  }
  // Asked for something else, a single plan is still a plan, as in any plan file.
  if (meant.empty() && with_plan.size() == 1) {
    return *with_plan.front();
  }
  const std::string which = meant.empty() ? "none of what was typed" : "several of a sweep";
  return Error::invalid_argument(
      "plan", file + ", with " + std::to_string(with_plan.size()) + " plans, " + which,
      "one of " + listed(meant.empty() ? with_plan : meant),
      "type MODEL, --gpu and --gpus of the one that is meant");
}

}  // namespace headroom::cli
