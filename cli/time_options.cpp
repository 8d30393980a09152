#include "cli/time_options.h"

#include <array>
#include <utility>

#include "cli/model_argument.h"
#include "cli/training_run.h"
#include "costmodel/hardware/bandwidth.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/host.h"
#include "costmodel/hardware/topology.h"

namespace headroom::cli {

std::vector<OptionSpec> machine_options() {
  return {{"node", "NAME", "one of the catalogue with this GPU",
           "machine that holds the GPUs (headroom catalog nodes lists them)"},
          {"network", "RATE", "that of the node",
           "bandwidth of each GPU to other nodes in one direction, such as 400Gbit/s or 50GB/s"},
          {"performance", "FILE", "configs/performance",
           "JSON file with what this GPU achieves, measured on your own machine, in the form of "
           "configs/schema/performance.schema.json"}};
}

namespace {

/// --node; the name of the node if `headroom catalog nodes` prints this title.
std::optional<std::string> asked_node(const Arguments& arguments, const std::string& config_dir) {
  const std::optional<std::string> node = arguments.value("node");
  return node ? std::optional(cost::node_named(config_dir, *node)) : node;
}

Result<cost::Machine> load_with_performance(const Arguments& arguments,
                                            const std::string& config_dir,
                                            const cost::DeviceSpec& device) {
  const std::optional<std::string> file = arguments.value("performance");
  const std::optional<std::string> node = asked_node(arguments, config_dir);
  if (!file) {
    Result<cost::Machine> machine = cost::load_machine(config_dir, device, node);
    if (machine) {
      return machine;
    }
    // Accelerators of a family that nobody measured.
    Result<cost::DevicePerformance> estimate = cost::performance_from_datasheet(config_dir, device);
    return estimate ? cost::load_machine(config_dir, device, node, std::move(estimate).value())
                    : std::move(machine);
  }
  const Result<cost::LinkSpec> host_link = cost::load_link(config_dir, device.host_link);
  if (!host_link) {
    return host_link.error();
  }
  Result<cost::DevicePerformance> own = cost::read_performance(*file, device, *host_link);
  if (!own) {
    return std::move(own).error();
  }
  if (!own->note.empty()) {
    return Error::invalid_argument(
        "performance", *file + ": " + own->note, "measurements of " + device.name,
        "write this name as \"device\" into the file, if it is this GPU");
  }
  return cost::load_machine(config_dir, device, node, std::move(own).value());
}

}  // namespace

std::span<const std::string_view> options_of_device() {
  static constexpr std::array<std::string_view, 2> kOptions = {"node", "performance"};
  return kOptions;
}

Result<cost::Machine> load_asked_machine(const Arguments& arguments, const std::string& config_dir,
                                         const cost::DeviceSpec& device) {
  Result<cost::Machine> machine = load_with_performance(arguments, config_dir, device);
  const std::optional<std::string> network = arguments.value("network");
  if (!machine || !network) {
    return machine;
  }
  const std::optional<BytesPerSecond> rate = cost::parse_bandwidth(*network);
  if (!rate) {
    return Error::invalid_argument("network", *network,
                                   "a bandwidth with its unit, such as 400Gbit/s or 50GB/s",
                                   "write Gbit/s for bits or GB/s for bytes");
  }
  machine.value().topology.network = cost::network_at(*rate);
  return machine;
}

std::vector<OptionSpec> time_options() {
  std::vector<OptionSpec> options = machine_options();
  for (const OptionSpec& option : training_run_options()) {
    if (option.name != "within") {
      options.push_back(option);
    }
  }
  return options;
}

Result<TimeRequest> read_time_options(const Arguments& arguments, const cost::DeviceSpec& device) {
  TimeRequest request;
  const Result<TrainingRun> run = read_training_run(arguments, std::span(&device, 1));
  if (!run) {
    return run.error();
  }
  request.costs = run->costs.front();
  request.costs.tokens = run->tokens;
  if (run->rated_power) {
    request.costs.watts_per_gpu.reset();
  }
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  Result<cost::Machine> machine = load_asked_machine(arguments, folder->path, device);
  if (machine) {
    request.machine = std::move(machine).value();
  } else if (arguments.has("node") || arguments.has("network") || arguments.has("performance")) {
    return std::move(machine).error();
  } else {
    request.missing = "got " + machine.error().got + ", expected " + machine.error().wanted;
  }
  return request;
}

}  // namespace headroom::cli
