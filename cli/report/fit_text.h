#pragma once

#include <string>

#include "cli/report/fit_answer.h"
#include "cli/terminal.h"

namespace headroom::cli {

/// The answer on one screen of 80 columns: verdict first, then why, then what to do.
[[nodiscard]] std::string fit_text(const FitAnswer& answer, const Terminal& terminal);

/// "62.4 GiB": three digits, so that figures line up and can be compared.
[[nodiscard]] std::string size_text(Bytes bytes);

}  // namespace headroom::cli
