#include "gui/charts/measured_phases.h"

#include <utility>

#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"

namespace headroom::gui {
namespace {

std::optional<Bytes> bytes_at(const ir::JsonValue& object, std::string_view key) {
  const ir::JsonValue* const value = object.find(key);
  const std::optional<std::int64_t> whole = value != nullptr ? value->as_integer() : std::nullopt;
  return whole && *whole >= 0 ? std::optional(Bytes{*whole}) : std::nullopt;
}

std::int64_t whole_at(const ir::JsonValue& object, std::string_view key) {
  const ir::JsonValue* const value = object.find(key);
  return value != nullptr ? value->as_integer().value_or(0) : 0;
}

std::optional<std::string> text_at(const ir::JsonValue& object, std::string_view key) {
  const ir::JsonValue* const value = object.find(key);
  const std::string* const text = value != nullptr ? value->as_string() : nullptr;
  return text != nullptr ? std::optional(*text) : std::nullopt;
}

/// A phase of `validate`: its name in full, and what was measured in an object.
std::optional<MeasuredPeak> validated_phase(const ir::JsonValue& phase) {
  const std::optional<std::string> name = text_at(phase, "phase");
  const ir::JsonValue* const measured = phase.find("measured");
  const std::optional<Bytes> peak =
      measured != nullptr ? bytes_at(*measured, "peak_allocated_bytes") : std::nullopt;
  if (!name || !peak) {
    return std::nullopt;
  }
  return MeasuredPeak{.phase = ir::parse_phase_name(*name),
                      .allocated = *peak,
                      .reserved = bytes_at(*measured, "peak_reserved_bytes")};
}

/// A phase of `dryrun`: its words, step and micro-batch.
std::optional<MeasuredPeak> observed_phase(const ir::JsonValue& phase) {
  const std::optional<std::string> name = text_at(phase, "name");
  const std::optional<Bytes> peak = bytes_at(phase, "peak_allocated_bytes");
  if (!name || !peak) {
    return std::nullopt;
  }
  ir::PhaseName found = ir::parse_phase_name(*name);
  found.at = {.step = static_cast<int>(whole_at(phase, "step")),
              .micro_batch = whole_at(phase, "micro_batch")};
  return MeasuredPeak{.phase = std::move(found),
                      .allocated = *peak,
                      .reserved = bytes_at(phase, "peak_reserved_bytes")};
}

}  // namespace

Result<std::vector<MeasuredPeak>> read_measured_peaks(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  const Result<ir::JsonValue> root = ir::parse_json(*text, path);
  if (!root) {
    return root.error();
  }
  const ir::JsonValue* source = &*root;
  const ir::JsonValue* const processes = root->find("processes");
  const bool observed =
      processes != nullptr && processes->as_array() != nullptr && !processes->as_array()->empty();
  if (observed) {
    source = &processes->as_array()->front();
  }
  std::vector<MeasuredPeak> peaks;
  const ir::JsonValue* const phases = source->find("phases");
  if (phases != nullptr && phases->as_array() != nullptr) {
    for (const ir::JsonValue& phase : *phases->as_array()) {
      if (auto peak = observed ? observed_phase(phase) : validated_phase(phase)) {
        peaks.push_back(*std::move(peak));
      }
    }
  }
  if (peaks.empty()) {
    return Error::invalid_input(path, "/phases", "no measured phases",
                                "the JSON document of headroom validate or headroom dryrun");
  }
  return peaks;
}

}  // namespace headroom::gui
