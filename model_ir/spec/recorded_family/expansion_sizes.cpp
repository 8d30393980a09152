#include "model_ir/spec/recorded_family/expansion_sizes.h"

#include <algorithm>
#include <utility>

#include "model_ir/spec/recorded_family/dimension_expression.h"

namespace headroom::ir {
namespace {

constexpr std::string_view kBytes = "bytes ";

/// The kind of an instruction; empty if it is none.
std::string_view kind_of(const JsonValue::Array& instruction) {
  const std::string* const kind = instruction.empty() ? nullptr : instruction[0].as_string();
  return kind == nullptr ? std::string_view{} : *kind;
}

/// The error of an expression that has no value: the first of its keys that is no number, or the
/// remainder that it leaves.
Error size_fault(std::string_view text, const ConfigValues& values, std::string_view file) {
  constexpr std::string_view kJoints = "*/+- ()";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kJoints, begin), text.size());
    const std::string_view name = text.substr(begin, end - begin);
    const bool is_key = name.size() > 1 && name != "ceil" && name.front() >= 'A';
    if (is_key && values.number(name).value_or(0) < 1) {
      const std::optional<JsonValue> value = values.at(name);
      std::string pointer = "/" + std::string(name);
      std::ranges::replace(pointer, '.', '/');
      return Error::invalid_input(file, pointer,
                                  value && !value->is_null() ? to_json(*value) : "nothing",
                                  "a whole number, at least 1");
    }
    begin = end + 1;
  }
  return Error::invalid_input(file, "", std::string(text) + " with a remainder, or too large",
                              "sizes of the configuration that fit together");
}

}  // namespace

void ExpansionSizes::refuse(std::string_view got) {
  if (!fault_) {
    fault_ = Error::invalid_input(file_, "", got, "the recording of a family");
  }
}

JsonValue ExpansionSizes::from_text(const std::string& text) {
  const auto known = known_.find(text);
  if (known != known_.end()) {
    return known->second;
  }
  std::optional<JsonValue> size = size_of(text, values_.dimensions());
  if (!size || size->as_integer().value_or(0) < 0) {
    if (!fault_) {
      fault_ = size_fault(text, values_, config_file_);
    }
    size = JsonValue(std::int64_t{0});
  }
  known_.emplace(text, *size);
  return std::move(*size);
}

JsonValue ExpansionSizes::size(const JsonValue& size) {
  return size.as_string() == nullptr ? size : from_text(*size.as_string());
}

JsonValue ExpansionSizes::shape(const JsonValue& shape) {
  JsonValue own = shape;
  set_shape(own);
  return own;
}

void ExpansionSizes::set_shape(JsonValue& shape) {
  if (JsonValue::Array* const sizes = shape.as_array()) {
    for (JsonValue& one : *sizes) {
      if (one.as_array() != nullptr) {
        set_shape(one);
      } else if (const std::string* const text = one.as_string()) {
        one = from_text(std::string(*text));
      }
    }
  }
}

void ExpansionSizes::set_output(JsonValue& output) {
  JsonValue::Array* const fields = output.as_array();
  if (fields == nullptr || fields->size() < 3) {
    return refuse("an output of another form");
  }
  set_shape((*fields)[2]);
  if (fields->size() == 4) {
    const std::string* const made = (*fields)[3].as_string();
    if (made != nullptr && made->starts_with(kBytes)) {
      const JsonValue bytes = from_text(made->substr(kBytes.size()));
      const std::string* const text = bytes.as_string();
      (*fields)[3] = JsonValue(std::string(kBytes) + (text != nullptr ? *text : to_json(bytes)));
    }
  }
}

void ExpansionSizes::set_outputs(JsonValue& outputs) {
  if (JsonValue::Array* const list = outputs.as_array()) {
    for (JsonValue& output : *list) {
      set_output(output);
    }
  }
}

void ExpansionSizes::set_inside(JsonValue& inside) {
  if (JsonValue::Array* const list = inside.as_array()) {
    for (JsonValue& one : *list) {
      JsonValue::Array* const pair = one.as_array();
      const bool is_size = pair != nullptr && pair->size() == 2 &&
                           ((*pair)[0].as_string() == nullptr || *(*pair)[0].as_string() != "free");
      if (is_size) {
        (*pair)[0] = size((*pair)[0]);
      }
    }
  }
}

/// Numbers that decide the work; a text that is no expression of the configuration is a text.
void ExpansionSizes::set_scalars(JsonValue& scalars) {
  if (JsonValue::Object* const members = scalars.as_object()) {
    for (JsonMember& member : *members) {
      const std::string* const text = member.value.as_string();
      std::optional<JsonValue> size =
          text == nullptr ? std::nullopt : size_of(*text, values_.dimensions());
      if (size) {
        member.value = std::move(*size);
      }
    }
  }
}

JsonValue ExpansionSizes::instruction(JsonValue instruction) {
  set_instruction(instruction);
  return instruction;
}

void ExpansionSizes::set_instruction(JsonValue& instruction) {
  JsonValue::Array* const fields = instruction.as_array();
  if (fields == nullptr || fields->empty()) {
    return refuse("an instruction that is no list");
  }
  const std::string_view kind = kind_of(*fields);
  if (kind == "linear" && fields->size() == 4) {
    set_output((*fields)[3]);
  } else if (kind == "repeat" && fields->size() == 5) {
    (*fields)[1] = size((*fields)[1]);
    if (JsonValue::Object* const turn = (*fields)[3].as_object()) {
      for (JsonMember& member : *turn) {
        if (member.key == "code") {
          set_code(member.value);
        }
      }
    }
  } else if (kind == "op" && fields->size() >= 4) {
    set_outputs((*fields)[3]);
  }
  if ((kind == "op" || kind == "node") && fields->size() == 5) {
    if (JsonValue::Object* const extra = (*fields)[4].as_object()) {
      for (JsonMember& member : *extra) {
        if (member.key == "inside") {
          set_inside(member.value);
        } else if (member.key == "scalars") {
          set_scalars(member.value);
        }
      }
    }
  }
}

void ExpansionSizes::set_code(JsonValue& code) {
  JsonValue::Array* const instructions = code.as_array();
  if (instructions == nullptr) {
    code = JsonValue(JsonValue::Array{});
    return;
  }
  for (JsonValue& one : *instructions) {
    set_instruction(one);
  }
}

}  // namespace headroom::ir
