#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/memory/timeline.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/rank_program.h"
#include "validators/measured/row.h"
#include "validators/measured/row_plan.h"

namespace headroom::check {

/// The predictions for one phase. A metric that is not modelled is absent.
struct PredictedPhase {
  ir::PhaseName name;
  std::vector<MetricValue> values;

  [[nodiscard]] std::optional<double> find(Metric metric) const;
};

/// The predictions for one run.
struct Prediction {
  bool fits = true;
  std::vector<PredictedPhase> phases;
};

/// Predicts a run, or returns why that is impossible.
using Predictor = std::function<Result<Prediction>(const ir::RunSetting&)>;

/// Makes the program of one rank for a setting: `ir::lower` in Headroom, a stand-in in tests.
using Lowering = std::function<Result<ir::RankProgram>(const ir::RunSetting&)>;

/// The predictor that lowers a setting and replays the program with the setting's capacity.
///
/// Ignores: `peak_active` of runs whose frees wait for another stream. Without such frees, active
/// bytes equal allocated bytes (pytorch c10/cuda/CUDACachingAllocator.cpp, stats.active_bytes).
[[nodiscard]] Predictor replay_predictor(Lowering lower);

/// A replayed program in the form in which it is compared. `counted`: what the run's harness
/// counted.
[[nodiscard]] Prediction prediction_of(const ir::RankProgram& program,
                                       const cost::MemoryTimeline& timeline,
                                       const ir::CountedWork& counted = {});

}  // namespace headroom::check
