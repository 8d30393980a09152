#include <algorithm>
#include <cmath>

#include "tests/support/backends/cases.h"
#include "validators/executor/state_code.h"

namespace headroom::test {
namespace {

using Table = HeadroomDeviceTable;

HeadroomAdamW step(std::int64_t number, void* factor) {
  return {.learning_rate = 1e-3,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .epsilon = 1e-8,
          .weight_decay = 0.1,
          .step = number,
          .gradient_factor = factor};
}

void norms(Twin& twin, std::int32_t type) {
  for (const std::int64_t count : {std::int64_t{5}, std::int64_t{300'001}}) {
    twin.begin("squares " + name_of(type) + " of " + std::to_string(count));
    const Twins x = twin.normal(type, count, 0.5, 1);
    const Twins sum = twin.values(HEADROOM_FP32, {2});
    const Twins partial = twin.output(HEADROOM_FP32, HEADROOM_PARTIAL_SUMS);
    const Twins factors = twin.output(HEADROOM_FP32, 3);
    const Twins endless = twin.values(HEADROOM_FP32, {INFINITY});
    twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
      auto* const f = static_cast<float*>(at(factors));
      std::int32_t code =
          t.square_sum(d, 0, at(sum), HEADROOM_FP32, at(x), type, count, 0.5, at(partial));
      code += t.gradient_factor(d, 0, f, at(sum), HEADROOM_FP32, 1, 1.0 / 512);
      code += t.gradient_factor(d, 0, f + 1, at(sum), HEADROOM_FP32, 0.001, 1);
      code += t.gradient_factor(d, 0, f + 2, at(endless), HEADROOM_FP32, 1, 1);
      return code;
    });
    twin.compare("sum", sum, 5);
    twin.compare("factors", factors, 5);
    twin.end();
  }
}

void steps(Twin& twin, std::int32_t parameter, std::int32_t gradient, std::int32_t state,
           bool master, bool parameters_here) {
  constexpr std::int64_t kCount = 2051;
  twin.begin("adamw " + name_of(parameter) + " " + name_of(gradient) + " " + name_of(state) +
             (master ? " with master" : ""));
  const Twins parameters = twin.normal(parameter, kCount);
  const Twins copy = twin.normal(HEADROOM_FP32, kCount);
  const Twins first = twin.normal(state, kCount, 0.01);
  const Twins second = twin.values(state, std::vector<double>(kCount, 0.01));
  const Twins gradients = twin.normal(gradient, kCount, 0.1, 1);
  const Twins factor = twin.values(HEADROOM_FP32, {0.5});
  const Twins none = twin.values(HEADROOM_FP32, {0});
  const auto run = [&](const Twins& with) {
    twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
      const HeadroomAdamW values = step(3, at(with));
      return t.adamw(d, 0, parameters_here ? at(parameters) : nullptr, parameter,
                     master ? at(copy) : nullptr, at(first), at(second), state, at(gradients),
                     gradient, kCount, &values);
    });
    twin.compare("parameters", parameters);
    twin.compare("master", copy);
    twin.compare("first moment", first);
    twin.compare("second moment", second);
  };
  run(factor);
  run(none);  // This step is skipped.
  twin.end();
}

void steps_in_8_bits(Twin& twin, std::int32_t parameter, std::int32_t gradient, bool master) {
  constexpr std::int64_t kCount = 1300;
  constexpr std::size_t kBlocks = 6;
  twin.begin("adamw 8-bit " + name_of(parameter) + " " + name_of(gradient));
  const std::vector<float> signed_code = exec::signed_state_code();
  const std::vector<float> unsigned_code = exec::unsigned_state_code();
  const Twins parameters = twin.normal(parameter, kCount);
  const Twins copy = twin.normal(HEADROOM_FP32, kCount);
  std::vector<double> bytes;
  for (std::int64_t i = 0; i < kCount; ++i) {
    bytes.push_back(static_cast<double>(twin.random().between(0, 255)));
  }
  const Twins first = twin.values(HEADROOM_UINT8, bytes);
  const Twins second = twin.values(HEADROOM_UINT8, bytes);
  const Twins first_scale = twin.values(HEADROOM_FP32, std::vector<double>(kBlocks, 0.02));
  const Twins second_scale = twin.values(HEADROOM_FP32, std::vector<double>(kBlocks, 0.003));
  const Twins codes = twin.values(HEADROOM_FP32, {signed_code.begin(), signed_code.end()});
  const Twins positive = twin.values(HEADROOM_FP32, {unsigned_code.begin(), unsigned_code.end()});
  const Twins gradients = twin.normal(gradient, kCount, 0.05);
  const Twins factor = twin.values(HEADROOM_FP32, {0.5});
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    const HeadroomAdamW values = step(7, at(factor));
    const auto u8 = [&](const Twins& x) { return static_cast<std::uint8_t*>(at(x)); };
    const auto f32 = [&](const Twins& x) { return static_cast<float*>(at(x)); };
    return t.adamw_8bit(d, 0, at(parameters), parameter, master ? at(copy) : nullptr, u8(first),
                        u8(second), f32(first_scale), f32(second_scale), f32(codes), f32(positive),
                        at(gradients), gradient, kCount, &values);
  });
  twin.compare("parameters", parameters);
  twin.compare("master", copy);
  twin.compare("first scale", first_scale);
  twin.compare("second scale", second_scale);
  // A moment half way between two numbers may become either; their bytes are neighbours.
  for (const Twins& moments : {first, second}) {
    if (!twin.can_compare()) {
      break;
    }
    const std::vector<double> a = twin.numbers(moments, 0);
    const std::vector<double> b = twin.numbers(moments, 1);
    int neighbours = 0;
    double worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      neighbours += a[i] != b[i] ? 1 : 0;
      worst = std::max(worst, std::abs(a[i] - b[i]));
    }
    twin.add({.what = "adamw 8-bit: bytes", .error = worst <= 1 && neighbours <= 13 ? 0.0 : 100.0});
  }
  twin.end();
}

}  // namespace

void compare_optimizer(Twin& twin) {
  for (const std::int32_t type : kTypes) {
    norms(twin, type);
    for (const std::int32_t gradient : kTypes) {
      steps(twin, type, gradient, HEADROOM_FP32, false, true);
      steps(twin, type, gradient, type, true, true);
      steps_in_8_bits(twin, type, gradient, gradient == HEADROOM_FP32);
    }
  }
  steps(twin, HEADROOM_BF16, HEADROOM_FP32, HEADROOM_FP32, true, false);
}

}  // namespace headroom::test
