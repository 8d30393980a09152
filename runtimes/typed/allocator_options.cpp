#include "runtimes/typed/allocator_options.h"

#include <cstdint>
#include <utility>

#include "runtimes/typed/key_values.h"
#include "runtimes/typed/scalars.h"

namespace headroom::ir {

Result<AllocatorSettings> parse_allocator_settings(std::string_view text, AllocatorSettings base) {
  constexpr std::string_view kOption = "alloc-conf";
  constexpr std::int64_t kMostMegabytes = std::int64_t{1} << 30;
  Result<KeyValues> values = KeyValues::parse(kOption, text, ':');
  if (!values) {
    return std::move(values).error();
  }
  if (const auto on = values->take("expandable_segments")) {
    const Result<bool> value = parse_switch(kOption, "expandable_segments", *on);
    if (!value) {
      return value.error();
    }
    base.expandable_segments = *value;
  }
  if (const auto size = values->take("max_split_size_mb")) {
    const auto megabytes = parse_whole(kOption, *size, 21, kMostMegabytes);
    if (!megabytes) {
      return megabytes.error();
    }
    base.max_split_size = Bytes{*megabytes * kMiB};
  }
  if (const auto size = values->take("max_non_split_rounding_mb")) {
    const auto megabytes = parse_whole(kOption, *size, 21, kMostMegabytes);
    if (!megabytes) {
      return megabytes.error();
    }
    base.max_non_split_rounding = Bytes{*megabytes * kMiB};
  }
  if (const auto share = values->take("garbage_collection_threshold")) {
    const auto threshold = parse_real(kOption, *share, 0, 1);
    if (!threshold) {
      return threshold.error();
    }
    base.garbage_collection_threshold = *threshold;
  }
  if (const auto steps = values->take("roundup_power2_divisions")) {
    const auto divisions = parse_whole(kOption, *steps, 0, 64);
    if (!divisions || (*divisions & (*divisions - 1)) != 0) {
      return Error::invalid_argument(kOption, *steps, "0, 1, 2, 4, 8, 16, 32 or 64");
    }
    base.roundup_power2_divisions = *divisions;
  }
  const Status known = values->finish();
  return known ? Result<AllocatorSettings>(base) : Result<AllocatorSettings>(known.error());
}

std::string to_text(const AllocatorSettings& settings) {
  const AllocatorSettings usual;
  std::string text;
  const auto add = [&](const char* key, const std::string& value) {
    text += (text.empty() ? "" : ",") + std::string(key) + ":" + value;
  };
  if (settings.expandable_segments) {
    add("expandable_segments", "True");
  }
  if (settings.max_split_size) {
    add("max_split_size_mb", std::to_string(settings.max_split_size->value() / kMiB));
  }
  if (settings.max_non_split_rounding != usual.max_non_split_rounding) {
    add("max_non_split_rounding_mb",
        std::to_string(settings.max_non_split_rounding.value() / kMiB));
  }
  if (settings.garbage_collection_threshold > 0) {
    add("garbage_collection_threshold", real_text(settings.garbage_collection_threshold));
  }
  if (settings.roundup_power2_divisions > 0) {
    add("roundup_power2_divisions", std::to_string(settings.roundup_power2_divisions));
  }
  return text;
}

}  // namespace headroom::ir
