#include "cli/output.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/scalars.h"
#include "model_ir/base/file.h"

namespace headroom::cli {

OptionSpec output_option() {
  return {.name = "output",
          .value = "FILE",
          .fallback = "standard output",
          .help = "file to write; it is written completely or not at all"};
}

std::optional<std::string> overwritten_input(const Arguments& arguments, const std::string& path) {
  namespace fs = std::filesystem;
  const auto is_same = [&path](const std::string& given) {
    std::error_code ignored;
    return fs::is_regular_file(given, ignored) && fs::equivalent(given, path, ignored);
  };
  for (const std::string& given : arguments.positionals()) {
    for (const char* const inside : {"", "/config.json", "/model.safetensors.index.json"}) {
      if (is_same(given + inside)) {
        return given + inside;
      }
    }
  }
  for (const std::string& value : arguments.values_except("output")) {
    for (const std::string& part : split_at(value, ',')) {  // --gpu a.json,b.json
      if (is_same(part)) {
        return part;
      }
    }
    if (is_same(value)) {
      return value;
    }
  }
  return std::nullopt;
}

Status check_output(const Arguments& arguments) {
  const std::optional<std::string> path = arguments.value("output");
  const std::optional<std::string> input =
      path ? overwritten_input(arguments, *path) : std::optional<std::string>();
  if (input) {
    return Error::invalid_argument("output", "is the input " + *input, {},
                                   "choose another --output");
  }
  return path && *path != "-" ? check_writable(*path) : ok();
}

Result<ExitCode> put_out(const Arguments& arguments, const Context& context,
                         std::string_view content, ir::JsonFields summary, bool is_json) {
  const std::string path = arguments.value("output").value_or("-");
  if (path == "-") {
    if (context.json && !is_json) {
      return Error::invalid_argument("json",
                                     "needs --output FILE here: the document itself is not JSON",
                                     {}, "add --output FILE, or leave out --json");
    }
    context.out << content;
    return ExitCode::kYes;
  }
  if (Status written = write_file_atomically(path, content); !written) {
    return std::move(written).error();
  }
  if (context.json) {
    summary.add("notes", ir::json_texts(context.notes->lines));
    summary.add("output", path);
    summary.add("bytes", content.size());
    context.out << to_pretty_json(std::move(summary).finish()) << "\n";
  } else {
    context.err << "wrote " << path << " ("
                << to_text(Bytes{static_cast<std::int64_t>(content.size())}) << ")\n";
  }
  return ExitCode::kYes;
}

}  // namespace headroom::cli
