#include "cli/output.h"

#include <utility>

#include "model_ir/base/file.h"

namespace headroom::cli {

OptionSpec output_option() {
  return {.name = "output",
          .value = "FILE",
          .fallback = "standard output",
          .help = "file to write; it is written completely or not at all"};
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
