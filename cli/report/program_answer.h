#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/program_question.h"
#include "cli/terminal.h"
#include "validators/dryrun/program_choices.h"
#include "validators/dryrun/recorded_replay.h"

namespace headroom::cli {

/// All data of the answer of `fit --program`.
struct ProgramAnswer {
  ProgramQuestion question;
  cost::StepEstimate estimate;
  /// The bytes reserved if segments lie where a real GPU's driver puts them. The stand-in of dry
  /// runs puts them elsewhere.
  Bytes driver_reserved;
  std::vector<check::DryRunBlocks> live;        ///< Live blocks at the peak, by line and category.
  std::vector<check::SettingsChoice> settings;  ///< Settings that were tried, the best first.
  std::vector<check::GpuChoice> gpus;           ///< Other GPUs, ordered by memory.
  /// The figures on which the replay and PyTorch disagree, for the recording's own GPU and
  /// settings.
  std::optional<std::vector<check::ReplayDifference>> differences;
  std::vector<std::string> notes;
};

/// Answers `question`.
///
/// Errors:  those of `try_gpus`.
[[nodiscard]] Result<ProgramAnswer> answer_program(ProgramQuestion question,
                                                   const std::string& config_dir);

/// A sentence that compares the replay of a recording with what PyTorch's allocator reported.
[[nodiscard]] std::string replay_sentence(const check::RecordedProgram& recorded,
                                          const std::vector<check::ReplayDifference>& differences);

/// The moment that ran out of memory: "step 1, backward: train.py:31 loss"; empty if none did.
[[nodiscard]] std::string failure_moment(const cost::StepEstimate& estimate);

/// The command that shows the whole timeline, for the question's device and settings.
[[nodiscard]] std::string program_next(const ProgramAnswer& answer);

/// The answer as one JSON document (`configs/schema/program_answer.schema.json`).
[[nodiscard]] std::string program_json(const ProgramAnswer& answer);
/// The answer on one screen.
[[nodiscard]] std::string program_text(const ProgramAnswer& answer, const Terminal& terminal);

}  // namespace headroom::cli
