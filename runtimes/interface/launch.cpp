#include "runtimes/interface/launch.h"

#include <algorithm>

#include "model_ir/json/json_value.h"

namespace headroom::ir {
namespace {

std::string plain_text(const JsonValue& value) {
  if (const std::string* const text = value.as_string()) {
    return *text;
  }
  return to_json(value);
}

/// The words of one option; none if the framework's argument cannot say its value.
std::vector<std::string> words_of_option(const OptionField& field, const JsonValue& value,
                                         OwnForm form) {
  const std::string name =
      std::string(form == OwnForm::kJoined ? "--" : "") + std::string(field.own.name);
  const auto with = [&](const std::string& text) {
    return form == OwnForm::kJoined ? std::vector<std::string>{name + "=" + text}
                                    : std::vector<std::string>{name, text};
  };
  if (const std::optional<bool> on = value.as_bool()) {
    if (!field.own.on.empty()) {
      const std::string_view word = *on ? field.own.on : field.own.off;
      return word.empty() ? std::vector<std::string>{} : with(std::string(word));
    }
    if (form == OwnForm::kJoined) {
      return with(*on != field.own.negated ? "true" : "false");
    }
    return *on != field.own.negated ? std::vector<std::string>{name} : std::vector<std::string>{};
  }
  if (const JsonValue::Array* const items = value.as_array()) {
    std::vector<std::string> words = {name};
    for (const JsonValue& item : *items) {
      words.push_back(plain_text(item));
    }
    return words;
  }
  return value.is_null() ? std::vector<std::string>{} : with(plain_text(value));
}

}  // namespace

std::vector<std::string> torchrun_words(const ParallelPlan& plan, const LaunchSite& site) {
  if (plan.world == 1) {
    return {"python"};
  }
  const std::int64_t local = std::min(plan.world, site.gpus_per_node);
  const std::string processes = std::to_string(local);
  if (plan.world == local) {
    return {"torchrun", "--standalone", "--nproc-per-node", processes};
  }
  return {"torchrun",
          "--nnodes",
          std::to_string((plan.world + local - 1) / local),
          "--nproc-per-node",
          processes,
          "--rdzv-backend",
          "c10d",
          "--rdzv-endpoint",
          "$HEAD_NODE:29500"};
}

std::vector<std::string> own_words(std::span<const OptionField> fields, const ParallelPlan& plan,
                                   const ParallelPlan& usual, std::string_view prefix,
                                   OwnForm form) {
  std::vector<std::string> words;
  for (const OptionField& field : fields) {
    if (!field.own.name.empty() && field.own.name.starts_with(prefix) && !field.same(plan, usual)) {
      append_words(words, words_of_option(field, field.get(plan), form));
    }
  }
  return words;
}

void append_words(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

std::string python_text(bool value) {
  return value ? "True" : "False";
}

}  // namespace headroom::ir
