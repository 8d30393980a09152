// The distance of Megatron's closed form of step times from the replay: the source of the error
// that the search allows for (`TimeError`).

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/hardware/catalogue.h"
#include "model_ir/spec/model_catalogue.h"
#include "planner/evaluate/lowered_plan.h"
#include "planner/search/cell_window.h"
#include "planner/search/plan_stream.h"
#include "runtimes/megatron/search/choices.h"
#include "runtimes/megatron/search/sampled_blocks.h"
#include "runtimes/megatron/search/step_time.h"

namespace headroom::bench {
namespace {

const std::string kConfigs = HEADROOM_SOURCE_DIR "/configs";

struct Question {
  const char* model;
  const char* gpu;
  std::int64_t gpus;
  std::int64_t batch;
  std::int64_t sequence;
  const char* precision = "bf16-master";
};

constexpr Question kQuestions[] = {
    {"llama-3.2-1b", "h100-80gb", 8, 64, 2048},
    {"llama-3.1-8b", "a100-80gb", 8, 64, 2048},
    {"llama-3.1-70b", "h100-80gb", 64, 512, 2048},
    {"gpt3-175b", "a100-80gb", 1024, 1536, 2048},
    {"llama-3.1-405b", "h100-80gb", 1024, 1024, 8192},
    {"qwen3-30b-a3b", "h100-80gb", 32, 256, 2048},
    {"mixtral-8x7b", "b200", 64, 512, 2048, "fp8-tensorwise"},
    {"deepseek-v3", "h800-80gb", 256, 2048, 4096},
};

/// Ratios of replay to form.
struct Ratios {
  std::vector<double> nearest;  ///< The first plans by the form, from as many cells as they are in.
  std::vector<double> switches;  ///< Other choices of their cells that are at most 10 % slower.
};

/// Replays plans near the best of `asked`.
std::optional<Ratios> measure(const Question& asked, std::size_t plans) {
  const auto model = ir::load_model(kConfigs + "/models", asked.model);
  const auto device = cost::load_device(kConfigs, asked.gpu);
  if (!model || !device) {
    return std::nullopt;
  }
  const auto machine = cost::load_machine(kConfigs, *device);
  const auto precision = plan::parse_axis(plan::Axis::kPrecision, asked.precision);
  if (!machine || !precision) {
    return std::nullopt;
  }
  plan::SearchQuestion question{.space = {.model = *model,
                                          .base = {},
                                          .global_batch = asked.batch,
                                          .constraints = {},
                                          .device = device->traits},
                                .machine = *machine,
                                .device = *device,
                                .budget = Bytes{0},
                                .pruning = {},
                                .progress = {}};
  question.space.base.workload.sequence = asked.sequence;
  question.space.base.world = asked.gpus;
  question.space.base.allocator.expandable_segments = true;
  plan::Constraints& constraints = question.space.constraints;
  constraints.of(plan::Axis::kRuntime) = parse_axis(plan::Axis::kRuntime, "megatron").value();
  constraints.of(plan::Axis::kGpus) = {asked.gpus};
  constraints.of(plan::Axis::kPrecision) = *precision;
  plan::SearchRecords records;
  const plan::SearchInputs inputs{
      .question = question, .device = question.device, .records = records};
  plan::SearchState state{
      .question = question, .evaluators = {}, .refused = {}, .lowered = records.lowered};
  const std::vector<plan::BoundedCell> bounded = plan::window_of(state, inputs, {}).cells;
  plan::PlanStream stream(state, bounded, plan::PlanStream::Times::kEvaluated);
  plan::SampledBlocks sampled(*model, *device, *machine);
  plan::LoweredPlans lowered(*model, *device, *machine, records.lowered);
  std::mt19937 random(7);
  Ratios ratios;
  std::uint64_t replays = 0;
  const auto form_of = [&](const ir::ParallelPlan& plan) {
    return plan::step_parts(*model, plan, sampled.of(plan).value(), *machine).total().value();
  };
  double best = 0;
  for (std::size_t i = 0; i < plans; ++i) {
    const auto next = stream.next(std::nullopt);
    if (!next || !*next) {
      break;
    }
    const ir::ParallelPlan& plan = (*next)->plan.plan;
    const double form = form_of(plan);
    best = best == 0 ? form : best;
    ratios.nearest.push_back(lowered.of(plan, replays++).value().time.total().value() / form);
    const plan::MegatronChoices choices = plan::megatron_choices(question.space, plan);
    for (int draw = 0; draw < 16; ++draw) {
      const ir::ParallelPlan other = choices.plan_at(random() % choices.size());
      const double seconds = form_of(other);
      if (seconds <= 1.1 * best && ratios.switches.size() < 2 * ratios.nearest.size()) {
        ratios.switches.push_back(lowered.of(other, replays++).value().time.total().value() /
                                  seconds);
      }
    }
  }
  return ratios;
}

void print(const char* name, std::vector<double> ratios) {
  std::ranges::sort(ratios);
  if (ratios.empty()) {
    return;
  }
  std::printf("  %-10s %3zu plans, least %.4f, median %.4f, most %.4f\n", name, ratios.size(),
              ratios.front(), ratios[ratios.size() / 2], ratios.back());
}

int run(bool smoke) {
  for (const Question& question : kQuestions) {
    const std::optional<Ratios> ratios = measure(question, smoke ? 1 : 20);
    if (!ratios) {
      return 1;
    }
    std::printf("%s on %lld %s, %s\n", question.model, static_cast<long long>(question.gpus),
                question.gpu, question.precision);
    print("nearest", ratios->nearest);
    print("switches", ratios->switches);
    if (smoke) {
      return 0;  // The others take seconds each.
    }
  }
  return 0;
}

}  // namespace
}  // namespace headroom::bench

int main(int count, char** values) {
  const bool smoke = count == 2 && std::string_view(values[1]) == "--smoke";
  if (count > 1 && !smoke) {
    std::fprintf(stderr, "usage: bench_form [--smoke]\n");
    return 2;
  }
  return headroom::bench::run(smoke);
}
