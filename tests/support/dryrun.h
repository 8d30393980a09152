#pragma once

#include <dlfcn.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv is POSIX's.
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/cli.h"
#include "tests/support/temporary_folder.h"

namespace headroom::test {

/// What one process of a training program reports: it holds 70 GB at most, in its first step.
inline constexpr std::string_view kDryReport = R"({"version": 1, "pid": 12, "argv": ["train.py"],
"rank": null, "world": null, "versions": {"python": "3.11.2", "torch": "2.11.0+cu130"},
"device": {"name": "NVIDIA H100 80GB HBM3", "bytes": 85017493504},
"phases": [
 {"name": "load", "step": 0, "allocated_before": 0, "allocated_after": 16000000000,
  "peak_allocated": 16000000000, "reserved_after": 16200000000, "peak_reserved": 16200000000,
  "requested_after": 16000000000, "peak_requested": 16000000000, "retries": 0, "seconds": 1.5,
  "work": {"kernels": 0}},
 {"name": "forward", "step": 1, "micro_batch": 1, "allocated_before": 16000000000,
  "allocated_after": 26000000000, "peak_allocated": 30000000000, "peak_reserved": 32000000000},
 {"name": "backward", "step": 1, "micro_batch": 1, "allocated_after": 32000000000,
  "peak_allocated": 35000000000, "peak_reserved": 36000000000},
 {"name": "optimizer", "step": 1, "allocated_after": 64000000000, "peak_allocated": 70000000000,
  "peak_reserved": 72000000000}],
"peak": {"phase": 3, "allocated": 70000000000, "reserved": 72000000000, "device": 72900000000,
 "live": [
  {"bytes": 32000000000, "count": 192, "frame": "adamw.py:31 _init", "category": "optimizer states"},
  {"bytes": 16000000000, "count": 291, "frame": "model.py:12 __init__", "category": "parameters"},
  {"bytes": 16000000000, "count": 291, "frame": "", "category": "gradients"},
  {"bytes": 6000000000, "count": 291, "frame": "adamw.py:400 step", "category": "other"}]},
"stopped": "steps",
"guesses": [{"what": "mask.all() is taken to be True", "times": 4, "where": "train.py:12"}],
"refused": [{"function": "cufftPlan1d", "times": 2}],
"host": {"rss_peak": 2000000000, "pinned_peak": 100000000}})";

/// The same program on a GPU on which its backward pass runs out of memory.
inline constexpr std::string_view kDryOomReport =
    R"({"version": 1, "pid": 12, "rank": 3, "world": 8,
"phases": [{"name": "load", "peak_allocated": 16000000000, "peak_reserved": 16200000000},
 {"name": "backward", "step": 1, "peak_allocated": 23000000000, "peak_reserved": 23500000000}],
"peak": {"phase": 1, "allocated": 23000000000, "reserved": 23500000000, "device": 24000000000,
 "live": []},
"oom": {"requested": 2147483648, "free": 1073741824, "capacity": 25000000000,
 "allocated": 22900000000, "reserved": 23400000000, "phase": "backward", "step": 1,
 "stack": ["train.py:31 loss", "train.py:40 main"],
 "live": [{"bytes": 16000000000, "count": 291, "frame": "model.py:12", "category": "parameters"}]},
"stopped": "exception",
"exception": {"type": "torch.OutOfMemoryError", "message": "CUDA out of memory", "where": "train.py:31"}})";

/// `text` with `from`, which must be in it, replaced once by `to`.
inline std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  const std::size_t at = result.find(from);
  if (at == std::string::npos) {
    throw InternalError("not in the text: " + std::string(from));
  }
  return result.replace(at, from.size(), to);
}

/// Files for dry runs of shell scripts that stand in for training programs. While it lives,
/// HEADROOM_DRYRUN_HOME names them, TMPDIR is a folder of the test, and both are put back.
class DryRunFolder {
 public:
  DryRunFolder() {
    folder_.write("home/python/sitecustomize.py", "");
    std::filesystem::create_directories(folder_.path("home/lib"));
    std::filesystem::create_directories(folder_.path("temporary"));
    // Loading the C library once more changes nothing.
    Dl_info library{};
    dladdr(reinterpret_cast<void*>(&::getpid), &library);
    std::filesystem::create_symlink(library.dli_fname, folder_.path("home/lib/libheadroom_gpu.so"));
    std::filesystem::create_symlink(library.dli_fname, folder_.path("home/lib/libcudart.so.12"));
    keep("HEADROOM_DRYRUN_HOME", folder_.path("home"));
    keep("TMPDIR", folder_.path("temporary"));
  }
  DryRunFolder(const DryRunFolder&) = delete;
  DryRunFolder& operator=(const DryRunFolder&) = delete;
  ~DryRunFolder() {
    for (const auto& [name, value] : kept_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }

  [[nodiscard]] std::string path(std::string_view below) const { return folder_.path(below); }
  std::string write(std::string_view below, std::string_view content) const {
    return folder_.write(below, content);
  }
  /// A script that can be started.
  std::string script(std::string_view below, std::string_view lines) const {
    const std::string path = folder_.write(below, "#!/bin/sh\n" + std::string(lines) + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  /// A script that writes `report` and then runs `lines`.
  std::string reporting(std::string_view report, std::string_view lines = "exit 0") const {
    folder_.write("report.json", report);
    return script("train.sh", "cp '" + folder_.path("report.json") +
                                  "' \"$HEADROOM_DRYRUN_DIR/0-$$.json\"\n" + std::string(lines));
  }
  /// Whether nothing is left of the folders for reports.
  [[nodiscard]] bool is_clean() const {
    return std::filesystem::is_empty(folder_.path("temporary"));
  }
  /// `headroom dryrun --gpu h100-80gb OPTIONS -- COMMAND`.
  static Answer run(const std::string& options, const std::vector<std::string>& command) {
    std::vector<std::string> line = words("dryrun --gpu h100-80gb " + options + " --");
    line.insert(line.end(), command.begin(), command.end());
    return headroom_with(line);
  }

 private:
  void keep(const char* name, const std::string& value) {
    const char* const before = getenv(name);
    kept_.emplace_back(name, before == nullptr ? std::nullopt : std::optional<std::string>(before));
    setenv(name, value.c_str(), 1);
  }

  TemporaryFolder folder_;
  std::vector<std::pair<std::string, std::optional<std::string>>> kept_;
};

}  // namespace headroom::test
