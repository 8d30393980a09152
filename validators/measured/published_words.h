#pragma once

#include <optional>
#include <string_view>

#include "validators/measured/row.h"

namespace headroom::check {

// The words of published rows for GPUs and figures, in one place. A word that is not here is not
// guessed: every function returns nothing for it.

/// Catalogue name of a GPU.
[[nodiscard]] std::optional<std::string_view> published_device(std::string_view gpu);
/// Which memory metric `mem_metric` means.
[[nodiscard]] std::optional<Metric> published_metric(std::string_view words);
/// Bytes in one `peak_mem_unit`.
[[nodiscard]] std::optional<double> published_unit(std::string_view words);

}  // namespace headroom::check
