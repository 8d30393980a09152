#pragma once

#include <optional>
#include <string_view>

#include "validators/measured/row.h"

namespace headroom::check {

// The words that published rows use for GPUs and figures, in one place. Unknown words are not
// guessed: every function returns nothing for them.

/// Catalogue name of a GPU.
[[nodiscard]] std::optional<std::string_view> published_device(std::string_view gpu);
/// The memory metric that `mem_metric` stands for.
[[nodiscard]] std::optional<Metric> published_metric(std::string_view words);
/// Bytes in one `peak_mem_unit`.
[[nodiscard]] std::optional<double> published_unit(std::string_view words);

}  // namespace headroom::check
