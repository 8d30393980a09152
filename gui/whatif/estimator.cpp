#include "gui/whatif/estimator.h"

#include <optional>
#include <string>
#include <utility>

#include "costmodel/confidence.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/host.h"
#include "costmodel/time/machine.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/model_catalogue.h"
#include "model_ir/spec/weights/gguf.h"
#include "model_ir/spec/weights/gguf_model.h"

namespace headroom::gui {
namespace {

Result<ir::ModelSpec> read_gguf_model(const std::string& path) {
  const Result<ir::GgufFile> file = ir::read_gguf(path);
  if (!file) {
    return file.error();
  }
  return ir::model_of_gguf(*file);
}

Result<Appraisal> answer(const std::string& config_dir, const Scenario& scenario,
                         const std::stop_token& stop) {
  Result<ir::ModelSpec> model = load_source(config_dir, scenario.model);
  if (!model) {
    return std::move(model).error();
  }
  Result<cost::DeviceSpec> device = cost::load_device(config_dir, scenario.gpu);
  if (!device) {
    return std::move(device).error();
  }
  device = cost::in_host(config_dir, std::move(device).value(), scenario.host);
  if (!device) {
    return std::move(device).error();
  }
  if (stop.stop_requested()) {
    return Error::invalid_argument("scenario", "a newer one", "the newest");
  }
  // A device without performance data gets a verdict without a time.
  std::optional<std::string> node = scenario.host.node;
  if (node) {
    node = cost::node_named(config_dir, *node);
  }
  Result<cost::Machine> machine = cost::load_machine(config_dir, *device, node);
  Result<cost::StepEstimate> found = cost::estimate(*model, scenario.plan, *device, scenario.budget,
                                                    machine ? &*machine : nullptr);
  if (!found) {
    return std::move(found).error();
  }
  Appraisal appraisal{.estimate = std::move(found).value()};
  const Result<std::vector<cost::ResidualSet>> residuals =
      cost::read_residuals(config_dir + "/accuracy/residuals.json");
  if (residuals) {  // Without errors of measured runs, the replay's verdict stays.
    appraisal.confidence = cost::confidence_of(appraisal.estimate, scenario.plan, *residuals);
    cost::settle_verdict(appraisal.estimate, *appraisal.confidence);
  }
  appraisal.grounds = std::make_shared<const Grounds>(
      Grounds{.model = std::move(model).value(),
              .device = std::move(device).value(),
              .machine = machine ? std::optional(std::move(machine).value()) : std::nullopt});
  return appraisal;
}

}  // namespace

Result<ir::ModelSpec> load_source(const std::string& config_dir, const ModelSource& source) {
  switch (source.kind) {
    case ModelSource::Kind::kCatalogue:
      return ir::load_model(config_dir + "/models", source.text);
    case ModelSource::Kind::kFile:
      return source.text.ends_with(".gguf") ? read_gguf_model(source.text)
                                            : ir::read_hf_config(source.text);
  }
  return Error::invalid_argument("model", source.text, "a name or a path");
}

Estimator make_estimator(std::string config_dir) {
  return
      [config_dir = std::move(config_dir)](const Scenario& scenario, const std::stop_token& stop) {
        return answer(config_dir, scenario, stop);
      };
}

}  // namespace headroom::gui
