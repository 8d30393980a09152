#pragma once

#include <optional>
#include <string>

#include <string_view>

#include "cli/arguments.h"
#include "cli/command.h"
#include "model_ir/base/result.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {

/// The option `--output FILE`.
[[nodiscard]] OptionSpec output_option();

/// The input of the command line that the file at `path` is; nothing if it is none, or if there is
/// no such file.
[[nodiscard]] std::optional<std::string> overwritten_input(const Arguments& arguments,
                                                           const std::string& path);

/// Refuses a file of `--output` that is an input of the same command, or that cannot be written:
/// every verb is asked before it runs.
///
/// Errors:  kInvalidArgument; kEnvironment.
[[nodiscard]] Status check_output(const Arguments& arguments);

/// Writes a finished document to the file of `--output`, completely or not at all, or to standard
/// output.
///
/// Model:   with --json and --output, standard output receives `summary` with the path and its
///          bytes.
///          Without --output, `content` goes to standard output as it is.
/// Errors:  kEnvironment if the file cannot be written; kInvalidArgument for --json without
///          --output if `content` is not JSON itself (`is_json`).
[[nodiscard]] Result<ExitCode> put_out(const Arguments& arguments, const Context& context,
                                       std::string_view content, ir::JsonFields summary,
                                       bool is_json);

}  // namespace headroom::cli
