#include "gui/models/stage_memory.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <QCoreApplication>

#include "runtimes/registry.h"

namespace headroom::gui {
namespace {

/// The highest peaks of a rank's run as one phase.
cost::PhaseMemory peaks_of(const cost::StepEstimate& estimate) {
  cost::PhaseMemory peaks;
  peaks.name = estimate.peak_phase;
  peaks.peak_allocated = estimate.peak_allocated;
  peaks.peak_reserved = estimate.peak_reserved;
  peaks.at_peak = estimate.peak_by_role;
  return peaks;
}

}  // namespace

bool has_stages(const Answer& answer) {
  const ir::ParallelPlan& plan = answer.scenario.plan;
  return answer.estimate != nullptr && answer.appraisal != nullptr &&
         answer.appraisal->grounds != nullptr && !is_program(answer.scenario) && !plan.rank &&
         ir::runtime_of(plan).pipeline(plan).stages > 1;
}

Result<std::shared_ptr<const StageMemory>> stage_memory(const Answer& answer,
                                                        const std::stop_token& stop) {
  const Grounds& grounds = *answer.appraisal->grounds;
  const ir::ParallelPlan& plan = answer.scenario.plan;
  cost::DeviceSpec device = grounds.device;
  device.total = answer.estimate->device_total;
  const ir::PipelineRuns pipeline = ir::runtime_of(plan).pipeline(plan);
  const auto asked = static_cast<std::int64_t>(answer.estimate->rank);
  const std::int64_t asked_stage = asked / pipeline.stage_stride % pipeline.stages;

  auto peaks = std::make_shared<cost::StepEstimate>();
  peaks->device_total = answer.estimate->device_total;
  peaks->capacity = answer.estimate->capacity;
  auto found = std::make_shared<StageMemory>();
  Bytes most;
  for (std::int64_t stage = 0; stage < pipeline.stages && !stop.stop_requested(); ++stage) {
    const std::int64_t rank = stage == asked_stage ? asked : stage * pipeline.stage_stride;
    if (stage == asked_stage) {
      peaks->timeline.phases.push_back(peaks_of(*answer.estimate));
    } else {
      Result<ir::RankProgram> program = cost::lower_replayed(
          grounds.model, plan, device, ir::Rank{static_cast<std::int32_t>(rank)});
      if (!program) {
        return std::move(program).error();
      }
      const cost::StepEstimate one = cost::judge(std::move(program).value(), plan.allocator,
                                                 device.total, answer.estimate->outside);
      peaks->timeline.phases.push_back(peaks_of(one));
    }
    found->names.append(QCoreApplication::translate("StageMemory", "stage %1, rank %2")
                            .arg(QString::number(stage), QString::number(rank)));
    if (const Bytes reserved = peaks->timeline.phases.back().peak_reserved; reserved > most) {
      most = reserved;
      peaks->timeline.peak_phase = peaks->timeline.phases.size() - 1;
    }
  }
  found->peaks = std::move(peaks);
  return std::shared_ptr<const StageMemory>(std::move(found));
}

}  // namespace headroom::gui
