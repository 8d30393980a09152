#pragma once

#include <string>

#include "cli/report/fit_answer.h"

namespace headroom::cli {

/// The answer as one JSON document (`configs/schema/fit.schema.json`): exact integers in bytes.
[[nodiscard]] std::string fit_json(const FitAnswer& answer);

}  // namespace headroom::cli
