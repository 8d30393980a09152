#include "gui/whatif/open_file.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <QCoreApplication>
#include <QFileInfo>

#include "costmodel/hardware/catalogue.h"
#include "gui/whatif/estimator.h"
#include "gui/whatif/plan_scenario.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "runtimes/plan_file.h"
#include "runtimes/registry.h"
#include "validators/dryrun/program_question.h"

namespace headroom::gui {
namespace {

QString open_words(const char* text) {
  return QCoreApplication::translate("OpenFile", text);
}

QString name_of(const std::string& path) {
  return QFileInfo(QString::fromStdString(path)).fileName();
}

Opened opened_model(const std::string& config_dir, const std::string& path, Scenario scenario) {
  scenario.model = model_source(path);
  return {.scenario = with_possible_sequence(config_dir, std::move(scenario)),
          .edit = {.field = Field::kModel, .text = name_of(path)}};
}

/// The program on the GPU, with the memory and the settings of its recording.
Result<Opened> opened_program(const std::string& config_dir, const std::string& path,
                              Scenario scenario) {
  const Result<check::RecordedProgram> recorded = check::read_recorded_program(path);
  if (!recorded) {
    return recorded.error();
  }
  const Result<ir::AllocatorSettings> settings = check::recorded_settings(*recorded, path);
  if (!settings) {
    return settings.error();
  }
  const Result<cost::DeviceSpec> device = cost::load_device(config_dir, recorded->device.name);
  if (!device) {
    Error error = device.error();
    return std::move(error).with_note("the program was recorded for this GPU");
  }
  scenario.model = {.kind = ModelSource::Kind::kProgram, .text = path};
  scenario.gpu = device->name;
  scenario.budget = recorded->device.total == device->total ? Bytes{0} : recorded->device.total;
  scenario.plan.allocator = *settings;
  scenario.plan.allocator.segments = ir::AllocatorSettings{}.segments;
  return Opened{.scenario = std::move(scenario),
                .edit = {.field = Field::kEverything, .text = name_of(path)}};
}

Result<Opened> opened_plan(const std::string& config_dir, const std::string& path,
                           const Scenario& scenario) {
  Result<PlanScenario> plan = read_plan_scenario(config_dir, path, scenario);
  if (!plan) {
    return std::move(plan).error();
  }
  Opened opened{.scenario = std::move(plan->scenario),
                .edit = {.field = Field::kEverything, .text = name_of(path)}};
  QStringList names;
  for (const ir::Assumption& assumption : plan->left_out) {
    names.append(QString::fromStdString(assumption.option + " " + assumption.value).trimmed());
  }
  if (!names.isEmpty()) {
    opened.notes.append(open_words("The window does not take into account what %1 says of %2; "
                                   "headroom fit --plan %1 does.")
                            .arg(QString::fromStdString(path), names.join(QStringLiteral(", "))));
  }
  return opened;
}

/// The configuration file of a framework. Of several formats, the first that reads it counts; if
/// none does, the error of the present framework's own format, or else of the first.
Result<Opened> opened_configuration(const std::string& config_dir, const std::string& path,
                                    const Scenario& scenario) {
  const Result<ir::ModelSpec> model = load_source(config_dir, scenario.model);
  if (!model) {
    return model.error();
  }
  std::optional<Error> fault;
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    const std::string name(runtime->name());
    for (const ir::ConfigurationFormat& format : runtime->configuration_formats()) {
      if (format.option.empty()) {
        continue;
      }
      Scenario moved = scenario.plan.runtime == name ? scenario : moved_to(scenario, name);
      Result<ir::ConfigurationReading> reading =
          runtime->read_configuration(path, *model, moved.plan, format.name);
      if (!reading) {
        if (!fault || scenario.plan.runtime == name) {
          fault = std::move(reading).error();
        }
        continue;
      }
      moved.plan = std::move(reading->plan);
      Opened opened{.scenario = std::move(moved),
                    .edit = {.field = Field::kPlan, .text = name_of(path)}};
      for (const std::string& note : reading->notes) {
        opened.notes.append(QString::fromStdString(note));
      }
      return opened;
    }
  }
  return fault ? *fault
               : Error::invalid_input(path, "", "an unknown format",
                                      "a model, a plan, a recorded program or the configuration "
                                      "of a framework");
}

/// Whether JSON looks like the configuration of a model, or is a model recording.
bool is_model(const ir::JsonValue& document) {
  return document.find("headroom_recording") != nullptr || document.find("model_type") != nullptr ||
         document.find("architectures") != nullptr || document.find("hidden_size") != nullptr ||
         document.find("n_embd") != nullptr;
}

}  // namespace

Result<Opened> open_file(const std::string& config_dir, const std::string& path,
                         const Scenario& scenario) {
  std::error_code fault;
  const bool folder = std::filesystem::is_directory(path, fault);
  if (folder || path.ends_with(".gguf") || path.ends_with(".safetensors") ||
      path.ends_with(".safetensors.index.json")) {
    return opened_model(config_dir, path, scenario);
  }
  if (is_program_file(path)) {
    return opened_program(config_dir, path, scenario);
  }
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  if (ir::is_plan_file(*text)) {
    return opened_plan(config_dir, path, scenario);
  }
  if (const Result<ir::JsonValue> document = ir::parse_json(*text, path);
      document && is_model(*document)) {
    return opened_model(config_dir, path, scenario);
  }
  return opened_configuration(config_dir, path, scenario);
}

}  // namespace headroom::gui
