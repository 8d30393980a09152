#include "model_ir/spec/recorded_family/code_unroller.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace headroom::ir {
namespace {

constexpr std::string_view kIndex = "{i}";
constexpr std::int64_t kMostInstructions = 1 << 20;
constexpr std::int64_t kMostNamedValues = 1 << 20;  // By "each", "back" and "most".
constexpr std::size_t kWord = 5;                    // Characters of "each ", "back " and "most ".

bool is_kind(const JsonValue::Array& instruction, std::string_view kind) {
  const std::string* const own = instruction.empty() ? nullptr : instruction[0].as_string();
  return own != nullptr && *own == kind;
}

const JsonValue& member(const JsonValue& owner, std::string_view key) {
  static const JsonValue none;
  const JsonValue* const found = owner.find(key);
  return found == nullptr ? none : *found;
}

/// The number of a slot, "<1".
std::optional<std::size_t> slot_of(const std::string& text) {
  std::size_t slot = 0;
  if (!text.starts_with('<')) {
    return std::nullopt;
  }
  const char* const end = text.data() + text.size();
  const auto [last, fault] = std::from_chars(text.data() + 1, end, slot);
  return fault == std::errc() && last == end ? std::optional(slot) : std::nullopt;
}

}  // namespace

void set_index(JsonValue& value, std::size_t index) {
  if (const std::string* const text = value.as_string()) {
    std::size_t at = text->find(kIndex);
    if (at != std::string::npos) {
      std::string own = *text;
      const std::string number = std::to_string(index);
      for (; at != std::string::npos; at = own.find(kIndex, at + number.size())) {
        own.replace(at, kIndex.size(), number);
      }
      value = JsonValue(std::move(own));
    }
  } else if (JsonValue::Array* const list = value.as_array()) {
    for (JsonValue& one : *list) {
      set_index(one, index);
    }
  } else if (JsonValue::Object* const members = value.as_object()) {
    for (JsonMember& one : *members) {
      set_index(one.value, index);
    }
  }
}

CodeUnroller::CodeUnroller(const std::vector<LayerStack>& stacks, ExpansionSizes& sizes,
                           std::int64_t given)
    : stacks_(stacks), sizes_(sizes), next_(given) {
  for (std::int64_t value = 0; value < given; ++value) {
    outer_.emplace(value, value);
  }
  for (const LayerStack& stack : stacks) {
    of_layers_.emplace_back(stack.kinds.size());
  }
}

JsonValue::Array CodeUnroller::run(JsonValue& code) {
  JsonValue::Array* const instructions = code.as_array();
  if (instructions == nullptr) {
    sizes_.refuse("code that is no list");
    return {};
  }
  const std::vector<std::int64_t> nothing;
  for (JsonValue& one : *instructions) {
    const JsonValue::Array* const fields = one.as_array();
    if (fields != nullptr && is_kind(*fields, "each")) {
      add_loop(*fields);
    } else {
      add(sizes_.instruction(std::move(one)), {.own = outer_, .before = nothing});
    }
    if (sizes_.fault()) {
      return {};
    }
  }
  return std::move(code_);
}

void CodeUnroller::make(JsonValue& number, Numbers& own) {
  if (const std::optional<std::int64_t> value = number.as_integer()) {
    own[*value] = next_;
    number = JsonValue(next_);
    ++next_;
  }
}

void CodeUnroller::make_outputs(JsonValue::Array& instruction, Numbers& own) {
  const bool is_op = is_kind(instruction, "op");
  const bool is_linear = is_kind(instruction, "linear");
  const std::size_t place = is_op || is_linear || is_kind(instruction, "layer") ? 3
                            : is_kind(instruction, "repeat")                    ? 4
                                                                                : 0;
  if (place == 0 || place >= instruction.size()) {
    return;
  }
  JsonValue::Array* const outputs = instruction[place].as_array();
  if (outputs == nullptr) {
    return sizes_.refuse("outputs that are no list");
  }
  if (is_linear && !outputs->empty()) {
    return make(outputs->front(), own);
  }
  for (JsonValue& output : *outputs) {
    JsonValue::Array* const fields = output.as_array();
    if (!is_op) {
      make(output, own);
    } else if (fields != nullptr && !fields->empty()) {
      make(fields->front(), own);
    }
  }
}

void CodeUnroller::refer(JsonValue& reference, const Names& names) {
  if (const std::optional<std::int64_t> value = reference.as_integer()) {
    const auto own = names.own.find(*value);
    const auto outer = outer_.find(*value);
    if (own != names.own.end()) {
      reference = JsonValue(own->second);
    } else if (outer != outer_.end()) {
      reference = JsonValue(outer->second);
    } else {
      sizes_.refuse("value " + std::to_string(*value) + " before it is made");
    }
    return;
  }
  const std::string* const text = reference.as_string();
  const std::optional<std::size_t> slot = text == nullptr ? std::nullopt : slot_of(*text);
  if (slot) {
    if (*slot >= names.before.size()) {
      return sizes_.refuse("value " + *text + " without a turn before");
    }
    reference = JsonValue(names.before[*slot]);
  }
}

/// The values of "each 36 37": outputs 36 and 37 of a loop's first turn, of its second, and so on;
/// with "back" those of the last turn come first, and with "most" they are left out.
std::optional<std::vector<std::int64_t>> CodeUnroller::of_all_turns(const JsonValue& reference) {
  const std::string* const text = reference.as_string();
  if (text == nullptr ||
      !(text->starts_with("each ") || text->starts_with("back ") || text->starts_with("most "))) {
    return std::nullopt;
  }
  std::istringstream words(text->substr(kWord));
  std::vector<const std::vector<std::int64_t>*> slots;
  for (std::int64_t output = 0; words >> output;) {
    const auto found = turns_.find(output);
    if (found == turns_.end()) {
      sizes_.refuse("values of a loop that is not there");
      return std::vector<std::int64_t>();
    }
    slots.push_back(&found->second);
  }
  if (slots.empty()) {
    sizes_.refuse("values of no loop");
    return std::vector<std::int64_t>();
  }
  const std::size_t count = slots.front()->size();
  const std::size_t named = text->front() == 'm' ? count - 1 : count;
  std::vector<std::int64_t> values;
  for (std::size_t turn = 0; turn < named; ++turn) {
    for (const std::vector<std::int64_t>* const slot : slots) {
      const std::size_t at = text->front() == 'b' ? count - 1 - turn : turn;
      if (slot->size() == count && (*slot)[at] >= 0) {
        values.push_back((*slot)[at]);
      }
    }
  }
  if (values.empty() && named > 0) {
    sizes_.refuse("values of a loop that is not there");
  }
  return values;
}

void CodeUnroller::refer_all(JsonValue& references, const Names& names, std::size_t from) {
  JsonValue::Array* const list = references.as_array();
  if (list == nullptr) {
    return;
  }
  JsonValue::Array result(list->begin(), list->begin() + static_cast<std::ptrdiff_t>(from));
  for (std::size_t at = from; at < list->size(); ++at) {
    if (const auto values = of_all_turns((*list)[at])) {
      values_named_ += std::ssize(*values);
      for (const std::int64_t value : *values) {
        result.emplace_back(value);
      }
      continue;
    }
    refer((*list)[at], names);
    result.push_back(std::move((*list)[at]));
  }
  *list = std::move(result);
}

void CodeUnroller::refer_extra(JsonValue& extra, const Names& names) {
  if (JsonValue::Object* const members = extra.as_object()) {
    for (JsonMember& one : *members) {
      if (one.key == "saves") {
        refer_all(one.value, names);
      } else if (one.key == "base") {
        refer(one.value, names);
      }
    }
  }
}

void CodeUnroller::add(JsonValue instruction, const Names& names) {
  if (std::ssize(code_) >= kMostInstructions || values_named_ > kMostNamedValues) {
    return sizes_.refuse("code of more than a million instructions or values");
  }
  JsonValue::Array* const fields = instruction.as_array();
  if (fields == nullptr || fields->empty()) {
    return sizes_.refuse("an instruction that is no list");
  }
  // Outputs may be named by what follows in the same instruction ("base"), never by its inputs.
  if (is_kind(*fields, "drop") || is_kind(*fields, "result")) {
    refer_all(instruction, names, 1);
  } else if (is_kind(*fields, "linear") && fields->size() > 2) {
    refer((*fields)[2], names);
  } else if ((is_kind(*fields, "op") || is_kind(*fields, "layer") || is_kind(*fields, "repeat")) &&
             fields->size() > 2) {
    refer_all((*fields)[2], names);
  } else if (is_kind(*fields, "node") && fields->size() > 3) {
    refer_all((*fields)[2], names);
    if (JsonValue::Array* const values = (*fields)[3].as_array()) {
      for (JsonValue& value : *values) {
        refer_all(value, names);
      }
    }
  }
  if (is_kind(*fields, "layer") && fields->size() > 1) {
    (*fields)[1] = JsonValue(calls_);
    ++calls_;
  }
  make_outputs(*fields, names.own);
  if ((is_kind(*fields, "op") || is_kind(*fields, "node")) && fields->size() == 5) {
    refer_extra((*fields)[4], names);
  }
  code_.push_back(std::move(instruction));
}

std::vector<std::int64_t> CodeUnroller::numbers_of(const JsonValue& values, const Names& names) {
  JsonValue own = values;
  refer_all(own, names);
  std::vector<std::int64_t> numbers;
  if (const JsonValue::Array* const list = own.as_array()) {
    for (const JsonValue& one : *list) {
      numbers.push_back(one.as_integer().value_or(-1));  // No turn reads a null.
    }
  }
  return numbers;
}

void CodeUnroller::let_go(const JsonValue& slots, const std::vector<std::int64_t>& before) {
  Numbers none;
  std::vector<std::int64_t> values = numbers_of(slots, {.own = none, .before = before});
  if (values.empty()) {
    return;
  }
  // One instruction lets go of all that the layer's own last one does.
  JsonValue::Array* const last = code_.empty() ? nullptr : code_.back().as_array();
  if (last != nullptr && is_kind(*last, "drop")) {
    for (std::size_t at = 1; at < last->size(); ++at) {
      values.push_back((*last)[at].as_integer().value_or(0));
    }
    code_.pop_back();
  }
  std::ranges::sort(values);
  JsonValue::Array drop{JsonValue("drop")};
  for (const std::int64_t value : values) {
    drop.emplace_back(value);
  }
  code_.emplace_back(std::move(drop));
}

void CodeUnroller::add_loop(const JsonValue::Array& loop) {
  const std::optional<std::int64_t> number = loop.size() == 4 ? loop[1].as_integer() : std::nullopt;
  if (!number || *number < 0 || *number >= std::ssize(stacks_)) {
    return sizes_.refuse("a loop over a stack that is not there");
  }
  const auto stack = static_cast<std::size_t>(*number);
  const JsonValue& turn = loop[2];
  const std::vector<std::int64_t> nothing;
  std::vector<std::int64_t> before =
      numbers_of(member(turn, "first"), {.own = outer_, .before = nothing});
  const JsonValue::Array* const kinds = member(turn, "kinds").as_array();
  std::vector<std::vector<std::int64_t>> handed;
  for (std::size_t index = 0; index < stacks_[stack].kinds.size(); ++index) {
    const auto kind = static_cast<std::size_t>(stacks_[stack].kinds[index]);
    const JsonValue::Array* const code = kinds == nullptr || kind >= kinds->size()
                                             ? nullptr
                                             : member((*kinds)[kind], "code").as_array();
    if (code == nullptr) {
      return sizes_.refuse("a loop without code for each kind of layer");
    }
    const Names names{.own = of_layers_[stack][index], .before = before};
    for (const JsonValue& one : *code) {
      if (sizes_.fault()) {
        return;
      }
      JsonValue own = sizes_.instruction(one);
      set_index(own, index);
      add(std::move(own), names);
    }
    let_go(index == 0 ? member(turn, "first_drops") : member((*kinds)[kind], "drops"), before);
    before = numbers_of(member((*kinds)[kind], "hands"), names);
    handed.push_back(before);
  }
  const JsonValue::Array* const outputs = loop[3].as_array();
  for (std::size_t slot = 0; outputs != nullptr && slot < outputs->size(); ++slot) {
    const std::optional<std::int64_t> value = (*outputs)[slot].as_integer();
    if (!value || slot >= before.size()) {
      return sizes_.refuse("a loop with outputs that no turn hands on");
    }
    outer_[*value] = before[slot];
    for (const std::vector<std::int64_t>& turn_values : handed) {
      if (slot < turn_values.size()) {
        turns_[*value].push_back(turn_values[slot]);
      }
    }
  }
}

}  // namespace headroom::ir
