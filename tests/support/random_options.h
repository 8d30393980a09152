#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "runtimes/interface/option.h"
#include "tests/support/random.h"

namespace headroom::test {

/// A value that the row accepts, irrespective of the other options.
inline ir::JsonValue random_value(Random& random, const ir::OptionField& field) {
  if (field.optional && random.chance(1, 4)) {
    return {};
  }
  if (field.kind == ir::OptionKind::kText && !field.form.empty()) {
    return ir::JsonValue{random.pick<const char*>({"none", "full", "full-reentrant", "every-3"})};
  }
  std::vector<std::string> words =
      field.words != nullptr ? field.words() : std::vector<std::string>{"a", "b_c", "d"};
  const auto word = [&] {
    return words[static_cast<std::size_t>(
        random.between(0, static_cast<std::int64_t>(words.size()) - 1))];
  };
  switch (field.kind) {
    case ir::OptionKind::kSwitch:
      return ir::JsonValue{random.chance(1, 2)};
    case ir::OptionKind::kWhole:
    case ir::OptionKind::kBytes:
      return ir::JsonValue{field.words != nullptr
                               ? std::int64_t{std::stoll(word())}
                               : random.between(field.wholes.least, field.wholes.greatest)};
    case ir::OptionKind::kReal: {
      const double share = static_cast<double>(random.between(0, 16)) / 16;
      return ir::JsonValue{field.reals.least + share * (field.reals.greatest - field.reals.least)};
    }
    case ir::OptionKind::kWord:
    case ir::OptionKind::kText:
      return ir::JsonValue{word()};
    case ir::OptionKind::kNames:
      break;
  }
  ir::JsonValue::Array names;
  for (const std::string& name : words) {
    if (random.chance(1, 2)) {
      names.emplace_back(name);
    }
  }
  return ir::JsonValue{std::move(names)};
}

/// Gives every option of the part a random value. The options need not be compatible.
inline void randomise(Random& random, std::span<const ir::OptionField> fields,
                      ir::ParallelPlan& plan) {
  for (const ir::OptionField& field : fields) {
    field.set(plan, random_value(random, field));
  }
}

}  // namespace headroom::test
