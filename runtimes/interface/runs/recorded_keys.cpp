#include "runtimes/interface/runs/recorded_keys.h"

#include <algorithm>
#include <charconv>

namespace headroom::ir {
namespace {

bool parse_number(std::string_view text, double& value) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc{} && end.ptr == text.data() + text.size() && value >= 0;
}

/// One "name:value" of PYTORCH_ALLOC_CONF.
struct AllocatorOption {
  std::string_view name;
  std::string_view value;
};

/// False if the option is not modelled.
bool set_allocator(const AllocatorOption& option, AllocatorSettings& settings) {
  const auto& [name, value] = option;
  if (name == "expandable_segments") {
    settings.expandable_segments = value == "True";
    return value == "True" || value == "False";
  }
  if (name == "backend") {
    return value == "native";
  }
  double number = 0;
  if (!parse_number(value, number) || number > 1e6) {
    return false;  // Also roundup_power2_divisions:[256:1,...].
  }
  const Bytes size{static_cast<std::int64_t>(number) * kMiB};
  if (name == "max_split_size_mb") {
    settings.max_split_size = size;
  } else if (name == "max_non_split_rounding_mb") {
    settings.max_non_split_rounding = size;
  } else if (name == "garbage_collection_threshold") {
    settings.garbage_collection_threshold = number;
  } else if (name == "roundup_power2_divisions") {
    settings.roundup_power2_divisions = static_cast<std::int64_t>(number);
  } else {
    return false;
  }
  return true;
}

}  // namespace

void read_recorded_gpu(RunReader& row, RunSetting& run) {
  RunReader gpu(row.take("gpu"), "case.gpu");
  run.capacity = Bytes{gpu.integer("bytes", kUnnamedDevice.value(), {0, std::int64_t{1} << 50})};
  const std::int64_t capability = gpu.integer("cc", 90, {30, 999});
  run.traits.compute_major = static_cast<int>(capability / 10);
  run.traits.compute_minor = static_cast<int>(capability % 10);
  run.traits.multiprocessors = static_cast<int>(gpu.integer("sms", 132, {1, 10'000}));
  run.traits.memory_bytes = run.capacity.value();
  row.absorb(gpu.trouble());
}

void read_allocator(RunReader& row, std::string_view key, std::string_view absent,
                    AllocatorSettings& settings) {
  const std::string text = row.text(key, absent);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    const std::size_t colon = std::min(part.find(':'), part.size());
    const std::string_view value = colon < part.size() ? part.substr(colon + 1) : "";
    if (!set_allocator({part.substr(0, colon), value}, settings)) {
      row.fail(key, "'" + std::string(part) + "'");
    }
    begin = end + 1;
  }
}

std::int64_t integer_or(const JsonValue& object, std::string_view key, std::int64_t absent) {
  const JsonValue* value = object.find(key);
  return value != nullptr ? value->as_integer().value_or(absent) : absent;
}

std::string degrees_of(const JsonValue& setting) {
  std::string text;
  for (const std::string_view axis : {"tp", "pp", "cp", "ep"}) {
    if (const std::int64_t degree = integer_or(setting, axis, 1); degree > 1) {
      text += std::string(axis) + std::to_string(degree);
    }
  }
  return text.empty() ? "none" : text;
}

}  // namespace headroom::ir
