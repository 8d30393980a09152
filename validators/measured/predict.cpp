#include "validators/measured/predict.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace headroom::check {
namespace {

double exact(Bytes bytes) {
  return static_cast<double>(bytes.value());
}

void add_memory(const cost::PhaseMemory& memory, PredictedPhase& phase) {
  phase.values = {{Metric::kAllocatedAfter, exact(memory.allocated_after)},
                  {Metric::kPeakAllocated, exact(memory.peak_allocated)},
                  {Metric::kPeakReserved, exact(memory.peak_reserved)},
                  {Metric::kReservedAfter, exact(memory.reserved_after)},
                  {Metric::kPeakActive, exact(memory.peak_allocated)},
                  {Metric::kRetries, static_cast<double>(memory.retries)}};
}

/// Which kinds of work a program counts. Every model also launches kernels between its matrix
/// products. So a program whose forward phases have no more kernels than matrix products does not
/// count kernels.
struct ModelledWork {
  bool flops = false;
  bool kernels = false;
};

ModelledWork modelled_work(const ir::RankProgram& program) {
  const auto any = [&program](auto has) {
    return std::any_of(program.phases.begin(), program.phases.end(), has);
  };
  return {.flops = any([](const ir::Phase& phase) { return phase.work.gemm_flops > 0; }),
          .kernels = any([](const ir::Phase& phase) {
            return ir::runs_forward(phase.name.kind) && phase.work.kernels > phase.work.gemms;
          })};
}

/// Number of an item's kernels that zero gradients.
std::int64_t zeroing_kernels(const ir::RankProgram& program, const ir::WorkItem& item) {
  const auto* const traffic = std::get_if<ir::TrafficShape>(&program.work.shapes[item.index]);
  const bool zeroing = program.operations[program.sites[item.site].operation] == "zero_gradients";
  return traffic != nullptr && zeroing ? traffic->launches : 0;
}

/// Number of kernels of a phase that the run's harness did not count.
std::int64_t uncounted_kernels(const ir::RankProgram& program, const ir::Phase& phase,
                               const ir::CountedWork& counted) {
  std::int64_t kernels = 0;
  for (std::size_t i = phase.first_item; i < phase.end_item; ++i) {
    const ir::WorkItem& item = program.work.items[i];
    if (item.kind != ir::WorkItem::Kind::kRun) {
      continue;
    }
    const bool attention =
        std::holds_alternative<ir::AttentionShape>(program.work.shapes[item.index]);
    kernels += attention && !counted.attention ? 1 : 0;
    kernels += counted.zeroing ? 0 : zeroing_kernels(program, item);
  }
  return kernels;
}

/// FLOPs of a phase that the run's harness did not count.
double uncounted_flops(const ir::RankProgram& program, const ir::Phase& phase,
                       const ir::CountedWork& counted) {
  double flops = 0;
  for (std::size_t i = phase.first_item; i < phase.end_item && !counted.expert_series; ++i) {
    const ir::WorkItem& item = program.work.items[i];
    const auto* const gemm = item.kind == ir::WorkItem::Kind::kRun
                                 ? std::get_if<ir::GemmShape>(&program.work.shapes[item.index])
                                 : nullptr;
    flops += gemm != nullptr && gemm->batch == ir::GemmBatch::kSeries ? gemm->flops() : 0;
  }
  return flops;
}

void add_work(const ir::RankProgram& program, const ir::Phase& from, const ModelledWork& modelled,
              const ir::CountedWork& counted, PredictedPhase& phase) {
  const ir::Work& work = from.work;
  if (modelled.flops) {
    // Rows were recorded with a stand-in for apex's extension, which launches nothing.
    const double absent = work.apex_gemm_flops + uncounted_flops(program, from, counted);
    phase.values.push_back({Metric::kGemmFlops, work.gemm_flops - absent});
  }
  if (modelled.kernels) {
    const std::int64_t kernels = work.kernels - uncounted_kernels(program, from, counted);
    phase.values.push_back({Metric::kKernels, static_cast<double>(kernels)});
  }
  double calls = 0;
  double bytes = 0;
  for (const ir::Work::Collective& collective : work.collectives) {
    if (collective.kind == ir::CollectiveKind::kTokenExchange) {
      continue;  // These are kernels of DeepEP, whose stand-in launches nothing.
    }
    calls += static_cast<double>(collective.calls);
    bytes += static_cast<double>(collective.bytes);
  }
  phase.values.push_back({Metric::kCollectiveBytes, bytes});
  phase.values.push_back({Metric::kCollectiveCalls, calls});
}

}  // namespace

std::optional<double> PredictedPhase::find(Metric metric) const {
  for (const MetricValue& value : values) {
    if (value.metric == metric) {
      return value.value;
    }
  }
  return std::nullopt;
}

Prediction prediction_of(const ir::RankProgram& program, const cost::MemoryTimeline& timeline,
                         const ir::CountedWork& counted) {
  const ModelledWork modelled = modelled_work(program);
  Prediction prediction{.fits = !timeline.out_of_memory, .phases = {}};
  for (std::size_t i = 0; i < timeline.phases.size(); ++i) {
    PredictedPhase phase{.name = timeline.phases[i].name, .values = {}};
    add_memory(timeline.phases[i], phase);
    add_work(program, program.phases[i], modelled, counted, phase);
    prediction.phases.push_back(std::move(phase));
  }
  return prediction;
}

Predictor replay_predictor(Lowering lower) {
  return [lower = std::move(lower)](const ir::RunSetting& setting) -> Result<Prediction> {
    Result<ir::RankProgram> program = lower(setting);
    if (!program) {
      return std::move(program).error();
    }
    return prediction_of(program.value(),
                         cost::replay(program.value(), setting.plan.allocator, setting.capacity),
                         setting.counted);
  };
}

}  // namespace headroom::check
