#include "gui/whatif/estimator.h"

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "costmodel/confidence.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/host.h"
#include "costmodel/remedies.h"
#include "costmodel/time/machine.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/model_catalogue.h"
#include "model_ir/spec/weights/gguf.h"
#include "model_ir/spec/weights/gguf_model.h"
#include "runtimes/typed/allocator_options.h"
#include "validators/dryrun/program_choices.h"
#include "validators/dryrun/program_question.h"

namespace headroom::gui {
namespace {

using Written = std::filesystem::file_time_type;
using Residuals = std::shared_ptr<const std::vector<cost::ResidualSet>>;

Result<ir::ModelSpec> read_gguf_model(const std::string& path) {
  const Result<ir::GgufFile> file = ir::read_gguf_parts(path);
  if (!file) {
    return file.error();
  }
  return ir::model_of_gguf(*file);
}

/// The time at which the file was last written; nothing for a name of the catalogue, which does not
/// change.
std::optional<Written> written(const ModelSource& source) {
  std::error_code fault;
  const Written time = std::filesystem::last_write_time(source.text, fault);
  return source.kind != ModelSource::Kind::kCatalogue && !fault ? std::optional(time)
                                                                : std::nullopt;
}

/// The data that were read for a scenario, and the names that they were read for.
struct Read {
  ModelSource source;
  std::optional<Written> model_written;
  std::string gpu;
  cost::HostRequest host;
  std::shared_ptr<const Grounds> grounds;
};

/// The data that all answers share. Any number of threads may use it.
class Shelf {
 public:
  explicit Shelf(std::string config_dir) : config_dir_(std::move(config_dir)) {}

  Result<std::shared_ptr<const Grounds>> grounds_of(const Scenario& scenario) {
    const std::optional<Written> time = written(scenario.model);
    {
      const std::lock_guard lock(mutex_);
      const bool same = last_.grounds != nullptr && last_.source == scenario.model &&
                        last_.model_written == time && last_.gpu == scenario.gpu &&
                        last_.host == scenario.host;
      // A user's own GPU file may have changed, too.
      if (same && !scenario.gpu.ends_with(".json") &&
          !(scenario.model.kind != ModelSource::Kind::kCatalogue && !time)) {
        return last_.grounds;
      }
    }
    Result<std::shared_ptr<const Grounds>> read =
        is_program(scenario) ? read_program(scenario, time) : read_grounds(scenario);
    if (read) {
      const std::lock_guard lock(mutex_);
      last_ = {.source = scenario.model,
               .model_written = time,
               .gpu = scenario.gpu,
               .host = scenario.host,
               .grounds = *read};
    }
    return read;
  }

  /// Null if there are no errors of measured runs.
  Residuals residuals() {
    const std::lock_guard lock(mutex_);
    if (!residuals_read_) {
      residuals_read_ = true;
      Result<std::vector<cost::ResidualSet>> read =
          cost::read_residuals(config_dir_ + "/accuracy/residuals.json");
      if (read) {
        residuals_ =
            std::make_shared<const std::vector<cost::ResidualSet>>(std::move(read).value());
        judge_ = cost::judge_by(*residuals_);
      }
    }
    return residuals_;
  }

  cost::Judge judge() {
    static_cast<void>(residuals());
    const std::lock_guard lock(mutex_);
    return judge_;
  }

 private:
  Result<std::shared_ptr<const Grounds>> read_grounds(const Scenario& scenario) const {
    Result<ir::ModelSpec> model = load_source(config_dir_, scenario.model);
    if (!model) {
      return std::move(model).error();
    }
    Result<cost::DeviceSpec> device = cost::load_device(config_dir_, scenario.gpu);
    if (!device) {
      return std::move(device).error();
    }
    device = cost::in_host(config_dir_, std::move(device).value(), scenario.host);
    if (!device) {
      return std::move(device).error();
    }
    // A device without performance data gets a verdict without a time.
    std::optional<std::string> node = scenario.host.node;
    if (node) {
      node = cost::node_named(config_dir_, *node);
    }
    Result<cost::Machine> machine = cost::load_machine(config_dir_, *device, node);
    return std::make_shared<const Grounds>(
        Grounds{.model = std::move(model).value(),
                .device = std::move(device).value(),
                .machine = machine ? std::optional(std::move(machine).value()) : std::nullopt});
  }

  /// The program that was read last serves for another GPU, too.
  Result<std::shared_ptr<const Grounds>> read_program(const Scenario& scenario,
                                                      const std::optional<Written>& time) {
    std::shared_ptr<const check::RecordedProgram> program;
    {
      const std::lock_guard lock(mutex_);
      if (last_.grounds != nullptr && last_.source == scenario.model && time &&
          last_.model_written == time) {
        program = last_.grounds->program;
      }
    }
    if (program == nullptr) {
      Result<check::RecordedProgram> read = check::read_recorded_program(scenario.model.text);
      if (!read) {
        return std::move(read).error();
      }
      program = std::make_shared<const check::RecordedProgram>(std::move(read).value());
    }
    Result<cost::DeviceSpec> device = cost::load_device(config_dir_, scenario.gpu);
    if (!device) {
      return std::move(device).error();
    }
    if (Status usable = check::check_program_device(*device); !usable) {
      return std::move(usable).error();
    }
    return std::make_shared<const Grounds>(Grounds{.model = {},
                                                   .device = std::move(device).value(),
                                                   .machine = std::nullopt,
                                                   .program = std::move(program)});
  }

  std::string config_dir_;
  std::mutex mutex_;
  Read last_;
  bool residuals_read_ = false;
  Residuals residuals_;
  cost::Judge judge_;
};

const cost::Machine* machine_of(const Grounds& grounds) {
  return grounds.machine ? &*grounds.machine : nullptr;
}

Error superseded() {
  return Error::invalid_argument("scenario", "a newer one", "the newest");
}

Bytes total_of(const Scenario& scenario, const Grounds& grounds) {
  return scenario.budget > Bytes{0} ? scenario.budget : grounds.device.total;
}

/// The answer of `headroom fit --program`.
Appraisal judged_program(const Scenario& scenario, std::shared_ptr<const Grounds> grounds) {
  Appraisal appraisal;
  appraisal.estimate = check::judge_program(*grounds->program, replayed_settings(scenario),
                                            grounds->device, total_of(scenario, *grounds));
  appraisal.grounds = std::move(grounds);
  return appraisal;
}

/// The settings of the allocator under which a recorded program reserves less, the best first.
cost::Remedies program_remedies(const Scenario& scenario, const Grounds& grounds,
                                const cost::StepEstimate& found) {
  const check::ProgramQuestion question{.file = scenario.model.text,
                                        .recorded = *grounds.program,
                                        .device = grounds.device,
                                        .total = total_of(scenario, grounds),
                                        .budget = scenario.budget > Bytes{0},
                                        .settings = replayed_settings(scenario),
                                        .as_recorded = false};
  cost::Remedies remedies;
  for (const check::SettingsChoice& choice : check::try_settings(question, found)) {
    const Result<ir::AllocatorSettings> settings = ir::parse_allocator_settings(choice.conf, {});
    if (!settings || (choice.saved <= Bytes{0} && choice.verdict >= found.verdict)) {
      continue;
    }
    cost::Remedy remedy;
    remedy.plan = scenario.plan;
    remedy.plan.allocator = *settings;
    remedy.verdict = choice.verdict;
    remedy.peak_allocated = found.peak_allocated;
    remedy.peak_reserved = choice.peak_reserved;
    remedy.margin = choice.margin;
    remedy.saved = choice.saved;
    remedies.cheapest.push_back(std::move(remedy));
  }
  return remedies;
}

/// The answer with the verdict that follows from the chance to fit. Without errors of measured
/// runs, the replay's verdict stays.
Appraisal judged(Shelf& shelf, const Scenario& scenario, cost::StepEstimate estimate,
                 std::shared_ptr<const Grounds> grounds) {
  Appraisal appraisal;
  appraisal.estimate = std::move(estimate);
  appraisal.grounds = std::move(grounds);
  if (const Residuals residuals = shelf.residuals()) {
    appraisal.confidence = cost::confidence_of(appraisal.estimate, scenario.plan, *residuals);
    cost::settle_verdict(appraisal.estimate, *appraisal.confidence);
  }
  return appraisal;
}

Result<Appraisal> replayed(Shelf& shelf, const Scenario& scenario, const std::stop_token& stop) {
  const Result<std::shared_ptr<const Grounds>> grounds = shelf.grounds_of(scenario);
  if (!grounds) {
    return grounds.error();
  }
  if (stop.stop_requested()) {
    return superseded();
  }
  const Grounds& read = **grounds;
  if (read.program != nullptr) {
    return judged_program(scenario, *grounds);
  }
  Result<cost::StepEstimate> found =
      cost::estimate(read.model, scenario.plan, read.device, scenario.budget, machine_of(read));
  if (!found) {
    return std::move(found).error();
  }
  return judged(shelf, scenario, std::move(found).value(), *grounds);
}

Result<Appraisal> mended(Shelf& shelf, const Scenario& scenario, const std::stop_token& stop) {
  const Result<Appraisal> found = replayed(shelf, scenario, stop);
  if (!found) {
    return found.error();
  }
  Appraisal appraisal;
  appraisal.grounds = found->grounds;
  if (appraisal.grounds->program != nullptr) {
    appraisal.remedies = program_remedies(scenario, *appraisal.grounds, found->estimate);
    return appraisal;
  }
  const cost::RemedyQuestion question{.model = found->grounds->model,
                                      .plan = scenario.plan,
                                      .device = found->grounds->device,
                                      .budget = scenario.budget,
                                      .tree = cost::TreeWalk::kNone,
                                      .machine = machine_of(*found->grounds),
                                      .judge = shelf.judge(),
                                      .stop = stop};
  appraisal.remedies = cost::find_remedies(question, found->estimate);
  return stop.stop_requested() ? Result<Appraisal>(superseded())
                               : Result<Appraisal>(std::move(appraisal));
}

}  // namespace

Result<ir::ModelSpec> load_source(const std::string& config_dir, const ModelSource& source) {
  switch (source.kind) {
    case ModelSource::Kind::kCatalogue:
      return ir::load_model(config_dir + "/models", source.text);
    case ModelSource::Kind::kFile:
      return source.text.ends_with(".gguf") ? read_gguf_model(source.text)
                                            : ir::read_hf_config(source.text);
    case ModelSource::Kind::kProgram:
      return Error::invalid_argument("model", "a recorded program",
                                     "a model: a recorded program has neither layers nor a plan");
  }
  return Error::invalid_argument("model", source.text, "a name or a path");
}

Engine make_engine(std::string config_dir) {
  const auto shelf = std::make_shared<Shelf>(std::move(config_dir));
  return {
      .estimate = [shelf](const Scenario& scenario,
                          const std::stop_token& stop) { return replayed(*shelf, scenario, stop); },
      .remedies = [shelf](const Scenario& scenario,
                          const std::stop_token& stop) { return mended(*shelf, scenario, stop); }};
}

Estimator make_estimator(std::string config_dir) {
  return make_engine(std::move(config_dir)).estimate;
}

}  // namespace headroom::gui
