#pragma once

#include <string>

#include "model_ir/base/result.h"
#include "model_ir/json/json_value.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::check {

/// A model for the training script.
struct ScriptModel {
  const ir::ModelSpec& spec;
  std::string name;      ///< Name for people.
  ir::JsonValue config;  ///< Its config.json, as an object.
};

/// The training case of a plan: the document that `validators/torch/python` trains from
/// (headroom_torch/case.py describes it). Has every option of the plan, and under the name of each
/// configuration file that the framework reads its content.
///
/// Errors:  those of `ir::Runtime::emit`.
[[nodiscard]] Result<ir::JsonValue> training_case(const ScriptModel& model,
                                                  const ir::ParallelPlan& plan);

}  // namespace headroom::check
