#include "gui/whatif/plan_document.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include <QSaveFile>
#include <QStringList>

#include "model_ir/json/json_writer.h"
#include "runtimes/registry.h"
#include "runtimes/typed/allocator_options.h"
#include "runtimes/typed/plan_options.h"
#include "runtimes/typed/scalars.h"
#include "runtimes/typed/shell_words.h"

namespace headroom::gui {
namespace {

std::string whole_path(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::absolute(path, ignored);
  return ignored ? path : whole.lexically_normal().string();
}

std::string gpu_of(const Scenario& scenario) {
  return scenario.gpu.ends_with(".json") ? whole_path(scenario.gpu) : scenario.gpu;
}

std::string model_of(const Scenario& scenario) {
  return scenario.model.kind == ModelSource::Kind::kCatalogue ? scenario.model.text
                                                              : whole_path(scenario.model.text);
}

/// The options of the scenario besides model, GPU and plan, as the command line spells it.
std::vector<ir::Assumption> assumptions_of(const Scenario& scenario) {
  std::vector<ir::Assumption> all;
  const auto add = [&all](std::string_view option, std::string value) {
    all.push_back({.option = std::string(option), .value = std::move(value)});
  };
  if (scenario.budget > Bytes{0}) {
    add("budget", ir::exact_size(scenario.budget));
  }
  if (scenario.host.memory) {
    add("host-memory", ir::exact_size(*scenario.host.memory));
  }
  if (scenario.host.nvme) {
    add("nvme", ir::exact_size(*scenario.host.nvme));
  }
  if (scenario.host.nvme_rate) {
    constexpr double kGigabyte = 1e9;
    add("nvme-rate", ir::real_text(scenario.host.nvme_rate->value() / kGigabyte) + "GB/s");
  }
  if (scenario.host.node) {
    add("node", *scenario.host.node);
  }
  if (scenario.price) {
    add("price", ir::real_text(*scenario.price));
  }
  if (scenario.tokens) {
    add("tokens", ir::real_text(*scenario.tokens));
  }
  return all;
}

void add_option(QStringList& words, const std::string& name, const std::string& value) {
  words.append(QStringLiteral("--") + QString::fromStdString(name));
  if (!value.empty()) {
    words.append(QString::fromStdString(ir::shell_word(value)));
  }
}

QString program_command(const Scenario& scenario) {
  QStringList words = {QStringLiteral("headroom"), QStringLiteral("fit")};
  add_option(words, "program", model_of(scenario));
  add_option(words, "gpu", gpu_of(scenario));
  if (scenario.budget > Bytes{0}) {
    add_option(words, "budget", ir::exact_size(scenario.budget));
  }
  words.append(QStringLiteral("--alloc-conf"));  // Also if it is empty: the recording's may not be.
  words.append(QString::fromStdString(ir::shell_word(to_text(scenario.plan.allocator))));
  return words.join(QLatin1Char(' '));
}

}  // namespace

ir::PlanFile plan_file_of(const Scenario& scenario) {
  return {.model = model_of(scenario),
          .device = gpu_of(scenario),
          .assumptions = assumptions_of(scenario),
          .search = std::nullopt,
          .plan = scenario.plan};
}

Status write_plan_file(const QString& path, const Scenario& scenario) {
  if (is_program(scenario)) {
    return Error::invalid_argument("plan", "a recorded program", "a model with a plan",
                                   "open a model first; the program's own file keeps the program");
  }
  QSaveFile file(path);  // Writes the whole file or nothing.
  const std::string text = ir::to_json(ir::plan_file_to_json(plan_file_of(scenario))) + "\n";
  if (!file.open(QIODevice::WriteOnly) ||
      file.write(text.data(), static_cast<qint64>(text.size())) !=
          static_cast<qint64>(text.size()) ||
      !file.commit()) {
    return Error::environment(path.toStdString(), file.errorString().toStdString(),
                              "a file that can be written");
  }
  return ok();
}

QString fit_command(const Scenario& scenario, const ir::ModelSpec& model) {
  if (is_program(scenario)) {
    return program_command(scenario);
  }
  QStringList words = {QStringLiteral("headroom"), QStringLiteral("fit"),
                       QString::fromStdString(ir::shell_word(model_of(scenario)))};
  add_option(words, "gpu", gpu_of(scenario));
  for (const ir::OptionValue& option : ir::options_of(scenario.plan, model)) {
    add_option(words, option.name, option.value);
  }
  for (const ir::Assumption& assumption : assumptions_of(scenario)) {
    add_option(words, assumption.option, assumption.value);
  }
  return words.join(QLatin1Char(' '));
}

QString launch_text(const Scenario& scenario, const ir::ModelSpec& model,
                    std::int64_t gpus_per_node) {
  const ir::Launch launch = ir::runtime_of(scenario.plan)
                                .launch(model, scenario.plan,
                                        {.gpus_per_node = std::max<std::int64_t>(1, gpus_per_node),
                                         .model = model_of(scenario)});
  QStringList words;
  if (!(scenario.plan.allocator == ir::AllocatorSettings{})) {
    words.append(QStringLiteral("PYTORCH_ALLOC_CONF=") +
                 QString::fromStdString(to_text(scenario.plan.allocator)));
  }
  for (const std::string& word : launch.environment) {
    words.append(QString::fromStdString(word));
  }
  for (const std::string& word : launch.command) {
    words.append(QString::fromStdString(ir::shell_word_with_variables(word)));
  }
  QStringList lines = {words.join(QLatin1Char(' '))};
  for (const std::string& line : launch.code) {
    lines.append(QString::fromStdString(line));
  }
  return lines.join(QLatin1Char('\n'));
}

}  // namespace headroom::gui
