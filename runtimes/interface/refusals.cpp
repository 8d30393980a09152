#include "runtimes/interface/refusals.h"

#include <string>

#include "model_ir/spec/task.h"

namespace headroom::ir {

Status refuse_version(const ParallelPlan& plan) {
  if (plan.runtime_version.empty()) {
    return ok();
  }
  return Error::invalid_argument("runtime-version", plan.runtime_version,
                                 "nothing: one version of this framework is modelled",
                                 "see docs/model-assumptions.md, and leave it out");
}

Status refuse_other_tasks(const ModelSpec& model, std::string_view runtime) {
  if (model.task == Task::kLanguage) {
    return ok();
  }
  return Error::invalid_argument("task", std::string(name_of(model.task)),
                                 "transformers' model code, under any runtime that trains it",
                                 "use another runtime than " + std::string(runtime));
}

}  // namespace headroom::ir
