#include "cli/training_run.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "cli/model_argument.h"
#include "cli/scalars.h"
#include "costmodel/hardware/catalogue.h"
#include "model_ir/plan/plan_words.h"

namespace headroom::cli {
namespace {

constexpr double kLeast = 1e-9;
constexpr double kMostDollars = 1e6;
constexpr double kMostWatts = 1e5;
constexpr double kMostTokens = 1e18;

std::string names_of(std::span<const cost::DeviceSpec> devices) {
  std::string text;
  for (const cost::DeviceSpec& device : devices) {
    text += (text.empty() ? "" : ", ") + device.name;
  }
  return text;
}

/// The position of the device that `name` means.
Result<std::size_t> device_named(const Arguments& arguments, const std::string& option,
                                 const std::string& name,
                                 std::span<const cost::DeviceSpec> devices) {
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  const Result<cost::DeviceSpec> meant = cost::load_device(folder->path, name);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].name == name || (meant && meant->name == devices[i].name)) {
      return i;
    }
  }
  std::vector<std::string> known;
  for (const cost::DeviceSpec& device : devices) {
    known.push_back(device.name);
  }
  const std::string closest = ir::suggestion(name, known);
  return Error::invalid_argument(option, name, "a GPU of --gpu: " + names_of(devices),
                                 !closest.empty() ? closest
                                 : meant          ? "add it to --gpu, or leave it out here"
                                                  : "headroom catalog gpus lists the names");
}

}  // namespace

std::vector<OptionSpec> training_run_options() {
  return {{"tokens", "NUMBER", "",
           "tokens of the whole training run, such as 15T; adds days and costs to the answer"},
          {"within", "TIME", "",
           "time that the run of --tokens may take, such as 30d, 12h or 6w; slower plans are not "
           "proposed"},
          {"price", "DOLLARS", "",
           "price of one GPU per hour, or of each GPU type: a100-80gb=1.8,h100=2.5; adds costs to "
           "the answer"},
          {"power", "WATTS", "",
           "power of one GPU with its share of the node, or of each GPU type as in --price; adds "
           "the energy to the answer"}};
}

Result<std::vector<std::optional<double>>> read_by_device(
    const Arguments& arguments, const std::string& option, double most,
    std::span<const cost::DeviceSpec> devices) {
  std::vector<std::optional<double>> figures(devices.size());
  const std::optional<std::string> text = arguments.value(option);
  if (!text) {
    return figures;
  }
  const std::string form = names_of(devices.first(1)) + "=NUMBER";
  for (const std::string& part : split_at(*text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos && (devices.size() > 1 || part.size() < text->size())) {
      return Error::invalid_argument(option, *text, "NAME=NUMBER for each GPU type",
                                     "write " + form + ", ...");
    }
    std::size_t which = 0;
    if (equals != std::string::npos) {
      const std::string name = part.substr(0, equals);
      if (name.empty()) {
        return Error::invalid_argument(option, part, "the name of a GPU before =", "write " + form);
      }
      const Result<std::size_t> found = device_named(arguments, option, name, devices);
      if (!found) {
        return found.error();
      }
      which = *found;
    }
    const std::string number = equals == std::string::npos ? part : part.substr(equals + 1);
    if (number.empty()) {
      return Error::invalid_argument(option, part, "a number after the name", "write " + form);
    }
    const Result<double> value = ir::parse_quantity(option, number, kLeast, most);
    if (!value) {
      return value.error();
    }
    if (figures[which]) {
      return Error::invalid_argument(option, *text, "one number for " + devices[which].name);
    }
    figures[which] = *value;
  }
  return figures;
}

Result<Seconds> parse_duration(const std::string& option, const std::string& text,
                               const std::string& example) {
  constexpr double kMinute = 60;
  constexpr double kHour = 60 * kMinute;
  constexpr double kDay = 24 * kHour;
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {
      {{"min", kMinute}, {"s", 1}, {"h", kHour}, {"d", kDay}, {"w", 7 * kDay}}};
  constexpr double kMost = 1e6 * kDay;
  for (const auto& [unit, seconds] : kUnits) {
    if (!text.ends_with(unit)) {
      continue;
    }
    const std::string digits = text.substr(0, text.size() - unit.size());
    const Result<double> value = parse_real(option, digits, kLeast, kMost / seconds);
    if (value) {
      return Seconds{*value * seconds};
    }
  }
  return Error::invalid_argument(option, text,
                                 "a time with its unit (s, min, h, d or w), such as " + example,
                                 "write --" + option + " " + example);
}

double TrainingRun::basis() const {
  constexpr double kBillion = 1e9;
  return tokens.value_or(kBillion);
}

Result<TrainingRun> read_training_run(const Arguments& arguments,
                                      std::span<const cost::DeviceSpec> devices) {
  TrainingRun run;
  if (const std::optional<std::string> text = arguments.value("tokens")) {
    const Result<double> tokens = parse_quantity("tokens", *text, kLeast, kMostTokens);
    if (!tokens) {
      return tokens.error();
    }
    run.tokens = *tokens;
  }
  if (const std::optional<std::string> text = arguments.value("within")) {
    const Result<Seconds> within = parse_duration("within", *text);
    if (!within) {
      return within.error();
    }
    if (!run.tokens) {
      return Error::invalid_argument("within", *text, "--tokens beside it",
                                     "add the tokens of the run, such as --tokens 1T");
    }
    run.within = *within;
    run.within_text = *text;
  }
  const auto prices = read_by_device(arguments, "price", kMostDollars, devices);
  const auto powers = read_by_device(arguments, "power", kMostWatts, devices);
  if (!prices || !powers) {
    return prices ? powers.error() : prices.error();
  }
  run.rated_power = !arguments.has("power");
  run.asked = arguments.has("tokens") || arguments.has("price") || arguments.has("power");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const double rated = devices[i].power_watts;
    const bool known = run.rated_power && rated > 0;
    run.costs.push_back({.dollars_per_gpu_hour = (*prices)[i],
                         .watts_per_gpu = known ? std::optional(rated) : (*powers)[i],
                         .tokens = run.basis()});
  }
  return run;
}

}  // namespace headroom::cli
