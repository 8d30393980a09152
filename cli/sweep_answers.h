#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"

namespace headroom::cli {

/// The answers in a file of `sweep`: lines of JSON, or the document of --json. Nothing if the text
/// is neither. Lines that an interrupted sweep has left incomplete are skipped.
[[nodiscard]] std::optional<std::vector<ir::JsonValue>> sweep_answers(std::string_view text);

/// What the command line says of the answer that it means.
struct AnswerWanted {
  std::optional<std::string> model;   ///< MODEL as it was typed.
  std::optional<std::string> gpu;     ///< --gpu as it was typed.
  std::optional<std::string> device;  ///< That GPU as a plan file names it.
  std::optional<std::string> gpus;
};

/// The answer that is meant: of those with a plan, the only one, or the only one with the model,
/// the GPU, under whatever name, and the number of GPUs that were typed. Of several, the one with
/// the GPU's name as it was typed. `file` names the file in messages.
///
/// Errors:  kInvalidInput if no answer has a plan, or if none has what was typed; kInvalidArgument
///          if several remain: the message names them and what to type.
[[nodiscard]] Result<ir::JsonValue> chosen_answer(const std::vector<ir::JsonValue>& answers,
                                                  const AnswerWanted& wanted,
                                                  const std::string& file);

}  // namespace headroom::cli
