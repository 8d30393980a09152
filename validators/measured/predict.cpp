#include "validators/measured/predict.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
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

/// Which kinds of work a program counts at all. Between its matrix products every model launches
/// kernels: a program whose forwards have fewer of these than of those does not count them.
struct Counted {
  bool flops = false;
  bool kernels = false;
};

Counted counted(const ir::RankProgram& program) {
  const auto any = [&program](auto has) {
    return std::any_of(program.phases.begin(), program.phases.end(), has);
  };
  return {.flops = any([](const ir::Phase& phase) { return phase.work.gemm_flops > 0; }),
          .kernels = any([](const ir::Phase& phase) {
            return phase.name.find(".forward") != std::string::npos &&
                   phase.work.kernels > phase.work.gemms;
          })};
}

bool is_megatron(const ir::Phase& phase) {
  return phase.name.ends_with(".forward_backward");
}

/// Kernels of an item that zeroes gradients, which Megatron's rows do before they count.
std::int64_t zeroing_kernels(const ir::RankProgram& program, const ir::WorkItem& item) {
  const auto* const traffic = std::get_if<ir::TrafficShape>(&program.work.shapes[item.index]);
  const bool zeroing = program.operations[program.sites[item.site].operation] == "zero_gradients";
  return traffic != nullptr && zeroing ? traffic->launches : 0;
}

/// Megatron's rows are recorded where Transformer Engine's attention is a stand-in that launches
/// nothing; its phases are told by their name.
std::int64_t absent_kernels(const ir::RankProgram& program, const ir::Phase& phase) {
  if (!is_megatron(phase)) {
    return 0;
  }
  const auto first = program.work.items.begin() + static_cast<std::ptrdiff_t>(phase.first_item);
  const auto last = program.work.items.begin() + static_cast<std::ptrdiff_t>(phase.end_item);
  return std::accumulate(
      first, last, std::int64_t{0}, [&program](std::int64_t sum, const ir::WorkItem& item) {
        if (item.kind != ir::WorkItem::Kind::kRun) {
          return sum;
        }
        const bool attention =
            std::holds_alternative<ir::AttentionShape>(program.work.shapes[item.index]);
        return sum + (attention ? 1 : 0) + zeroing_kernels(program, item);
      });
}

/// FLOPs of products whose rows the host reads from the device, where it finds zeros.
double unread_flops(const ir::RankProgram& program, const ir::Phase& phase) {
  if (is_megatron(phase)) {
    return 0;  // Padded experts: rows are known.
  }
  double flops = 0;
  for (std::size_t i = phase.first_item; i < phase.end_item; ++i) {
    const ir::WorkItem& item = program.work.items[i];
    const auto* const gemm = item.kind == ir::WorkItem::Kind::kRun
                                 ? std::get_if<ir::GemmShape>(&program.work.shapes[item.index])
                                 : nullptr;
    flops += gemm != nullptr && gemm->batch == ir::GemmBatch::kSeries ? gemm->flops() : 0;
  }
  return flops;
}

void add_work(const ir::RankProgram& program, const ir::Phase& from, const Counted& counts,
              PredictedPhase& phase) {
  const ir::Work& work = from.work;
  if (counts.flops) {
    // Rows are recorded where apex's extension is a stand-in that launches nothing.
    const double absent = work.apex_gemm_flops + unread_flops(program, from);
    phase.values.push_back({Metric::kGemmFlops, work.gemm_flops - absent});
  }
  if (counts.kernels) {
    const std::int64_t kernels = work.kernels - absent_kernels(program, from);
    phase.values.push_back({Metric::kKernels, static_cast<double>(kernels)});
  }
  double calls = 0;
  double bytes = 0;
  for (const ir::Work::Collective& collective : work.collectives) {
    if (collective.kind == ir::CollectiveKind::kTokenExchange) {
      continue;  // Kernels of DeepEP's, of which a stand-in launches nothing.
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

Prediction prediction_of(const ir::RankProgram& program, const cost::MemoryTimeline& timeline) {
  const Counted counts = counted(program);
  Prediction prediction{.fits = !timeline.out_of_memory, .phases = {}};
  for (std::size_t i = 0; i < timeline.phases.size(); ++i) {
    PredictedPhase phase{.name = timeline.phases[i].name, .values = {}};
    add_memory(timeline.phases[i], phase);
    add_work(program, program.phases[i], counts, phase);
    prediction.phases.push_back(std::move(phase));
  }
  return prediction;
}

Predictor replay_predictor(Lowering lower) {
  return [lower = std::move(lower)](const RunSetting& setting) -> Result<Prediction> {
    Result<ir::RankProgram> program = lower(setting);
    if (!program) {
      return std::move(program).error();
    }
    return prediction_of(program.value(),
                         cost::replay(program.value(), setting.plan.allocator, setting.capacity));
  };
}

}  // namespace headroom::check
