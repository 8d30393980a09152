#pragma once

#include <ostream>

#include "cli/arguments.h"
#include "cli/exit_code.h"
#include "cli/terminal.h"
#include "model_ir/base/result.h"

namespace headroom::cli {

/// Where a command writes. A command builds its whole answer before it writes any of it, so that a
/// failure leaves standard output empty.
struct Context {
  std::ostream& out;
  std::ostream& err;
  Terminal terminal;
  bool json = false;
};

/// A verb and what carries it out.
struct Command {
  VerbSpec verb;
  Result<ExitCode> (*run)(const Arguments& arguments, const Context& context);
};

}  // namespace headroom::cli
