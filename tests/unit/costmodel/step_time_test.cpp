#include "costmodel/time/step_time.h"

#include <doctest/doctest.h>

#include "costmodel/time/model_flops.h"
#include "costmodel/time/program_time.h"
#include "model_ir/plan/work_range.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/megatron/plan.h"

namespace headroom::cost {
namespace {

using ir::WorkItem;

/// Every shape takes its bytes or its m in seconds.
PriceList plain_prices(double launch = 0) {
  return {.time_of =
              [](const ir::WorkShape& shape) {
                if (const auto* gemm = std::get_if<ir::GemmShape>(&shape)) {
                  return Seconds{static_cast<double>(gemm->m)};
                }
                if (const auto* traffic = std::get_if<ir::TrafficShape>(&shape)) {
                  return Seconds{static_cast<double>(traffic->bytes)};
                }
                if (const auto* collective = std::get_if<ir::CollectiveShape>(&shape)) {
                  return Seconds{static_cast<double>(collective->bytes)};
                }
                const auto* copy = std::get_if<ir::CopyShape>(&shape);
                return Seconds{copy != nullptr ? static_cast<double>(copy->bytes) : 1};
              },
          .launch = Seconds{launch}};
}

/// A program written by hand.
class Program {
 public:
  Program() {
    program_.operations = {"", std::string(name_of(ir::RangeKind::kForwardPass)),
                           std::string(name_of(ir::RangeKind::kBackwardPass)),
                           std::string(name_of(ir::RangeKind::kRecomputation)),
                           std::string(ir::kRangeEnd)};
    for (std::uint16_t operation = 0; operation < 5; ++operation) {
      program_.sites.push_back({.layer = 0, .operation = operation});
    }
  }
  void phase(const char* name) {
    close();
    ir::Phase& phase = program_.phases.emplace_back();
    phase.name = ir::parse_phase_name(name);
    phase.first_item = program_.work.items.size();
  }
  void run(const ir::WorkShape& shape, std::uint8_t stream = 0) {
    program_.work.shapes.push_back(shape);
    const auto index = static_cast<std::uint32_t>(program_.work.shapes.size() - 1);
    program_.work.items.push_back({.stream = stream, .index = index});
  }
  void wait(std::uint8_t waiting, std::uint8_t other) {
    const std::uint32_t mark = program_.work.marks++;
    program_.work.items.push_back(
        {.kind = WorkItem::Kind::kRecord, .stream = other, .index = mark});
    program_.work.items.push_back(
        {.kind = WorkItem::Kind::kWait, .stream = waiting, .index = mark});
  }
  void forward() { mark(1); }
  void backward() { mark(2); }
  void recompute() { mark(3); }
  void shut() { mark(4); }
  [[nodiscard]] const ir::RankProgram& done() {
    close();
    return program_;
  }

 private:
  void mark(std::uint32_t site) {
    program_.work.items.push_back(
        {.kind = WorkItem::Kind::kRecord, .index = program_.work.marks++, .site = site});
  }
  void close() {
    if (!program_.phases.empty()) {
      program_.phases.back().end_item = program_.work.items.size();
    }
  }
  ir::RankProgram program_;
};

ir::GemmShape gemm(std::int64_t seconds) {
  return {.m = seconds, .n = 1, .k = 1};
}

DeviceSpec device() {
  DeviceSpec spec;
  spec.half = FlopsPerSecond{1e3};
  return spec;
}

ir::ModelSpec one_layer() {
  ir::ModelSpec model;
  model.hidden = model.embedding_dim = 4;
  model.heads = model.kv_heads = 1;
  model.head_dim = 4;
  model.ffn = 8;
  model.vocabulary = 16;
  model.layers.resize(1);
  model.final_norm = false;
  return model;
}

}  // namespace

TEST_CASE("step time: micro-batches that a program leaves out take as long as the steady one") {
  Program program;
  program.phase("load");
  program.run(gemm(100));
  for (const char* const step : {"step1", "step2"}) {
    for (const char* const micro : {"1", "2", "3"}) {
      program.phase((std::string(step) + "." + micro + ".forward").c_str());
      program.run(gemm(2));
      program.phase((std::string(step) + "." + micro + ".backward").c_str());
      program.run(gemm(3));
      program.recompute();
      program.run(ir::TrafficShape{.bytes = 1});
      program.shut();
    }
    program.phase((std::string(step) + ".optimizer").c_str());
    program.run(ir::TrafficShape{.bytes = 7});
  }
  ir::ParallelPlan plan;
  plan.workload.accumulation = 10;
  const ProgramTime time = price_program(program.done(), plan, plain_prices());
  CHECK(time.micro_batches == 3);
  CHECK(time.step.time().value() == 3 * 6 + 7);
  CHECK(time.micro_batch.time().value() == 6);
  const StepTime step = compose_step(one_layer(), plan, device(), {{.stage = 0, .time = time}});
  CHECK(step.total.value() == 10 * 6 + 7);
  CHECK(step.parts.of(StepPart::kMatrix).value() == 50);
  CHECK(step.parts.of(StepPart::kRecompute).value() == 10);
  CHECK(step.parts.of(StepPart::kOptimizer).value() == 7);
  CHECK(step.tokens == 10 * 2048);
}

TEST_CASE("step time: utilisation is of the type that FSDP computes in, not of what it stores") {
  Program program;
  program.phase("step1.forward");
  program.run(gemm(3));
  cost::DeviceSpec card = device();
  card.fp32 = FlopsPerSecond{1};
  card.half = FlopsPerSecond{16};
  ir::ParallelPlan plan;
  plan.precision = ir::Precision::kFp32;
  const auto peak = [&] {
    const ProgramTime time = price_program(program.done(), plan, plain_prices());
    return compose_step(one_layer(), plan, card, {{.stage = 0, .time = time}}).peak;
  };
  CHECK(peak() == FlopsPerSecond{1});
  plan.runtime = "fsdp";
  edit_fsdp(plan) = ir::FsdpPlan{};
  CHECK(peak() == FlopsPerSecond{16});
  edit_fsdp(plan).param_dtype = ir::DType::kFp32;
  CHECK(peak() == FlopsPerSecond{1});
  plan.precision = ir::Precision::kAutocastBf16;
  CHECK(peak() == FlopsPerSecond{16});
}

TEST_CASE("step time: only what the compute stream waits for counts as communication") {
  Program program;
  program.phase("step1.forward");
  program.run(ir::CollectiveShape{.kind = ir::CollectiveKind::kAllGather, .bytes = 5, .group = {}},
              1);
  program.run(gemm(3));
  program.wait(0, 1);
  program.run(gemm(4));
  program.phase("step1.optimizer");
  program.run(ir::CopyShape{.kind = ir::CopyKind::kDeviceToHost, .bytes = 9}, 2);
  ir::ParallelPlan plan;
  plan.world = 2;
  const ProgramTime time = price_program(program.done(), plan, plain_prices());
  CHECK(time.step.parts.of(StepPart::kData).value() == 2);  // From 3 to 5.
  CHECK(time.step.parts.of(StepPart::kMatrix).value() == 7);
  CHECK(time.step.parts.of(StepPart::kOffload).value() == 0);  // It ends with the gather's wait.
}

TEST_CASE("step time: a pipeline's passes are laid out, its bubble is what is left") {
  Program program;
  program.phase("step1.forward_backward");
  for (int i = 0; i < 3; ++i) {
    program.forward();
    program.run(gemm(1));
    program.shut();
  }
  for (int i = 0; i < 3; ++i) {
    program.backward();
    program.run(gemm(2));
    program.shut();
  }
  program.phase("step1.optimizer");
  program.run(ir::TrafficShape{.bytes = 5});
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  edit_megatron(plan) = ir::MegatronPlan{};
  plan.mesh = {.pipeline = 4};
  plan.world = 4;
  plan.workload.accumulation = 8;
  const ProgramTime time = price_program(program.done(), plan, plain_prices());
  REQUIRE(time.chunks.size() == 1);
  CHECK(time.chunks[0].forward.time().value() == 1);
  CHECK(time.chunks[0].backward.time().value() == 2);
  CHECK(time.outside.time().value() == 5);
  const StepTime step = compose_step(
      one_layer(), plan, device(),
      {{.stage = 0, .time = time}, {.stage = 1, .time = time}, {.stage = 3, .time = time}});
  CHECK(step.total.value() == (8 + 3) * 3 + 5);
  CHECK(step.parts.of(StepPart::kBubble).value() == 9);
  CHECK(step.parts.total() == step.total);
  REQUIRE(step.pipeline);
  CHECK(step.pipeline->stages.size() == 4);
  CHECK(step.tokens == 8 * 2048);
}

TEST_CASE("step time: model FLOPs are six for every weight and twelve for every key") {
  const ir::ModelSpec model = one_layer();
  // Weights that multiply: 4 projections of 4 x 4, 3 of 4 x 8, the head 4 x 16, two norms of 4.
  const double weights = 4 * 16 + 3 * 32 + 64 + 8;
  CHECK(model_flops_per_token(model, 10) == 6 * weights + 12 * 4 * 10);
  CHECK(model_flops_per_token(model, 10, AttentionCount::kSeenKeys) ==
        6 * weights + 12 * 4 * 10 / 2.0);
}

TEST_CASE("step time: prices and powers become tokens per dollar and joule, and days") {
  StepTime step;
  step.total = Seconds{2};
  step.tokens = 8000;
  step.gpus = 4;  // 1000 tokens per second and GPU.
  const RunFigures run = run_figures(
      step, {.dollars_per_gpu_hour = 3.6, .watts_per_gpu = 500, .tokens = 4000 * 86400.0 * 3});
  CHECK(run.tokens_per_dollar == doctest::Approx(1e6));
  CHECK(run.tokens_per_joule == doctest::Approx(2));
  CHECK(run.days == doctest::Approx(3));
  CHECK(run.dollars == doctest::Approx(1036.8));
  CHECK(run.megawatt_hours == doctest::Approx(0.144));
  CHECK_FALSE(run_figures(step, {}).days);
}

TEST_CASE("step time: a collective belongs to the part of the axis that it serves") {
  CHECK(part_of(ir::MeshAxis::kData) == StepPart::kData);
  CHECK(part_of(ir::MeshAxis::kTensor) == StepPart::kTensor);
  CHECK(part_of(ir::MeshAxis::kContext) == StepPart::kContext);
  CHECK(part_of(ir::MeshAxis::kExpert) == StepPart::kExpert);
  CHECK(part_of(ir::MeshAxis::kPipeline) == StepPart::kPipeline);
}

TEST_CASE("step time: only transfers between stages are the pipeline's own to lay out") {
  // A pass of 1 second of computing, 2 of a tensor-parallel send and 4 that it waits for its input.
  Program program;
  program.phase("step1.forward_backward");
  for (int i = 0; i < 2; ++i) {
    program.forward();
    program.run(gemm(1));
    program.run(ir::CollectiveShape{
        .kind = ir::CollectiveKind::kSend, .bytes = 2, .group = {}, .axis = ir::MeshAxis::kTensor});
    program.run(ir::CollectiveShape{.kind = ir::CollectiveKind::kReceive,
                                    .bytes = 4,
                                    .group = {},
                                    .axis = ir::MeshAxis::kPipeline});
    program.shut();
  }
  ir::ParallelPlan plan;
  plan.runtime = "megatron";
  edit_megatron(plan) = ir::MegatronPlan{};
  plan.mesh = {.pipeline = 2};
  plan.world = 2;
  const ProgramTime time = price_program(program.done(), plan, plain_prices());
  REQUIRE(time.chunks.size() == 1);
  CHECK(time.chunks[0].forward.parts.of(StepPart::kTensor).value() == 2);
  CHECK(time.chunks[0].forward.time().value() == 3);
  CHECK(time.transfer.value() == 4);
}

}  // namespace headroom::cost
