#include "costmodel/hardware/sourced_fields.h"

#include <utility>

namespace headroom::cost {

SourcedFields::SourcedFields(ir::JsonObject root)
    : root_(std::move(root)), sources_(root_.object("sources")) {
  for (const std::string& key : sources_.keys()) {
    if (sources_.text(key).empty()) {
      sources_.refuse(key, "a document, a log or a derivation");
    }
  }
}

std::int64_t SourcedFields::integer(std::string_view key, ir::IntegerRange range) const {
  const std::optional<ir::JsonObject> object = figure(key);
  return object ? object->integer("value", range) : 0;
}

std::optional<std::int64_t> SourcedFields::optional_integer(std::string_view key,
                                                            ir::IntegerRange range) const {
  return root_.has(key) ? std::optional(integer(key, range)) : std::nullopt;
}

double SourcedFields::number(std::string_view key, ir::NumberRange range) const {
  const std::optional<ir::JsonObject> object = figure(key);
  return object ? object->number("value", range) : 0;
}

std::optional<double> SourcedFields::optional_number(std::string_view key,
                                                     ir::NumberRange range) const {
  return root_.has(key) ? std::optional(number(key, range)) : std::nullopt;
}

std::string SourcedFields::text(std::string_view key) const {
  const std::optional<ir::JsonObject> object = figure(key);
  return object ? object->text("value") : std::string();
}

bool SourcedFields::boolean(std::string_view key) const {
  const std::optional<ir::JsonObject> object = figure(key);
  return object && object->boolean("value");
}

std::string SourcedFields::source_of(std::string_view key) const {
  const std::optional<ir::JsonObject> object = root_.optional_object(key);
  return object ? described_source(*object) : std::string();
}

std::optional<ir::JsonObject> SourcedFields::figure(std::string_view key) const {
  if (!root_.has(key)) {
    root_.refuse(key, "a figure with its source");
    return std::nullopt;
  }
  std::optional<ir::JsonObject> object = root_.optional_object(key);
  if (object && described_source(*object).empty()) {
    object->refuse("source", "a key of /sources");
  }
  return object;
}

std::string SourcedFields::described_source(const ir::JsonObject& figure) const {
  const std::string key = figure.text_or("source", "");
  return key.empty() ? std::string() : sources_.optional_text(key).value_or(std::string());
}

}  // namespace headroom::cost
