#pragma once

#include <string>
#include <vector>

#include "model_ir/base/result.h"

namespace headroom::check {

/// A program to start.
struct ChildCommand {
  std::vector<std::string> command;      ///< Found on PATH; at least one word.
  std::vector<std::string> environment;  ///< "NAME=value", all of it.
  bool output_to_error = false;          ///< Standard output goes to our standard error.
};

/// How a program ended.
struct ChildEnd {
  int exit_code = 0;         ///< 0 if a signal ended it.
  int signal = 0;            ///< The signal that ended it; 0: none.
  bool interrupted = false;  ///< Whether a signal to us was passed on.
  int told = 0;              ///< The first such signal; 0: none.
  double seconds = 0;
};

/// The environment of this process.
[[nodiscard]] std::vector<std::string> own_environment();

/// Starts a program in a process group of its own and waits for it.
///
/// Model:   SIGINT, SIGTERM and SIGHUP to this process are passed on to the group, and the third
///          one kills it. Processes of the group that outlive the program after a signal are
///          killed. If this process is killed itself, the program gets SIGTERM. Standard input is
///          ours unless it is a terminal, which a group in the background must not read.
/// Errors:  kEnvironment if the command is not found or cannot be started; on other systems than
///          Linux.
[[nodiscard]] Result<ChildEnd> run_child(const ChildCommand& command);

/// Runs a short command and returns its standard output; nothing if it cannot be started, fails,
/// writes more than 64 KiB or takes longer than `seconds`. Its standard error is dropped.
[[nodiscard]] std::string output_of(const ChildCommand& command, int seconds);

}  // namespace headroom::check
