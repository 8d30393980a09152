#pragma once

#include <string>

#include "cli/report/fit_answer.h"

namespace headroom::cli {

/// The answer as one JSON document (`configs/schema/fit.schema.json`). Bytes are exact integers.
[[nodiscard]] std::string fit_json(const FitAnswer& answer);

}  // namespace headroom::cli
