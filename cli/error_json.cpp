#include "cli/error_json.h"

#include <cctype>
#include <utility>

#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kInvalidInput:
      return "invalid_input";
    case ErrorCode::kEnvironment:
      return "environment";
  }
  return "?";
}

}  // namespace

std::string shown_key(const std::string& key) {
  if (key == "model") {
    return "MODEL";
  }
  const bool bare = key.empty() || key[0] == '-' || std::isupper(key[0]) != 0;
  return bare ? key : "--" + key;
}

std::string error_json(const Error& error, const std::vector<std::string>& notes) {
  ir::JsonFields fault;
  Error shown = error;
  shown.key = shown_key(error.key);
  fault.add("message", to_text(shown).substr(sizeof("error: ") - 1));
  fault.add("code", name_of(error.code));
  fault.add("exit_code", static_cast<int>(exit_code_of(error.code)));
  fault.add("file", printable(error.file));
  fault.add("pointer", printable(error.pointer));
  fault.add("key", printable(shown.key));
  fault.add("got", printable(error.got));
  fault.add("wanted", printable(error.wanted));
  fault.add("fix", printable(error.fix));
  fault.add("notes", ir::json_texts(error.notes));
  ir::JsonFields document;
  document.add("schema_version", 1);
  document.add("error", std::move(fault));
  document.add("notes", ir::json_texts(notes));

  return to_pretty_json(std::move(document).finish()) + "\n";
}

std::string failure_json(ExitCode code, std::string_view message, std::string_view fix) {
  ir::JsonFields fault;
  fault.add("message", message);
  fault.add("code", code == ExitCode::kBug ? "bug" : "environment");
  fault.add("exit_code", static_cast<int>(code));
  fault.add("fix", fix);
  ir::JsonFields document;
  document.add("schema_version", 1);
  document.add("error", std::move(fault));
  return to_pretty_json(std::move(document).finish()) + "\n";
}

std::string error_text(const Error& error) {
  Error shown = error;
  shown.key = shown_key(error.key);
  return to_text(shown) + "\n";
}

}  // namespace headroom::cli
