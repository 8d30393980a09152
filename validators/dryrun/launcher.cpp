#include "validators/dryrun/launcher.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "model_ir/base/check.h"
#include "model_ir/base/file.h"
#include "validators/dryrun/child_process.h"
#include "validators/dryrun/report_folder.h"

namespace headroom::check {
namespace {

/// `kMostProgramEvents` with their columns, as text.
constexpr std::int64_t kHistoryLimit = 512 * kMiB;

/// The files, where LD_PRELOAD and PYTHONPATH can name them.
DryRunFiles nameable(DryRunFiles files, const ReportFolder& folder) {
  const std::filesystem::path libraries =
      std::filesystem::path(files.libraries.front()).parent_path();
  const std::string plain = folder.plain_name(libraries.string(), "lib");
  for (std::string& library : files.libraries) {
    library = (std::filesystem::path(plain) / std::filesystem::path(library).filename()).string();
  }
  files.python = folder.plain_name(files.python, "python");
  return files;
}

/// An environment in which variables are replaced one by one.
class Environment {
 public:
  explicit Environment(std::span<const std::string> own) : lines_(own.begin(), own.end()) {}

  [[nodiscard]] std::string value(std::string_view name) const {
    const auto found =
        std::ranges::find_if(lines_, [name](const std::string& line) { return is_of(line, name); });
    return found == lines_.end() ? std::string() : found->substr(name.size() + 1);
  }
  void remove(std::string_view name) {
    std::erase_if(lines_, [name](const std::string& line) { return is_of(line, name); });
  }
  void set(std::string_view name, const std::string& value) {
    remove(name);
    lines_.push_back(std::string(name) + "=" + value);
  }
  void set(std::string_view name, std::int64_t value) { set(name, std::to_string(value)); }
  /// Puts `values` before what the variable holds, with colons between them.
  void put_before(std::string_view name, const std::vector<std::string>& values) {
    std::string all;
    for (const std::string& one : values) {
      all += (all.empty() ? "" : ":") + one;
    }
    const std::string before = value(name);
    set(name, before.empty() ? all : all + ":" + before);
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(lines_); }

 private:
  static bool is_of(const std::string& line, std::string_view name) {
    return line.size() > name.size() && line[name.size()] == '=' && line.starts_with(name);
  }
  std::vector<std::string> lines_;
};

/// Devices that a process sees: those of its node, as `set_device(local_rank)` needs them.
std::int64_t visible_devices(const DryRunRequest& request) {
  return std::min<std::int64_t>(request.world.ranks, request.device.per_node);
}

void set_device(const DryRunRequest& request, Environment& environment) {
  const DryRunDevice& device = request.device;
  environment.set("HEADROOM_GPU_BYTES", device.total.value());
  environment.set("HEADROOM_GPU_CONTEXT", device.outside.value());
  environment.set("HEADROOM_GPU_CC", device.capability);
  environment.set("HEADROOM_GPU_SMS", device.multiprocessors);
  environment.set("HEADROOM_GPU_NAME", device.product);
  environment.set("HEADROOM_GPU_COUNT", visible_devices(request));
  environment.set("HEADROOM_GPU_LAG", request.lag);
}

void set_world(const DryRunRequest& request, Environment& environment) {
  for (const char* const name :
       {"HEADROOM_DRYRUN_WORLD", "HEADROOM_DRYRUN_RANK", "HEADROOM_DRYRUN_PER_NODE"}) {
    environment.remove(name);
  }
  if (request.world.ranks > 1 && !request.world.real) {
    environment.set("HEADROOM_DRYRUN_WORLD", request.world.ranks);
    environment.set("HEADROOM_DRYRUN_RANK", request.world.rank);
    environment.set("HEADROOM_DRYRUN_PER_NODE", visible_devices(request));
  }
}

/// Reads the events that the binding process wrote beside its report.
void read_history(DryRunEnd& end) {
  const DryRunReport& report = end.reports[binding_report(end.reports)];
  if (report.oom) {
    end.unrecorded =
        "the program ran out of memory; record it with a --budget that is large enough, such as "
        "10TiB";
    return;
  }
  if (report.stopped != DryRunStop::kSteps && report.stopped != DryRunStop::kEnd) {
    end.unrecorded = "the program did not come to its end";
    return;
  }
  const std::string path =
      std::filesystem::path(report.file).replace_extension(".program").string();
  const Result<std::string> text = read_file(path, kHistoryLimit);
  Result<AllocatorHistory> history =
      text ? parse_history(*text, path, report.phases) : Result<AllocatorHistory>(text.error());
  if (history) {
    end.history = std::move(history).value();
  } else {
    const Error& error = history.error();
    end.unrecorded = error.file.empty() ? error.got : to_text(error);
  }
}

}  // namespace

RecordedProgram recorded_of(const DryRunRequest& request, const DryRunEnd& end) {
  HEADROOM_ASSERT(end.history.has_value());
  const DryRunReport& report = end.reports[binding_report(end.reports)];
  const DryRunDevice& device = request.device;
  Bytes reserved;
  for (const DryRunPhase& phase : report.phases) {
    reserved = std::max(reserved, phase.peak_reserved);
  }
  return {.command = request.command,
          .versions = report.versions,
          .device = {.name = device.name,
                     .product = device.product,
                     .total = device.total,
                     .outside = device.outside,
                     .multiprocessors = device.multiprocessors},
          .ranks = request.world.ranks,
          .rank = std::clamp<std::int64_t>(report.rank.value_or(request.world.rank), 0,
                                           request.world.ranks - 1),
          .other = std::max(report.peak.device - device.outside - reserved, Bytes{0}),
          .phases = report.phases,
          .history = *end.history};
}

std::string command_text(const std::vector<std::string>& command) {
  constexpr std::size_t kMost = 60;
  std::string text;
  for (const std::string& word : command) {
    text += text.empty() ? word.substr(word.rfind('/') + 1) : " " + word;
  }
  std::ranges::replace(text, '\n', ' ');
  return printable(text.size() > kMost ? text.substr(0, kMost) + "..." : text);
}

std::vector<std::string> dry_run_environment(const DryRunRequest& request, const DryRunFiles& files,
                                             const std::string& reports,
                                             std::span<const std::string> own) {
  Environment environment(own);
  environment.put_before("LD_PRELOAD", files.libraries);
  environment.put_before("PYTHONPATH", {files.python});
  environment.remove("CUDA_VISIBLE_DEVICES");  // The devices of the dry run are all visible.
  environment.set("HEADROOM_DRYRUN_DIR", reports);
  environment.set("HEADROOM_DRYRUN_STEPS", request.steps);
  environment.set("HEADROOM_DRYRUN_ROUTING", request.routing);
  environment.remove("HEADROOM_DRYRUN_RECORD");
  if (request.record) {
    environment.set("HEADROOM_DRYRUN_RECORD", 1);
  }
  environment.remove("HEADROOM_DRYRUN_SNAPSHOT");
  if (!request.snapshot.empty()) {
    environment.set("HEADROOM_DRYRUN_SNAPSHOT", request.snapshot);
  }
  set_world(request, environment);
  set_device(request, environment);
  // PyTorch prefers cuDNN's attention, which the stand-in does not have, to its own flash kernels;
  // its releases read one of two names.
  environment.set("TORCH_CUDNN_SDPA_PREFERRED", "0");
  environment.set("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1");
  // Triton links what it compiles against the driver's library.
  environment.set("TRITON_LIBCUDA_PATH",
                  std::filesystem::path(files.libraries.front()).parent_path().string());
  // A world of one process: nobody else hands out NCCL's ids, and nobody watches.
  environment.set("TORCH_NCCL_RANKS_PER_ROOT", 1'000'000);
  environment.set("TORCH_NCCL_ENABLE_MONITORING", "0");
  environment.set("TORCH_NCCL_DUMP_ON_TIMEOUT", "0");
  return environment.take();
}

Result<DryRunEnd> run_dry(const DryRunRequest& request, const DryRunFiles& files) {
  const ReportFolder folder;
  if (!folder.exists()) {
    return no_report_folder();
  }
  const Result<ChildEnd> ended =
      run_child({.command = request.command,
                 .environment = dry_run_environment(request, nameable(files, folder),
                                                    folder.reports(), own_environment()),
                 .output_to_error = request.output_to_error});
  if (!ended) {
    return ended.error();
  }
  Result<std::vector<DryRunReport>> reports = read_reports(folder.reports());
  if (!reports) {
    return std::move(reports).error();
  }
  DryRunEnd end{.exit_code = ended->exit_code,
                .signal = ended->signal,
                .interrupted = ended->interrupted,
                .told = ended->told,
                .seconds = ended->seconds,
                .reports = std::move(reports).value()};
  if (request.record && !end.reports.empty()) {
    read_history(end);
  }
  return end;
}

}  // namespace headroom::check
