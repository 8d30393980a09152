#include "validators/dryrun/interpreter.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string_view>
#include <system_error>

#include "model_ir/json/json_value.h"
#include "validators/dryrun/child_process.h"

namespace headroom::check {
namespace {

/// `torch/version.py` says for what the wheel was built, and does not import the rest.
/// Source: pytorch 2.11, tools/generate_torch_version.py. libc10_cuda.so is linked to the CUDA
/// runtime (c10/cuda/CMakeLists.txt), so that its text has the name of a shared one.
constexpr const char* kQuestion = R"(
import importlib.util, json, os
found = importlib.util.find_spec("torch")
answer = {"version": "", "cuda": "", "hip": "", "shared": True}
if found is not None and found.origin:
    folder = os.path.dirname(found.origin)
    names = {}
    with open(os.path.join(folder, "version.py")) as file:
        exec(file.read(), names)
    answer["version"] = str(names.get("__version__") or "unknown")
    answer["cuda"] = str(names.get("cuda") or "")
    answer["hip"] = str(names.get("hip") or "")
    library = os.path.join(folder, "lib", "libc10_cuda.so")
    if os.path.exists(library):
        with open(library, "rb") as file:
            answer["shared"] = b"libcudart.so" in file.read()
print(json.dumps(answer))
)";

std::optional<std::filesystem::path> on_path(const std::string& program) {
  std::error_code fault;
  if (program.find('/') != std::string::npos) {
    return std::filesystem::exists(program, fault) ? std::optional<std::filesystem::path>(program)
                                                   : std::nullopt;
  }
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe)
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    const std::filesystem::path candidate =
        std::filesystem::path(folder.empty() ? "." : folder) / program;
    if (std::filesystem::is_regular_file(candidate, fault)) {
      return candidate;
    }
  }
  return std::nullopt;
}

bool is_python(std::string_view name) {
  name.remove_prefix(std::min(name.rfind('/') + 1, name.size()));
  return name.starts_with("python") &&
         name.find_first_not_of("0123456789.", std::strlen("python")) == std::string_view::npos;
}

/// The first line of a script without "#!"; empty if it is none.
std::string first_line_of(const std::filesystem::path& script) {
  std::ifstream file(script, std::ios::binary);
  std::array<char, 512> begin{};
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  const std::string_view text(begin.data(), static_cast<std::size_t>(file.gcount()));
  return text.starts_with("#!") ? std::string(text.substr(2, text.find('\n') - 2)) : std::string();
}

std::string text_of(const ir::JsonValue& object, std::string_view key) {
  const ir::JsonValue* const value = object.find(key);
  const std::string* const text = value == nullptr ? nullptr : value->as_string();
  return text == nullptr ? std::string() : *text;
}

/// "12" of "12.8".
std::string_view major_of(std::string_view version) {
  return version.substr(0, version.find('.'));
}

std::string_view signal_name(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? std::string_view("unknown") : std::string_view(name);
}

}  // namespace

std::optional<std::string> interpreter_of(const std::vector<std::string>& command) {
  if (command.empty()) {
    return std::nullopt;
  }
  if (is_python(command.front())) {
    return command.front();
  }
  const std::optional<std::filesystem::path> script = on_path(command.front());
  std::string line = script ? first_line_of(*script) : std::string();
  constexpr std::string_view kEnv = "/usr/bin/env ";
  if (line.starts_with(kEnv)) {
    line.erase(0, kEnv.size());
  }
  line.erase(std::min(line.find(' '), line.size()));
  return is_python(line) ? std::optional(line) : std::nullopt;
}

FoundTorch torch_of(const std::string& interpreter) {
  constexpr int kPatience = 30;  // Seconds; the answer takes a twentieth of one.
  const std::string answer = output_of({.command = {interpreter, "-c", kQuestion},
                                        .environment = own_environment(),
                                        .output_to_error = false},
                                       kPatience);
  const Result<ir::JsonValue> value = ir::parse_json(answer, interpreter);
  if (!value || value->as_object() == nullptr) {
    return {};
  }
  const ir::JsonValue* const shared = value->find("shared");
  return {.answered = true,
          .version = text_of(*value, "version"),
          .cuda = text_of(*value, "cuda"),
          .hip = text_of(*value, "hip"),
          .shared = shared == nullptr || shared->as_bool().value_or(true)};
}

Status check_interpreter(const std::vector<std::string>& command) {
  const std::optional<std::string> interpreter = interpreter_of(command);
  const FoundTorch torch = interpreter ? torch_of(*interpreter) : FoundTorch{};
  if (!torch.answered) {
    return ok();  // What it is shows when it runs.
  }
  const std::string wheel =
      "install a build for CUDA 12 or 13, which needs no GPU: pip install "
      "torch --index-url https://download.pytorch.org/whl/cu128";
  if (torch.version.empty()) {
    return Error::environment(*interpreter, "has no PyTorch", {},
                              "activate the environment of the program, or " + wheel);
  }
  const std::string found = "has PyTorch " + printable(torch.version);
  if (!torch.hip.empty()) {
    return Error::environment(*interpreter, found + ", a build for AMD's GPUs", {}, wheel);
  }
  if (torch.cuda.empty()) {
    return Error::environment(*interpreter, found + ", a build without CUDA", {}, wheel);
  }
  if (const std::string_view major = major_of(torch.cuda); major != "12" && major != "13") {
    return Error::environment(*interpreter, found + " for CUDA " + printable(torch.cuda), {},
                              wheel);
  }
  if (!torch.shared) {
    return Error::environment(
        *interpreter, found + ", which contains the CUDA runtime as a static library", {}, wheel);
  }
  return ok();
}

Error no_report(const std::vector<std::string>& command, const DryRunEnd& end) {
  const std::string name = command_text(command);
  for (const DryRunReport& report : end.reports) {
    if (report.exception) {
      const DryRunException& fault = *report.exception;
      return Error::invalid_input(
          name, {},
          "ended with " + printable(fault.type) +
              " before it allocated anything on the GPU: " + printable(fault.message),
          {}, fault.where.empty() ? "" : "look at " + printable(fault.where));
    }
  }
  if (end.signal != 0) {
    return Error::environment(
        name,
        "was ended by signal " + std::to_string(end.signal) + " (SIG" +
            std::string(signal_name(end.signal)) + ") before it reported anything",
        {}, "run it without headroom to see whether it crashes as well; if not, please report it");
  }
  if (end.exit_code != 0) {
    return Error::invalid_input(
        name, {},
        "ended with exit code " + std::to_string(end.exit_code) + " before it used the GPU", {},
        "its last lines on standard error say why; the program must run as far as its first "
        "tensor on the GPU");
  }
  return Error::invalid_input(
      name, {}, "ended without using a CUDA GPU", {},
      "start a Python program that places its model on \"cuda\"; torch.cuda.is_available() is True "
      "in a dry run");
}

}  // namespace headroom::check
