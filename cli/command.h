#pragma once

#include <ostream>

#include "cli/arguments.h"
#include "cli/exit_code.h"
#include "cli/terminal.h"
#include "model_ir/base/result.h"

namespace headroom::cli {

/// The streams of a command. A command builds its whole answer before it writes any of it, so that
/// standard output stays empty if the command fails.
struct Context {
  std::ostream& out;
  std::ostream& err;
  Terminal terminal;
  bool json = false;
};

/// A verb and the function that runs it.
struct Command {
  VerbSpec verb;
  Result<ExitCode> (*run)(const Arguments& arguments, const Context& context);
};

}  // namespace headroom::cli
