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

/// The key as the user types it. Lower layers name options without dashes; MODEL and the like are
/// not options.
std::string shown_key(const std::string& key) {
  if (key == "model") {
    return "MODEL";
  }
  const bool bare = key.empty() || key[0] == '-' || std::isupper(key[0]) != 0;
  return bare ? key : "--" + key;
}

}  // namespace

std::string error_json(const Error& error) {
  ir::JsonFields fault;
  Error shown = error;
  shown.key = shown_key(error.key);
  fault.add("message", to_text(shown).substr(sizeof("error: ") - 1));
  fault.add("code", name_of(error.code));
  fault.add("exit_code", static_cast<int>(exit_code_of(error.code)));
  fault.add("file", error.file);
  fault.add("pointer", error.pointer);
  fault.add("key", shown_key(error.key));
  fault.add("got", error.got);
  fault.add("wanted", error.wanted);
  fault.add("fix", error.fix);
  fault.add("notes", ir::json_texts(error.notes));
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
