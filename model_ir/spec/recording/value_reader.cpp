#include "model_ir/spec/recording/value_reader.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

namespace headroom::ir {

std::optional<std::uint32_t> number_after(std::string_view text, std::string_view word) {
  if (!text.starts_with(word)) {
    return std::nullopt;
  }
  text.remove_prefix(word.size());
  std::uint32_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc{} && end == text.data() + text.size() && number < kMostIndex
             ? std::optional(number)
             : std::nullopt;
}

std::optional<std::uint32_t> index_of(const JsonValue& value) {
  const std::optional<std::int64_t> number = value.as_integer();
  return number && *number >= 0 && *number < kMostIndex
             ? std::optional(static_cast<std::uint32_t>(*number))
             : std::nullopt;
}

ValueReader::ValueReader(RecordingFaults& faults, const CodeContext& context, CodeNames& names)
    : faults_(faults),
      context_(context),
      parameters_(names.parameters),
      buffers_(names.buffers),
      modules_(names.modules) {}

bool ValueReader::read_reference(const JsonValue& value, Reference& reference) {
  if (value.is_null()) {
    return true;
  }
  if (const std::optional<std::uint32_t> number = index_of(value)) {
    reference = {.kind = Reference::Kind::kValue, .index = *number};
    return is_alive(*number) || refuse(value, "a value that has been made and not dropped");
  }
  const std::string* const text = value.as_string();
  if (text == nullptr) {
    return refuse(value, "a value, a parameter, a buffer or null");
  }
  if (template_) {
    const auto gradient = number_after(*text, "g");
    const auto saved = number_after(*text, "s");
    if (gradient || saved) {
      reference = {.kind = gradient ? Reference::Kind::kGradient : Reference::Kind::kSaved,
                   .index = gradient ? *gradient : *saved};
      const std::size_t most = gradient ? kMostEdges : kMostSaved;
      return reference.index < most || refuse(value, "a number below " + std::to_string(most));
    }
  } else if (text->starts_with("p:")) {
    reference = {.kind = Reference::Kind::kParameter,
                 .index = parameters_.index(std::string_view(*text).substr(2))};
    return true;
  } else if (text->starts_with("b:")) {
    reference = {.kind = Reference::Kind::kBuffer,
                 .index = buffers_.index(std::string_view(*text).substr(2))};
    return true;
  }
  return refuse(value,
                template_ ? "a value, g0, s0 or null" : "a value, a parameter, a buffer or null");
}

bool ValueReader::refuse(const JsonValue& got, std::string_view wanted) {
  return faults_.refuse(place_.text(), &got, wanted);
}

bool ValueReader::is_alive(std::uint32_t value) const {
  return value < roots_.size() && roots_[value] != kNotMade && alive_[roots_[value]];
}

bool ValueReader::make(std::uint32_t value) {
  if (value >= roots_.size()) {
    roots_.resize(std::size_t{value} + 1, kNotMade);
    alive_.resize(roots_.size(), false);
  }
  const bool fresh = roots_[value] == kNotMade;
  roots_[value] = fresh ? value : roots_[value];
  alive_[value] = alive_[value] || fresh;
  return fresh;
}

void ValueReader::share_storages(const Instruction& instruction) {
  for (const RecordedOutput& output : instruction.outputs) {
    const bool shares =
        output.how != RecordedOutput::How::kNew && output.target.kind == Reference::Kind::kValue;
    if (shares && instruction.inputs[output.input].kind == Reference::Kind::kValue) {
      roots_[output.target.index] = roots_[instruction.inputs[output.input].index];
    }
  }
}

void ValueReader::let_go(std::uint32_t value) {
  alive_[roots_[value]] = false;
  if (roots_[value] < given_) {
    consumed_.push_back(roots_[value]);
  }
}

bool ValueReader::read_references(const JsonValue::Array& fields, std::size_t first,
                                  std::vector<Reference>& inputs) {
  inputs.reserve(fields.size() - std::min(first, fields.size()));
  for (std::size_t i = first; i < fields.size(); ++i) {
    Reference reference;
    if (!read_reference(fields[i], reference)) {
      return false;
    }
    inputs.push_back(reference);
  }
  return true;
}

bool ValueReader::read_size(const JsonValue& value, SizeExpression& size) {
  if (const std::optional<std::int64_t> number = value.as_integer()) {
    size = SizeExpression(*number);
    return (*number >= 0 && *number <= SizeExpression::kGreatest) ||
           refuse(value, "a size from 0 to 2^53");
  }
  std::optional<SizeExpression> parsed =
      value.as_string() == nullptr ? std::nullopt : SizeExpression::parse(*value.as_string());
  if (!parsed) {
    return refuse(value, "a number, or an expression of B and S such as \"2*B*S\"");
  }
  size = *std::move(parsed);
  return true;
}

bool ValueReader::read_shape(const JsonValue& value, RecordedShape& shape) {
  const JsonValue::Array* const sizes = value.as_array();
  if (sizes == nullptr || sizes->size() > kMostDims) {
    return refuse(value, "a list of at most 8 sizes");
  }
  shape.reserve(sizes->size());
  for (const JsonValue& each : *sizes) {
    shape.emplace_back();
    if (!read_size(each, shape.back())) {
      return false;
    }
  }
  return true;
}

}  // namespace headroom::ir
