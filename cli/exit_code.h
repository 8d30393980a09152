#pragma once

#include "model_ir/base/error.h"

namespace headroom::cli {

/// The exit code of the program.
enum class ExitCode {
  kYes = 0,            ///< The answer is yes, or the work is done.
  kNo = 1,             ///< The answer is no: does not fit, outside tolerance.
  kUsage = 2,          ///< The command line is wrong.
  kBadInput = 3,       ///< A file or a value in it is not accepted.
  kEnvironment = 4,    ///< A file cannot be read or written, or a part is missing.
  kBug = 5,            ///< Headroom violated one of its own invariants.
  kInterrupted = 130,  ///< SIGINT ended it; 128 and the signal's number, as in a shell.
  kTerminated = 143,
  kHungUp = 129,
};

/// The exit code after a signal that told this process to end.
[[nodiscard]] constexpr ExitCode exit_code_after(int signal) {
  constexpr int kHangup = 1, kTerminate = 15;  // POSIX fixes the numbers of these signals.
  return signal == kTerminate ? ExitCode::kTerminated
         : signal == kHangup  ? ExitCode::kHungUp
                              : ExitCode::kInterrupted;
}

[[nodiscard]] constexpr ExitCode exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return ExitCode::kUsage;
    case ErrorCode::kInvalidInput:
      return ExitCode::kBadInput;
    case ErrorCode::kEnvironment:
      return ExitCode::kEnvironment;
  }
  return ExitCode::kBug;
}

}  // namespace headroom::cli
