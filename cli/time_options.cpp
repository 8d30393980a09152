#include "cli/time_options.h"

#include <utility>

#include "cli/model_argument.h"
#include "cli/plan_options.h"

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
  const Result<double> value = parse_real(option, *text, kLeast, most);
  if (!value) {
    return value.error();
  }
  return std::optional(*value);
}

}  // namespace

OptionSpec node_option() {
  return {"node", "NAME", "the GPU's own", "the node type, as headroom catalog nodes lists it"};
}

std::vector<OptionSpec> time_options() {
  return {node_option(),
          {"price", "DOLLARS", "", "what one GPU costs in an hour: adds tokens per dollar"},
          {"power", "WATTS", "", "what one GPU draws, with its share of the node"},
          {"tokens", "NUMBER", "", "tokens of the whole run, as 15e12: adds days and costs"}};
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
  const std::optional<std::string> node = arguments.value("node");
  Result<cost::Machine> machine = cost::load_machine(folder->path, device, node);
  if (machine) {
    request.machine = std::move(machine).value();
  } else if (node) {
    return std::move(machine).error();
  } else {
    request.missing = "got " + machine.error().got + ", expected " + machine.error().wanted;
  }
  return request;
}

}  // namespace headroom::cli
