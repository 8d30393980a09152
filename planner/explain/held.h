#pragma once

#include <utility>

#include "planner/search/search.h"

namespace headroom::plan {

/// A budget larger than any plan needs.
inline constexpr Bytes kNoLimit{std::int64_t{1} << 50};

/// The same question, without progress and only for its best plan by evaluated times.
[[nodiscard]] inline SearchQuestion quiet(const SearchQuestion& question) {
  SearchQuestion asked = question;
  asked.front = false;
  asked.replays = 1;
  asked.proven = false;
  asked.progress = {};
  return asked;
}

/// `quiet` with `axis` held to `values`. With no values, the axis is free.
[[nodiscard]] inline SearchQuestion held(const SearchQuestion& question, Axis axis,
                                         AxisValues values) {
  SearchQuestion asked = quiet(question);
  asked.space.constraints.of(axis) = std::move(values);
  return asked;
}

}  // namespace headroom::plan
