#include "cli/output.h"

#include <utility>

#include "model_ir/base/file.h"

namespace headroom::cli {

OptionSpec output_option() {
  return {.name = "output",
          .value = "FILE",
          .fallback = "standard output",
          .help = "file to write, whole or not at all"};
}

Result<ExitCode> put_out(const Arguments& arguments, const Context& context,
                         std::string_view content, ir::JsonFields summary, bool is_json) {
  const std::string path = arguments.value("output").value_or("-");
  if (path == "-") {
    if (context.json && !is_json) {
      return Error::invalid_argument("json", "without --output", "a file for what is not JSON",
                                     "add --output FILE");
    }
    context.out << content;
    return ExitCode::kYes;
  }
  if (Status written = write_file_atomically(path, content); !written) {
    return std::move(written).error();
  }
  if (context.json) {
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
