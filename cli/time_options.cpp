#include "cli/time_options.h"

#include <array>
#include <utility>

#include "cli/model_argument.h"
#include "cli/scalars.h"
#include "costmodel/hardware/bandwidth.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/host.h"
#include "costmodel/hardware/topology.h"

namespace headroom::cli {
namespace {

constexpr double kMostDollars = 1e6;
constexpr double kMostWatts = 1e5;
constexpr double kMostTokens = 1e18;
constexpr double kLeast = 1e-9;

Result<std::optional<double>> positive(const Arguments& arguments, const char* option,
                                       double most) {
  const std::optional<std::string> text = arguments.value(option);
  if (!text) {
    return std::optional<double>{};
  }
  const Result<double> value = parse_quantity(option, *text, kLeast, most);
  if (!value) {
    return value.error();
  }
  return std::optional(*value);
}

}  // namespace

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
  if (!file) {
    return cost::load_machine(config_dir, device, asked_node(arguments, config_dir));
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
  return cost::load_machine(config_dir, device, asked_node(arguments, config_dir),
                            std::move(own).value());
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
  options.push_back(
      {"price", "DOLLARS", "", "price of one GPU per hour; adds tokens per dollar to the answer"});
  options.push_back({"power", "WATTS", "",
                     "power of one GPU with its share of the node; adds the energy to the answer"});
  options.push_back(
      {"tokens", "NUMBER", "",
       "tokens of the whole training run, such as 15T; adds days and costs to the answer"});
  return options;
}

Result<TimeRequest> read_time_options(const Arguments& arguments, const cost::DeviceSpec& device) {
  TimeRequest request;
  struct Figure {
    const char* option;
    double most;
    std::optional<double> cost::RunCosts::*value;
  };
  for (const Figure& figure : {Figure{"price", kMostDollars, &cost::RunCosts::dollars_per_gpu_hour},
                               Figure{"power", kMostWatts, &cost::RunCosts::watts_per_gpu},
                               Figure{"tokens", kMostTokens, &cost::RunCosts::tokens}}) {
    const Result<std::optional<double>> value = positive(arguments, figure.option, figure.most);
    if (!value) {
      return value.error();
    }
    request.costs.*figure.value = *value;
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
