#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/fit_answer.h"
#include "cli/terminal.h"
#include "validators/oom/account.h"
#include "validators/oom/match.h"
#include "validators/oom/message.h"

namespace headroom::cli {

/// A message, however often and by however many ranks it was printed, and what follows from it.
struct OomReading {
  check::OutOfMemoryMessage message;
  std::vector<std::string> ranks;  ///< Who printed it, as far as the log says; each once.
  std::size_t more_ranks = 0;      ///< Those who printed it, too, and are not in `ranks`.
  std::size_t times = 1;
  check::OomAccount account;
  std::vector<check::OomCause> causes;
  std::optional<check::OomMatch> match;  ///< If the run is known.
};

/// All data of the answer of `explain --oom`.
struct OomAnswer {
  std::vector<OomReading> readings;  ///< In the order of the text, at least one.
  std::optional<FitAnswer> fit;      ///< If the run is known.
  std::vector<std::string> notes;
};

/// A cause in a full sentence, with what to do about it.
[[nodiscard]] std::string cause_sentence(const OomReading& reading, check::OomCause cause);
/// What the prediction says of the request: "step 1, backward, layer 3: silu".
[[nodiscard]] std::string match_sentence(const OomReading& reading);

/// The answer as one JSON document (`configs/schema/oom.schema.json`).
[[nodiscard]] std::string oom_json(const OomAnswer& answer);
[[nodiscard]] std::string oom_text(const OomAnswer& answer, const Terminal& terminal);

}  // namespace headroom::cli
