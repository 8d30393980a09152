#include "runtimes/torch/launch.h"
#include "runtimes/torch/optimizer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/torch/clip.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/foreach.h"
#include "runtimes/torch/grad_scaler.h"
#include "tests/support/event_text.h"
#include "tests/support/random.h"

// Event sequences without another source were recorded with PyTorch 2.11.0 (transformers 5.17.0,
// bitsandbytes 0.50.2, lion-pytorch 0.2.5) on compute capability 9.0 with 132 multiprocessors.
namespace headroom::ir::torch {
namespace {

struct Parameter {
  Shape shape;
  DType dtype;
  bool has_gradient = true;
};

struct Run {
  bool clip = false;
  bool scaler = false;
  int steps = 2;
};

/// A training loop without a model: gradients appear, the optimizer steps, gradients go.
RankProgram train(const std::vector<Parameter>& set, const OptimizerPlan& plan, const Run& how) {
  Eager eager{DeviceTraits{}};
  std::vector<Tensor> parameters;
  parameters.reserve(set.size());
  for (const Parameter& each : set) {
    parameters.push_back(eager.parameter(each.shape, each.dtype, true));
  }
  OptimizerState state;
  GradScaler scaler(eager);
  for (int step = 1; step <= how.steps; ++step) {
    const std::string tag = "step" + std::to_string(step);
    eager.begin_phase(parse_phase_name(tag + ".backward"));
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (set[i].has_gradient) {
        const Tensor gradient = eager.empty(set[i].shape, set[i].dtype, TensorRole::kGradient);
        parameters[i]->grad = gradient.impl();
        ++gradient->uses;
      }
    }
    if (how.scaler) {
      Tensor loss = eager.parameter(Shape{}, DType::kFp32, true);
      const Tensor scaled = scaler.scale(loss);
      loss.reset();
    }
    eager.end_phase();
    eager.begin_phase(parse_phase_name(tag + ".optimizer"));
    if (how.clip) {
      if (how.scaler) {
        scaler.unscale(parameters);
      }
      clip_grad_norm(eager, parameters);
    }
    if (how.scaler) {
      scaler.step(plan, parameters, state);
      scaler.update();
    } else {
      torch::step(eager, plan, parameters, state);
    }
    eager.end_phase();
    eager.begin_phase(parse_phase_name(tag + ".zero_grad"));
    zero_grad(eager, parameters);
    eager.end_phase();
  }
  return eager.finish();
}

void check_phase(const RankProgram& program, const std::string& phase, const std::string& events,
                 std::int64_t kernels) {
  CAPTURE(phase);
  CHECK(test::events_of(program, phase) == events);
  CHECK(test::find_phase(program, phase)->work.kernels == kernels);
}

const std::vector<Parameter> kMixed{
    {{64, 32}, DType::kBf16}, {{32}, DType::kFp32}, {{16, 8}, DType::kBf16}, {{1}, DType::kFp32}};

constexpr OptimizerPlan kAdamW{OptimizerKind::kAdamW, OptimizerForm::kForeach, 0};
constexpr OptimizerPlan kAdamWFused{OptimizerKind::kAdamW, OptimizerForm::kFused, 0};
constexpr OptimizerPlan kAdamWLoop{OptimizerKind::kAdamW, OptimizerForm::kLoop, 0};
constexpr OptimizerPlan kAdamW8Bit{OptimizerKind::kAdamW, OptimizerForm::kEightBit, 0};
constexpr OptimizerPlan kAdamWPaged8Bit{OptimizerKind::kAdamW, OptimizerForm::kPagedEightBit, 0};
constexpr OptimizerPlan kSgd{OptimizerKind::kSgd, OptimizerForm::kForeach, 0};
constexpr OptimizerPlan kSgdMomentum{OptimizerKind::kSgd, OptimizerForm::kForeach, 0.9};
constexpr OptimizerPlan kSgdFused{OptimizerKind::kSgd, OptimizerForm::kFused, 0.9};
constexpr OptimizerPlan kAdafactor{OptimizerKind::kAdafactor, OptimizerForm::kLoop, 0};
constexpr OptimizerPlan kAdafactorTorch{OptimizerKind::kAdafactorTorch, OptimizerForm::kLoop, 0};
constexpr OptimizerPlan kLion{OptimizerKind::kLion, OptimizerForm::kForeach, 0};
constexpr OptimizerPlan kLionFp32{OptimizerKind::kLion, OptimizerForm::kFused, 0};
constexpr OptimizerPlan kLion8Bit{OptimizerKind::kLion, OptimizerForm::kEightBit, 0};

}  // namespace

TEST_CASE("optimizer: adamw.foreach makes moments per parameter and all roots at once") {
  // fp32 came last and is stepped first; its roots go when those of bf16 have been made.
  const RankProgram program = train(kMixed, kAdamW, {});
  check_phase(program, "step1.optimizer",
              "+4096#8 +4096#9 +128#10 +128#11 +256#12 +256#13 +4#14 +4#15 +128#16 +4#17 "
              "+4096#18 +256#19 -17 -16 -19 -18",
              24);
  check_phase(program, "step2.optimizer", "+128#24 +4#25 +4096#26 +256#27 -25 -24 -27 -26", 16);
  check_phase(program, "step2.zero_grad", "-20 -21 -22 -23", 0);
}

TEST_CASE("optimizer: adamw.fused keeps step counts on the device and makes no temporaries") {
  const RankProgram program = train(kMixed, kAdamWFused, {});
  check_phase(program, "step1.optimizer",
              "+4#8 +4096#9 +4096#10 +4#11 +128#12 +128#13 +4#14 +256#15 +256#16 +4#17 +4#18 "
              "+4#19",
              16);
  check_phase(program, "step2.optimizer", "", 4);
}

TEST_CASE("optimizer: adamw.loop holds one denominator until the next exists") {
  const RankProgram program = train(kMixed, kAdamWLoop, {});
  check_phase(program, "step1.optimizer",
              "+4096#8 +4096#9 +128#10 +128#11 +256#12 +256#13 +4#14 +4#15 +4096#16 +4096#17 "
              "-16 +128#18 +128#19 -18 -17 +256#20 +256#21 -20 -19 +4#22 +4#23 -22 -21 -23",
              40);
  check_phase(program, "step2.optimizer",
              "+4096#28 +4096#29 -28 +128#30 +128#31 -30 -29 +256#32 +256#33 -32 -31 +4#34 "
              "+4#35 -34 -33 -35",
              32);
}

TEST_CASE("optimizer: sgd momentum is a copy of the first gradient") {
  const RankProgram program = train(kMixed, kSgdMomentum, {});
  check_phase(program, "step1.optimizer", "+128#8 +4#9 +4096#10 +256#11", 2);
  check_phase(program, "step2.optimizer", "", 6);
}

TEST_CASE("optimizer: each form moves its parameters' bytes as often as its kernels name them") {
  constexpr double kParameterBytes = 128 + 4 + 4096 + 256;
  const auto moved = [](const OptimizerPlan& plan, bool clip) {
    const RankProgram program = train(kMixed, plan, {.clip = clip});
    const auto phase =
        std::ranges::find(program.phases, parse_phase_name("step2.optimizer"), &Phase::name);
    double bytes = 0;
    for (std::size_t i = phase->first_item; i < phase->end_item; ++i) {
      const auto* const traffic =
          std::get_if<TrafficShape>(&program.work.shapes[program.work.items[i].index]);
      bytes += traffic != nullptr ? static_cast<double>(traffic->bytes) : 0;
    }
    return bytes / kParameterBytes;
  };
  CHECK(moved(kAdamW, false) == 20);
  CHECK(moved(kAdamWFused, false) == 7);
  CHECK(moved(kAdamWLoop, false) == 20);
  CHECK(moved(kSgdMomentum, false) == 2 + 3 + 3);
  // Norms read once; gradients are scaled where they lie.
  CHECK(moved(kSgdMomentum, true) == doctest::Approx(2 + 3 + 3 + 1 + 2).epsilon(0.01));
}

TEST_CASE("clip_grad_norm: norms per type, stacked in fp32, then the factor's scalars") {
  // The last parameter has no gradient: no norm, no momentum.
  const RankProgram program = train({{{64, 32}, DType::kBf16},
                                     {{32}, DType::kFp32},
                                     {{16, 8}, DType::kBf16},
                                     {{1}, DType::kFp32, false}},
                                    kSgdMomentum, {.clip = true});
  check_phase(program, "step1.optimizer",
              "+4#7 +4#8 -7 +8#9 +2#10 +2#11 -9 +12#12 +4#13 -12 -11 -10 -8 +4#14 +4#15 +4#16 "
              "-15 -14 +4#17 -16 -17 -13 +128#18 +4096#19 +256#20",
              18);
  check_phase(program, "step2.optimizer",
              "+4#24 +4#25 -24 +8#26 +2#27 +2#28 -26 +12#29 +4#30 -29 -28 -27 -25 +4#31 +4#32 "
              "+4#33 -32 -31 +4#34 -33 -34 -30",
              22);
  check_phase(program, "step1.zero_grad", "-4 -5 -6", 0);
}

TEST_CASE("grad_scaler: scale is made at the first loss, unscaling precedes clipping") {
  const RankProgram program = train({{{64, 32}, DType::kFp32}, {{32}, DType::kFp32}}, kAdamW,
                                    {.clip = true, .scaler = true});
  check_phase(program, "step1.optimizer",
              "+8#8 +8#9 -8 +4#10 -9 +4#11 +4#12 +4#13 -13 -10 -11 +8#14 +4#15 +4#16 -14 +8#17 "
              "+4#18 -17 -16 -15 +4#19 +4#20 +4#21 -20 -19 +4#22 -21 -22 -18 +8192#23 +8192#24 "
              "+128#25 +128#26 +8192#27 +128#28 -28 -27 -12",
              28);
  CHECK(test::events_of(program, "step2.backward") == "+8192#29 +128#30 +4#31 +4#32 -31 -32");
  check_phase(program, "step2.optimizer",
              "+8#33 +8#34 -33 +4#35 -34 +4#36 +4#37 +4#38 -38 -35 -36 +8#39 +4#40 +4#41 -39 "
              "+8#42 +4#43 -42 -41 -40 +4#44 +4#45 +4#46 -45 -44 +4#47 -46 -47 -43 +8192#48 "
              "+128#49 -49 -48 -37",
              24);
}

TEST_CASE("grad_scaler: a fused optimizer unscales itself") {
  const RankProgram program =
      train({{{64, 32}, DType::kFp32}, {{32}, DType::kFp32}}, kAdamWFused, {.scaler = true});
  check_phase(program, "step1.optimizer",
              "+4#8 +4#9 +4#10 +4#11 -11 -8 -9 +4#12 +4#13 +4#14 +8192#15 +8192#16 +4#17 "
              "+128#18 +128#19 -13 -12 -10",
              15);
  check_phase(program, "step2.optimizer",
              "+4#24 +4#25 +4#26 +4#27 -27 -24 -25 +4#28 +4#29 -29 -28 -26", 9);
}

TEST_CASE("grad_scaler: a fused optimizer after clipping gets no factor") {
  const RankProgram program = train({{{64, 32}, DType::kFp32}, {{32}, DType::kFp32}}, kAdamWFused,
                                    {.clip = true, .scaler = true});
  check_phase(program, "step1.optimizer",
              "+8#8 +8#9 -8 +4#10 -9 +4#11 +4#12 +4#13 -13 -10 -11 +8#14 +4#15 +4#16 -14 +8#17 "
              "+4#18 -17 -16 -15 +4#19 +4#20 +4#21 -20 -19 +4#22 -21 -22 -18 +4#23 +4#24 "
              "+8192#25 +8192#26 +4#27 +128#28 +128#29 -23 -12",
              26);
  check_phase(program, "step2.optimizer",
              "+8#34 +8#35 -34 +4#36 -35 +4#37 +4#38 +4#39 -39 -36 -37 +8#40 +4#41 +4#42 -40 "
              "+8#43 +4#44 -43 -42 -41 +4#45 +4#46 +4#47 -46 -45 +4#48 -47 -48 -44 +4#49 -49 "
              "-38",
              20);
}

TEST_CASE("optimizer: adafactor works in fp32, one parameter at a time") {
  const RankProgram program = train(
      {{{6, 4}, DType::kBf16}, {{5}, DType::kBf16}, {{2, 3, 4}, DType::kFp32}}, kAdafactor, {});
  check_phase(program, "step1.optimizer",
              "+96#6 +24#7 +16#8 +96#9 +4#10 +4#11 -10 +96#12 +96#13 -12 +24#14 -14 +16#15 -15 "
              "+4#16 +24#17 -16 +16#18 +96#19 -17 -18 -13 +4#20 +4#21 -20 +4#22 -21 -22 +96#23 "
              "-23 -6 +20#24 +20#25 -9 +20#26 +4#27 +4#28 -27 +20#29 +20#30 -29 -19 +20#31 -30 "
              "+4#32 +4#33 -32 +4#34 -33 -34 +20#35 -35 -24 +24#36 +32#37 -26 +4#38 +4#39 -38 "
              "+96#40 +96#41 -40 -31 +24#42 -42 +32#43 -43 +8#44 +24#45 -44 +32#46 +96#47 -45 "
              "-46 -41 +4#48 +4#49 -48 +4#50 -49 -50 +96#51 -51 -47",
              71);
  check_phase(program, "step2.optimizer",
              "+96#55 +96#56 +4#57 +4#58 -57 -11 +96#59 +96#60 -59 +24#61 -61 +16#62 -62 +4#63 "
              "+24#64 -63 +16#65 +96#66 -64 -65 -60 +4#67 +4#68 -67 +4#69 -68 -69 +96#70 -70 "
              "-55 +20#71 -56 +20#72 +4#73 +4#74 -73 -28 +20#75 +20#76 -75 -66 +20#77 -76 +4#78 "
              "+4#79 -78 +4#80 -79 -80 +20#81 -81 -71 -72 +4#82 +4#83 -82 -39 +96#84 +96#85 -84 "
              "-77 +24#86 -86 +32#87 -87 +8#88 +24#89 -88 +32#90 +96#91 -89 -90 -85 +4#92 +4#93 "
              "-92 +4#94 -93 -94 +96#95 -95 -91",
              70);
}

TEST_CASE("optimizer: torch's adafactor works in the parameter's type") {
  // 33554432: the workspace of the first matrix product on this thread.
  const RankProgram program =
      train({{{6, 4}, DType::kBf16}, {{5}, DType::kBf16}, {{2, 3, 4}, DType::kFp32}},
            kAdafactorTorch, {});
  check_phase(program, "step1.optimizer",
              "+12#6 +8#7 +10#8 +24#9 +32#10 +2#11 -11 +12#12 +8#13 +48#14 +33554432#15 +2#16 "
              "-16 +2#17 -17 +2#18 -18 +10#19 +10#20 -14 +2#21 -21 +4#22 -22 +24#23 -12 +32#24 "
              "-13 +96#25 +8#26 -26 -20 +4#27 -27 -23 -24 -19 -25",
              47);
  check_phase(program, "step2.optimizer",
              "+2#31 -31 +12#32 +8#33 +48#34 +2#35 -35 +2#36 -36 +2#37 -37 +10#38 +10#39 -34 "
              "+2#40 -40 +4#41 -41 +24#42 -32 +32#43 -33 +96#44 +8#45 -45 -39 +4#46 -46 -42 -43 "
              "-38 -44",
              42);
}

TEST_CASE("optimizer: adafactor's reductions of a large matrix take workspaces") {
  const RankProgram program = train({{{4096, 4096}, DType::kBf16}}, kAdafactor, {.steps = 1});
  check_phase(program, "step1.optimizer",
              "+67108864#2 +16384#3 +16384#4 +67108864#5 +4#6 +2112#7 +4#8 -8 -7 +4#9 -6 "
              "+67108864#10 +67108864#11 -10 +16384#12 -12 +16384#13 +134217728#14 +128#15 -15 "
              "-14 -13 +4#16 +16384#17 -16 +16384#18 +67108864#19 -17 -18 -11 +4#20 +2112#21 "
              "+4#22 -22 -21 +4#23 -20 +4#24 -23 -24 +67108864#25 -25 -2 -5 -19",
              27);
}

TEST_CASE("optimizer: adafactor reduces beyond 2 GiB in pieces") {
  const RankProgram program = train({{{40000, 40000}, DType::kFp32}}, kAdafactor, {.steps = 1});
  check_phase(program, "step1.optimizer",
              "+160000#2 +160000#3 +4#4 +12208#5 +4#6 -6 -5 +12208#7 +4#8 -8 -7 +12208#9 +4#10 "
              "-10 -9 +12208#11 +4#12 -12 -11 +4#13 -4 +6400000000#14 +6400000000#15 -14 "
              "+160000#16 -16 +160000#17 +204800000#18 +1252#19 -19 -18 +204800000#20 +1252#21 "
              "-21 -20 +204800000#22 +1252#23 -23 -22 +204800000#24 +1252#25 -25 -24 -17 +4#26 "
              "+160000#27 -26 +160000#28 +6400000000#29 -27 -28 -15 +4#30 +12208#31 +4#32 -32 "
              "-31 +12208#33 +4#34 -34 -33 +12208#35 +4#36 -36 -35 +12208#37 +4#38 -38 -37 "
              "+4#39 -30 +4#40 -39 -40 +6400000000#41 -41 -29",
              60);
}

TEST_CASE("optimizer: 8-bit states have a factor per 256 elements, small parameters fp32 states") {
  const RankProgram program = train(
      {{{64, 64}, DType::kBf16}, {{50}, DType::kBf16}, {{400, 500}, DType::kBf16}}, kAdamW8Bit, {});
  check_phase(program, "step1.optimizer",
              "+1024#6 +1024#7 +4096#8 +4096#9 +64#10 +64#11 +200#12 +200#13 +200000#14 "
              "+200000#15 +3128#16 +3128#17",
              13);
  check_phase(program, "step2.optimizer", "", 3);
}

TEST_CASE("optimizer: lion-pytorch keeps one momentum in the parameter's type") {
  const RankProgram program = train(kMixed, kLion, {});
  check_phase(program, "step1.optimizer",
              "+4096#8 +4096#9 +4096#10 -9 -10 +128#11 +128#12 +128#13 -12 -13 +256#14 +256#15 "
              "+256#16 -15 -16 +4#17 +4#18 +4#19 -18 -19",
              32);
  check_phase(program, "step2.optimizer",
              "+4096#24 +4096#25 -24 -25 +128#26 +128#27 -26 -27 +256#28 +256#29 -28 -29 +4#30 "
              "+4#31 -30 -31",
              28);
}

TEST_CASE("optimizer: Lion8bit has one moment") {
  const RankProgram program =
      train({{{64, 64}, DType::kBf16}, {{50}, DType::kBf16}}, kLion8Bit, {.steps = 1});
  check_phase(program, "step1.optimizer", "+1024#4 +4096#5 +64#6 +200#7", 5);
}

TEST_CASE("optimizer: paged states of 100000 elements and more are outside the device") {
  const RankProgram program =
      train({{{64, 64}, DType::kBf16}, {{50}, DType::kBf16}, {{400, 500}, DType::kBf16}},
            kAdamWPaged8Bit, {});
  check_phase(program, "step1.optimizer",
              "+1024#6 +1024#7 +4096#8 +4096#9 +64#10 +64#11 +200#12 +200#13 +3128#14 +3128#15",
              13);
  CHECK(program.host_bytes == 2 * 400 * 500);
}

TEST_CASE("list_launches: a launch ends when its tensors or its 320 chunks are full") {
  CHECK(list_launches({}, ListKernel::kOneList) == 0);
  const std::vector<std::int64_t> small(111, 3);
  CHECK(list_launches(small, ListKernel::kOneList) == 2);  // 110 and 1
  CHECK(list_launches(small, ListKernel::kThreeLists) == 3);
  const std::int64_t chunk = 65'536;
  CHECK(list_launches(std::array{320 * chunk}, ListKernel::kOneList) == 1);
  CHECK(list_launches(std::array{320 * chunk + 1}, ListKernel::kOneList) == 2);
  // The rest of the first tensor counts as one of the 36 of the second launch.
  std::vector<std::int64_t> mixed(36, 1);
  mixed.front() = 321 * chunk;
  CHECK(list_launches(mixed, ListKernel::kFourLists) == 2);
  mixed.push_back(1);
  CHECK(list_launches(mixed, ListKernel::kFourLists) == 3);
}

TEST_CASE("elementwise_launches: tensors are halved until a kernel can index them") {
  CHECK(elementwise_launches(0, 4) == 0);
  CHECK(elementwise_launches((std::int64_t{1} << 30) - 1, 2) == 1);
  CHECK(elementwise_launches((std::int64_t{1} << 30) + 1, 2) == 2);
  CHECK(elementwise_launches((std::int64_t{1} << 30) + 5, 4) == 4);
  // What does not fit takes the kernels of its two halves.
  for (std::int64_t bytes : {1, 2, 4, 8}) {
    for (std::int64_t size = (std::int64_t{1} << 31) / bytes - 3; size < std::int64_t{1} << 42;
         size = size * 2 + size % 3) {
      CAPTURE(bytes);
      CAPTURE(size);
      CHECK(elementwise_launches(2 * size + 1, bytes) ==
            elementwise_launches(size, bytes) + elementwise_launches(size + 1, bytes));
    }
  }
}

namespace {

/// Bytes of states per parameter tensor of `elements` elements of `element_bytes` each; a closed
/// form that shares nothing with the optimizers.
std::int64_t state_bytes(const OptimizerPlan& plan, const Parameter& parameter) {
  const std::int64_t elements = parameter.shape.elements();
  const std::int64_t own = elements * bits_of(parameter.dtype) / 8;
  const bool eight_bit = plan.form == OptimizerForm::kEightBit;
  const std::int64_t moments = plan.kind == OptimizerKind::kAdamW ? 2 : 1;
  if (eight_bit) {
    return elements < 4096 ? moments * 4 * elements
                           : moments * (elements + 4 * ((elements + 255) / 256));
  }
  switch (plan.kind) {
    case OptimizerKind::kAdamW:
      return 2 * own + (plan.form == OptimizerForm::kFused ? 4 : 0);
    case OptimizerKind::kSgd:
      return plan.momentum != 0 ? own : 0;
    case OptimizerKind::kLion:
      return plan.form == OptimizerForm::kFused ? 4 * elements : own;
    case OptimizerKind::kAdafactor:
    case OptimizerKind::kAdafactorTorch: {
      const bool fp32 = plan.kind == OptimizerKind::kAdafactor;
      const std::int64_t width = fp32 ? 4 : bits_of(parameter.dtype) / 8;
      const std::int64_t scale = fp32 ? 4 : 0;  // The parameter's RMS.
      if (parameter.shape.rank() < 2) {
        return width * elements + scale;
      }
      return width * (elements / parameter.shape[-1] + elements / parameter.shape[-2]) + scale;
    }
    case OptimizerKind::kMuon:
    case OptimizerKind::kNone:
      break;
  }
  return 0;
}

std::vector<Parameter> random_parameters(test::Random& random) {
  std::vector<Parameter> set;
  const std::int64_t count = random.between(1, 12);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto size = [&] { return random.between(1, 90); };
    const std::vector<Shape> shapes{{size()}, {size(), size()}, {size(), size(), size()}};
    const std::vector<DType> dtypes{DType::kBf16, DType::kFp32};
    set.push_back({random.pick(shapes), random.pick(dtypes), !random.chance(1, 5)});
  }
  return set;
}

struct Live {
  std::int64_t states = 0;
  std::int64_t others = 0;  ///< Neither parameters nor states.
};

/// What is alive at the end. Fails on a block that is freed twice or never came.
Live live_at_end(const RankProgram& program, std::size_t end) {
  std::vector<const Event*> blocks(program.blocks, nullptr);
  for (std::size_t i = 0; i < end; ++i) {
    const Event& event = program.events[i];
    const bool allocate = event.kind == EventKind::kAllocate;
    REQUIRE((blocks[event.block] == nullptr) == allocate);
    blocks[event.block] = allocate ? &event : nullptr;
  }
  Live live;
  for (const Event* event : blocks) {
    if (event == nullptr || event->role == TensorRole::kParameter) {
      continue;
    }
    (event->role == TensorRole::kOptimizerState ? live.states : live.others) += event->bytes;
  }
  return live;
}

}  // namespace

TEST_CASE(
    "property: optimizer: after a step only states are left, of the bytes of the closed form") {
  const std::vector<OptimizerPlan> plans{
      kAdamW,    kAdamWFused, kAdamWLoop,      kAdamW8Bit, kSgd,      kSgdMomentum,
      kSgdFused, kAdafactor,  kAdafactorTorch, kLion,      kLionFp32, kLion8Bit};
  test::Random random = test::seeded_random();
  CAPTURE(random.seed());
  for (int i = 0; i < 120; ++i) {
    const std::vector<Parameter> set = random_parameters(random);
    const OptimizerPlan plan = random.pick(plans);
    CAPTURE(i);
    CAPTURE(static_cast<int>(plan.kind));
    CAPTURE(static_cast<int>(plan.form));
    const RankProgram program = train(set, plan, {.clip = random.chance(1, 2), .steps = 3});
    std::int64_t wanted = 0;
    bool table = false;
    for (const Parameter& parameter : set) {
      wanted += parameter.has_gradient ? state_bytes(plan, parameter) : 0;
      table = table || (parameter.has_gradient && plan.form == OptimizerForm::kEightBit &&
                        parameter.shape.elements() >= 4096);
    }
    wanted += table ? (plan.kind == OptimizerKind::kAdamW ? 2048 : 1024) : 0;
    for (const char* phase : {"step1.zero_grad", "step3.zero_grad"}) {
      const Live live = live_at_end(program, test::find_phase(program, phase)->end);
      // Torch's Adafactor multiplies matrices, which leaves a cuBLAS workspace.
      const bool workspace = live.others == 33'554'432 && plan == kAdafactorTorch;
      CHECK((live.others == 0 || workspace));
      CHECK(live.states == wanted);
    }
  }
}

TEST_CASE("property: grad_scaler: two scalars are all it keeps") {
  test::Random random = test::seeded_random();
  CAPTURE(random.seed());
  for (int i = 0; i < 20; ++i) {
    std::vector<Parameter> set = random_parameters(random);
    for (Parameter& parameter : set) {
      parameter.dtype = DType::kFp32;
      parameter.has_gradient = true;
    }
    const OptimizerPlan plan =
        random.chance(1, 2) ? kSgd : OptimizerPlan{kSgdFused.kind, kSgdFused.form, 0};
    const RankProgram program = train(set, plan, {.clip = random.chance(1, 2), .scaler = true});
    const Live live = live_at_end(program, test::find_phase(program, "step2.zero_grad")->end);
    CHECK(live.others == 0);
    CHECK(live.states == 8);
  }
}

}  // namespace headroom::ir::torch
