#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/base/units.h"
#include "model_ir/plan/rank_program.h"
#include "validators/dryrun/report.h"

namespace headroom::check {

/// The GPU of the dry run that recorded a program.
struct RecordedDevice {
  std::string name;     ///< Catalogue name: "h100-80gb".
  std::string product;  ///< "NVIDIA H100 80GB HBM3"
  Bytes total;          ///< The device's memory, or the budget of that run.
  Bytes outside;        ///< Memory taken before PyTorch's first allocation.
  std::int64_t multiprocessors = 0;
};

/// The requests of one process of a dry run to PyTorch's allocator.
struct AllocatorHistory {
  std::string alloc_conf;      ///< Value of PYTORCH_ALLOC_CONF; empty: PyTorch's defaults.
  double memory_fraction = 1;  ///< torch.cuda.set_per_process_memory_fraction
  bool private_pools = false;  ///< CUDA graphs or MemPools had pools of their own.
  /// Its operations are lines of the program ("train.py:31 forward"), its phases are those of
  /// `phases`. Roles follow from the categories of a dry run.
  ir::RankProgram program;
};

/// A program that `headroom dryrun --record` keeps (docs/dryrun.md, "A recorded program").
struct RecordedProgram {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> versions;
  RecordedDevice device;
  std::int64_t ranks = 1;
  std::int64_t rank = 0;
  Bytes other;                      ///< Memory that libraries took outside PyTorch's allocator.
  std::vector<DryRunPhase> phases;  ///< Phases as the allocator reported them.
  AllocatorHistory history;
};

/// Reads what the dry run's Python code wrote beside a report, for the report's phases.
///
/// Errors:  kEnvironment with the reason if the events are not complete; kInvalidInput naming
///          `file` and the place.
[[nodiscard]] Result<AllocatorHistory> parse_history(std::string_view text, std::string_view file,
                                                     const std::vector<DryRunPhase>& phases);

/// The document of a recorded program on one line; the same program gives the same bytes.
[[nodiscard]] std::string to_json(const RecordedProgram& recorded);

/// Reads the document of a recorded program.
///
/// Errors:  kInvalidInput naming `file` and the place: no JSON, another document or version, a
///          missing or unknown field, a value out of bounds, columns of different lengths, a block
///          that is released twice or before it is allocated, more than `kMostProgramEvents`.
[[nodiscard]] Result<RecordedProgram> parse_recorded_program(std::string_view text,
                                                             std::string_view file);

/// Writes `recorded` to a file, compressed with gzip.
///
/// Errors:  those of `write_file_atomically`.
[[nodiscard]] Status write_recorded_program(const std::string& path,
                                            const RecordedProgram& recorded);
/// Reads a file, with or without compression.
///
/// Errors:  those of `read_file_bytes` and `parse_recorded_program`.
[[nodiscard]] Result<RecordedProgram> read_recorded_program(const std::string& path);

}  // namespace headroom::check
