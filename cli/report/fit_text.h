#pragma once

#include <string>

#include "cli/report/fit_answer.h"
#include "cli/terminal.h"

namespace headroom::cli {

/// The answer on one screen of 80 columns: the verdict first, then its reasons, then what to do.
[[nodiscard]] std::string fit_text(const FitAnswer& answer, const Terminal& terminal);

/// "62.4 GiB": three digits, so that figures are aligned and easy to compare.
[[nodiscard]] std::string size_text(Bytes bytes);

}  // namespace headroom::cli
