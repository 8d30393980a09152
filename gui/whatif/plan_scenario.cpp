#include "gui/whatif/plan_scenario.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "costmodel/hardware/bandwidth.h"
#include "gui/whatif/estimator.h"
#include "model_ir/base/file.h"
#include "runtimes/typed/filed_plan.h"
#include "runtimes/typed/plan_options.h"
#include "runtimes/typed/scalars.h"

namespace headroom::gui {
namespace {

/// Takes an assumption into the scenario. False if the window has no place for it.
///
/// Errors:  kInvalidInput.
Result<bool> take(const std::string& path, const ir::Assumption& assumption, Scenario& scenario) {
  const auto wrong = [&](const char* wanted) {
    return Error::invalid_input(path, "/assumptions/" + assumption.option, assumption.value,
                                wanted);
  };
  if (assumption.option == "node") {
    scenario.host.node = assumption.value;
    return true;
  }
  if (assumption.option == "nvme-rate") {
    scenario.host.nvme_rate = cost::parse_bandwidth(assumption.value);
    return scenario.host.nvme_rate ? Result<bool>(true)
                                   : wrong("a rate above zero, such as 12GB/s");
  }
  if (assumption.option == "price" || assumption.option == "tokens") {
    constexpr double kLeast = 1e-9;
    constexpr double kMost = 1e18;
    const Result<double> number =
        ir::parse_quantity(assumption.option, assumption.value, kLeast, kMost);
    if (!number) {
      return wrong("a number above zero, such as 2.5 or 15T");
    }
    (assumption.option == "price" ? scenario.price : scenario.tokens) = *number;
    return true;
  }
  const bool is_budget = assumption.option == "budget";
  const bool is_memory = assumption.option == "host-memory";
  if (!is_budget && !is_memory && assumption.option != "nvme") {
    return false;
  }
  const std::optional<Bytes> size = parse_bytes(assumption.value);
  const bool bare = assumption.value.find_first_not_of("0123456789.") == std::string::npos;
  if (!size || *size == Bytes{0} || bare) {
    return wrong("a size with its unit, such as 70GiB or 80GB");
  }
  if (is_budget) {
    scenario.budget = *size;
  } else {
    (is_memory ? scenario.host.memory : scenario.host.nvme) = size;
  }
  return true;
}

}  // namespace

Scenario with_possible_sequence(const std::string& config_dir, Scenario scenario) {
  const auto model = load_source(config_dir, scenario.model);
  if (model && model->max_positions > 0) {
    scenario.plan.workload.sequence =
        std::min(scenario.plan.workload.sequence, model->max_positions);
  }
  return scenario;
}

Result<PlanScenario> read_plan_scenario(const std::string& config_dir, const std::string& path,
                                        const Scenario& usual) {
  const std::string name = path == "-" ? "standard input" : path;
  const Result<std::string> text = read_file(path == "-" ? "/dev/stdin" : path);
  if (!text) {
    return text.error();
  }
  const Result<ir::PlanFile> named = ir::parse_plan_file(*text, name);
  if (!named) {
    return named.error();
  }
  PlanScenario read{.scenario = usual, .left_out = {}};
  Scenario& scenario = read.scenario;
  scenario.budget = Bytes{0};
  scenario.host = {};
  if (!named->model.empty()) {
    scenario.model = model_source(named->model);
  }
  // Settings that the file leaves out are those of the command line, whatever the window shows now.
  const Result<ir::ModelSpec> model = load_source(config_dir, scenario.model);
  Result<ir::PlanFile> file =
      ir::parse_plan_file(*text, name, ir::usual_plan(model ? *model : ir::ModelSpec{}));
  if (!file) {
    return std::move(file).error();
  }
  scenario.plan = std::move(file->plan);
  ir::settle_filed(scenario.plan);
  if (!file->device.empty()) {
    scenario.gpu = file->device;
  }
  for (const ir::Assumption& assumption : file->assumptions) {
    const Result<bool> taken = take(name, assumption, scenario);
    if (!taken) {
      return taken.error();
    }
    if (!*taken) {
      read.left_out.push_back(assumption);
    }
  }
  return read;
}

}  // namespace headroom::gui
