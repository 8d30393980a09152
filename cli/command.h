#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "cli/exit_code.h"
#include "cli/terminal.h"
#include "model_ir/base/result.h"

namespace headroom::cli {

/// What a command has to say besides its answer, in the order in which it was found.
struct Notes {
  std::vector<std::string> lines;
};

/// The streams of a command. A command builds its whole answer before it writes any of it, so that
/// standard output has no part of an answer if the command fails.
struct Context {
  std::ostream& out;
  std::ostream& err;
  Terminal terminal;
  bool json = false;
  Notes* notes = nullptr;  ///< `add_notes` fills it, for the document of --json.
};

/// Shows notes on standard error and keeps them for the document of --json.
void add_notes(const Context& context, const std::vector<std::string>& notes);

/// A verb and the function that runs it.
struct Command {
  VerbSpec verb;
  Result<ExitCode> (*run)(const Arguments& arguments, const Context& context);
  /// Options with any of which this command answers in place of the verb's usual one, and with
  /// options of its own; none: the usual one.
  std::vector<std::string_view> when{};
  /// This command also answers if the only positional is another word than this one; empty: never.
  std::string_view unless_word{};
};

}  // namespace headroom::cli
