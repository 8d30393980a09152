#include "validators/torch/harness_files.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

#include "model_ir/base/error.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"

namespace headroom::check {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPackage = "headroom_torch";
/// Each after those that it imports. The settings of the case come after the first, before the
/// others import torch.
constexpr std::array<std::string_view, 6> kModules = {"case",       "models", "parallel",
                                                      "optimizers", "phases", "training"};

/// A module without its first docstring and without the imports of other modules of the package.
std::string body_of(const std::string& text) {
  std::string body;
  std::istringstream lines(text);
  const std::string package = "from " + std::string(kPackage) + ".";
  bool in_docstring = text.starts_with("\"\"\"");
  bool first = true;
  for (std::string line; std::getline(lines, line); first = false) {
    if (in_docstring) {
      const std::size_t from = first ? 3 : 0;
      in_docstring = line.find("\"\"\"", from) == std::string::npos;
      continue;
    }
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    if (!std::string_view(line).substr(begin).starts_with(package)) {
      body += line + "\n";
    }
  }
  body.erase(0, std::min(body.find_first_not_of('\n'), body.size()));
  return body;
}

/// A text inside a docstring, where a backslash begins an escape and three quotes are the end.
std::string docstring_text(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    escaped += letter == '\\' || letter == '"' ? std::string{'\\', letter} : std::string{letter};
  }
  return escaped;
}

}  // namespace

std::vector<std::string> training_script_places() {
  const char* const home = std::getenv("HEADROOM_TORCH_HOME");  // NOLINT(concurrency-mt-unsafe)
  if (home != nullptr && *home != '\0') {
    return {fs::absolute(home).string()};
  }
  std::vector<std::string> places;
  std::error_code fault;
  const fs::path program = fs::read_symlink("/proc/self/exe", fault);
  if (!fault) {
    places.push_back(
        (program.parent_path().parent_path() / "share/headroom/torch/python").string());
  }
  places.emplace_back(HEADROOM_TORCH_SOURCE_FOLDER);
  return places;
}

Result<std::string> find_training_script(const std::vector<std::string>& places) {
  std::string tried;
  for (const std::string& place : places) {
    std::error_code fault;
    if (fs::exists(fs::path(place) / "train.py", fault)) {
      return place;
    }
    tried += (tried.empty() ? "" : ", ") + place;
  }
  return Error::environment(tried, "without the training script train.py", {},
                            "build or install headroom as a whole (./run build), or name its "
                            "folder in HEADROOM_TORCH_HOME");
}

Result<std::string> whole_script(const std::string& folder, const ir::JsonValue& training_case,
                                 const std::string& title) {
  std::string script = "\"\"\"" + docstring_text(title) + "\"\"\"\n";
  for (const std::string_view module : kModules) {
    const fs::path path = fs::path(folder) / kPackage / (std::string(module) + ".py");
    const Result<std::string> text = read_file(path.string());
    if (!text) {
      return text.error();
    }
    script += "\n\n# --- " + std::string(module) + " ---\n\n" + body_of(*text);
    if (module == kModules.front()) {
      script += "\n\nimport json\n\nCASE = Case(json.loads(r\"\"\"\n" +
                to_pretty_json(training_case) +
                "\n\"\"\"))\nset_allocator(CASE)  # Before torch is imported.\n";
    }
  }
  return script + "\n\nif __name__ == \"__main__\":\n    main(CASE)\n";
}

}  // namespace headroom::check
