#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/executor/executions.h"
#include "validators/executor/cpu/fp8.h"

namespace headroom::exec {
namespace {

using cpu::fp8_byte;
using cpu::fp8_value;

/// Every width is a multiple of 16, as products in 8 bits need it.
Execution even_execution() {
  ir::ModelSpec model = test::tiny_model(3);
  model.hidden = 32;
  model.head_dim = 8;
  model.ffn = 48;
  model.embedding_dim = model.hidden;
  Execution execution = test::tiny_execution(model);
  execution.sequence = 8;
  execution.steps = 2;
  execution.clip_norm = 1;
  return execution;
}

Execution in_8_bits(Execution execution) {
  execution.types.fp8_products = true;
  return execution;
}

RankRun run_small(const Execution& execution) {
  REQUIRE(check_execution(execution));
  Result<RankRun> ran = run_rank(execution, cpu_backend(), 0, Bytes{kGiB});
  REQUIRE(ran);
  return std::move(ran).value();
}

}  // namespace

TEST_CASE("8 bits: numbers are those of the paper's table") {
  // Source: Micikevicius et al. 2022, arXiv:2209.05433, table 1.
  CHECK(fp8_value(0x7e, HEADROOM_E4M3) == 448);
  CHECK(fp8_value(0x01, HEADROOM_E4M3) == std::ldexp(1, -9));
  CHECK(fp8_value(0x08, HEADROOM_E4M3) == std::ldexp(1, -6));
  CHECK(std::isnan(fp8_value(0x7f, HEADROOM_E4M3)));
  CHECK(fp8_value(0x7b, HEADROOM_E5M2) == 57344);
  CHECK(fp8_value(0x01, HEADROOM_E5M2) == std::ldexp(1, -16));
  CHECK(fp8_value(0x04, HEADROOM_E5M2) == std::ldexp(1, -14));
  CHECK(fp8_value(0xfc, HEADROOM_E5M2) == -HUGE_VAL);
  CHECK(std::isnan(fp8_value(0x7d, HEADROOM_E5M2)));
}

TEST_CASE("8 bits: rounding is to the nearest number, to even in the middle, and saturates") {
  for (const std::int32_t format : {HEADROOM_E4M3, HEADROOM_E5M2}) {
    CAPTURE(format);
    const int greatest = format == HEADROOM_E4M3 ? 0x7e : 0x7b;
    for (int byte = 0; byte <= greatest; ++byte) {
      CAPTURE(byte);
      const double value = fp8_value(static_cast<std::uint8_t>(byte), format);
      CHECK(fp8_byte(value, format) == byte);
      CHECK(fp8_byte(-value, format) == (byte | 0x80));
      if (byte == greatest) {
        continue;
      }
      const double next = fp8_value(static_cast<std::uint8_t>(byte + 1), format);
      CHECK(next > value);
      const double middle = (value + next) / 2;
      CHECK(fp8_byte(middle, format) == (byte % 2 == 0 ? byte : byte + 1));
      CHECK(fp8_byte(std::nextafter(middle, 0), format) == byte);
      CHECK(fp8_byte(std::nextafter(middle, 1e9), format) == byte + 1);
    }
    CHECK(fp8_byte(1e30, format) == greatest);
    CHECK(fp8_byte(-HUGE_VAL, format) == (greatest | 0x80));
    CHECK(std::isnan(fp8_value(fp8_byte(std::nan(""), format), format)));
  }
}

TEST_CASE("8 bits: a product of numbers that the format has is exact, with both scales") {
  constexpr std::int64_t kM = 3, kN = 2, kK = 16;
  std::vector<double> a(kM * kK);
  std::vector<double> b(kN * kK);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<double>(i % 31) - 15;  // Integers up to 16 have three bits of fraction.
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    b[i] = 0.25 * (static_cast<double>(i * 7 % 31) - 15);
  }
  a[5] = 448;   // The scale of A is 1,
  b[9] = -112;  // that of B is a quarter.
  const HeadroomDeviceTable& table = cpu_backend();
  const std::unique_ptr<Device> device = Device::open(table, 0, Bytes{0}).value();
  HeadroomDevice* const d = device->handle();
  struct Bytes8 {
    std::vector<std::uint8_t> rows, transposed;
    double scale = 0;
  };
  const auto quantised = [&](const std::vector<double>& x, std::int64_t rows) {
    Bytes8 made{.rows = std::vector<std::uint8_t>(x.size()),
                .transposed = std::vector<std::uint8_t>(x.size())};
    double largest = 0;
    CHECK(table.largest_magnitude(d, 0, &largest, HEADROOM_FP64, x.data(), HEADROOM_FP64, rows * kK,
                                  nullptr) == 0);
    CHECK(table.quantise(d, 0, made.rows.data(), made.transposed.data(), &made.scale, x.data(),
                         HEADROOM_FP64, rows, kK, &largest, HEADROOM_E4M3) == 0);
    return made;
  };
  const Bytes8 left = quantised(a, kM);
  const Bytes8 right = quantised(b, kN);
  CHECK(left.scale == 1);
  CHECK(right.scale == 0.25);
  CHECK(left.transposed[5 * kM + 1] == left.rows[1 * kK + 5]);
  std::vector<double> c(kM * kN, 10);
  HeadroomGemm gemm{};
  gemm.m = kM;
  gemm.n = kN;
  gemm.k = kK;
  gemm.transpose_b = 1;
  gemm.type = HEADROOM_FP8;
  gemm.output_type = HEADROOM_FP64;
  gemm.alpha = 1;
  gemm.beta = 0.5;
  gemm.a = left.rows.data();
  gemm.b = right.rows.data();
  gemm.c = c.data();
  gemm.a_row = kK;
  gemm.b_row = kK;
  gemm.c_row = kN;
  gemm.outer = 1;
  gemm.inner = 1;
  gemm.a_scale = &left.scale;
  gemm.b_scale = &right.scale;
  CHECK(table.gemm(d, 0, &gemm) == 0);
  for (std::size_t row = 0; row < kM; ++row) {
    for (std::size_t column = 0; column < kN; ++column) {
      double sum = 5;
      for (std::size_t i = 0; i < kK; ++i) {
        sum += a[row * kK + i] * b[column * kK + i];
      }
      CHECK(c[row * kN + column] == sum);
    }
  }
}

TEST_CASE("8 bits: a step is near the exact one, and is not it") {
  const RankRun exact = run_small(even_execution());
  const RankRun rounded = run_small(in_8_bits(even_execution()));
  REQUIRE(exact.losses.size() == rounded.losses.size());
  for (std::size_t step = 0; step < exact.losses.size(); ++step) {
    CHECK(rounded.losses[step] == doctest::Approx(exact.losses[step]).epsilon(0.01));
    CHECK(rounded.losses[step] != exact.losses[step]);
  }
  // Rounding to three and two bits of fraction is off by 6 and 12 % at most, in each operand.
  CHECK(*rounded.gradient_norm == doctest::Approx(*exact.gradient_norm).epsilon(0.1));
}

TEST_CASE("8 bits: recomputation, ZeRO and offload change no bit") {
  const RankRun plain = run_small(in_8_bits(even_execution()));
  const auto check = [&plain](const Execution& execution) {
    const RankRun other = run_small(execution);
    CHECK(other.losses == plain.losses);
    CHECK(other.gradient_norm == plain.gradient_norm);
  };
  for (const ir::RecomputedParts parts :
       {ir::RecomputedParts{.layer = true}, ir::RecomputedParts{.attention = true, .mlp = true}}) {
    Execution again = in_8_bits(even_execution());
    for (ir::RecomputedParts& layer : again.layers) {
      layer = parts;
    }
    check(again);
  }
  Execution offloaded = in_8_bits(even_execution());
  offloaded.activations_on_host = true;
  offloaded.units = {.zero_stage = 3, .parameters_on_host = true, .states_on_host = true};
  check(offloaded);
}

TEST_CASE("8 bits: memory is as predicted, to the byte, on every division of the model") {
  for (const int tensor : {1, 2}) {
    for (const bool share_tokens : {false, true}) {
      Execution execution = in_8_bits(even_execution());
      execution.model.kv_heads = execution.model.heads;
      execution.model.ffn = 96;
      execution.types.parameter = execution.types.compute = ir::DType::kBf16;
      execution.types.gradient = execution.types.state = ir::DType::kFp32;
      execution.types.master = true;
      execution.division = {.tensor = tensor, .data = 2};
      execution.units.zero_stage = 2;
      execution.sequence_parallel = share_tokens && tensor > 1;
      execution.accumulation = 2;
      const RankRun measured = run_small(execution);
      const cost::MemoryTimeline predicted = predict_rank(execution, Bytes{kGiB});
      REQUIRE(measured.phases.size() == predicted.phases.size());
      for (std::size_t phase = 0; phase < predicted.phases.size(); ++phase) {
        CHECK(measured.phases[phase].peak_allocated == predicted.phases[phase].peak_allocated);
        CHECK(measured.phases[phase].peak_reserved == predicted.phases[phase].peak_reserved);
      }
    }
  }
}

TEST_CASE("8 bits: layers keep less for backward, and sizes that do not go are refused") {
  Execution wide = even_execution();
  wide.types.parameter = wide.types.compute = wide.types.gradient = ir::DType::kBf16;
  wide.sequence = 64;
  wide.model.max_positions = 64;
  const auto kept = [](const Execution& execution) {
    return predict_rank(execution, kUnlimitedMemory).phases.at(1).allocated_after;
  };
  CHECK(kept(in_8_bits(wide)) < kept(wide));

  Execution odd = in_8_bits(even_execution());
  odd.sequence = 7;
  const Status refused = check_execution(odd);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().wanted.find("multiples of 16") != std::string::npos);
  CHECK_FALSE(check_execution(
      in_8_bits(test::tiny_execution(test::with_experts(test::tiny_model(1), true)))));
}

}  // namespace headroom::exec
