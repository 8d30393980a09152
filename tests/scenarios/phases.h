#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/support/cli.h"

namespace headroom::test {

/// Parameters of Llama-2-7B, the "7B" of the scenarios.
inline constexpr std::int64_t kLlama7b = 6'738'415'616;

/// The greatest figure of one role in any phase whose name ends in `phase`; all phases if empty.
inline std::int64_t greatest(const Document& answer, std::string_view role,
                             std::string_view phase = {}) {
  std::int64_t most = 0;
  for (std::size_t index = 0; index < answer.array("phases").size(); ++index) {
    const std::string path = "phases/" + std::to_string(index) + "/";
    const std::string name = answer.text(path + "name");
    if (name.size() < phase.size() || name.substr(name.size() - phase.size()) != phase) {
      continue;
    }
    for (const char* moment : {"at_peak/", "after/"}) {
      most = std::max(most, answer.integer(path + moment + std::string(role)));
    }
  }
  return most;
}

/// One figure of the work of the last phase whose name ends in `phase`.
inline double last_work(const Document& answer, std::string_view phase, std::string_view figure) {
  double last = 0;
  for (std::size_t index = 0; index < answer.array("phases").size(); ++index) {
    const std::string path = "phases/" + std::to_string(index) + "/";
    const std::string name = answer.text(path + "name");
    if (name.size() >= phase.size() && name.substr(name.size() - phase.size()) == phase) {
      last = answer.number(path + "work/" + std::string(figure));
    }
  }
  return last;
}

/// Bytes that cross the links in the second step, per rank: an all-reduce passes its buffer twice
/// (reduce-scatter, then all-gather), the others once.
inline std::int64_t bytes_moved(const Document& answer) {
  std::int64_t moved = 0;
  for (std::size_t index = 0; index < answer.array("phases").size(); ++index) {
    const std::string path = "phases/" + std::to_string(index) + "/";
    if (answer.text(path + "name").substr(0, 5) != "step2") {
      continue;
    }
    for (const ir::JsonValue& collective : answer.array(path + "work/collectives")) {
      const bool twice = *collective.find("operation")->as_string() == "all_reduce";
      moved += (twice ? 2 : 1) * collective.find("bytes")->as_integer().value();
    }
  }
  return moved;
}

/// Whether `value` is `wanted` up to what rounding each tensor to blocks of 512 bytes adds.
inline bool is_about(std::int64_t value, std::int64_t wanted) {
  return value >= wanted && value - wanted <= wanted / 1'000;
}

}  // namespace headroom::test
