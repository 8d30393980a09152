#include "costmodel/hardware/kernel_time.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "costmodel/hardware/catalogue.h"
#include "model_ir/base/file.h"
#include "model_ir/json/entry_folder.h"
#include "model_ir/json/json_value.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cost {
namespace {

using test::kConfigs;

DevicePerformance performance(const std::string& name) {
  const Result<DeviceSpec> device = load_device(kConfigs, name);
  REQUIRE(device);
  Result<DevicePerformance> performance = performance_of(kConfigs, *device);
  if (!performance) {
    FAIL(to_text(performance.error()));
  }
  return std::move(performance).value();
}

double tera_flops(const DevicePerformance& device, const ir::GemmShape& shape) {
  return 2e-12 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
         static_cast<double>(shape.k) / gemm_time(device, shape).value();
}

ir::JsonValue json_in(const std::string& path) {
  const Result<std::string> text = read_file(path);
  REQUIRE(text);
  Result<ir::JsonValue> value = ir::parse_json(*text, path);
  REQUIRE(value);
  return std::move(value).value();
}

}  // namespace

TEST_CASE(
    "kernel time: every NVIDIA GPU of the catalogue has a performance, its own or its family's") {
  const Result<std::vector<DeviceSpec>> devices = list_devices(kConfigs);
  REQUIRE(devices);
  for (const DeviceSpec& device : *devices) {
    if (device.vendor != "nvidia") {
      continue;
    }
    CAPTURE(device.name);
    const Result<DevicePerformance> found = performance_of(kConfigs, device);
    REQUIRE(found);
    const bool own = found->file.ends_with("/" + device.name + ".json");
    CHECK(own == found->note.empty());
    CHECK(found->gemm.half <= device.half.value_or(device.fp32));
    CHECK(found->memory.rate <= device.memory_bandwidth);
  }
}

TEST_CASE("kernel time: less power for a flop of the datasheet means less of the family's rate") {
  const DevicePerformance full = performance("h100-80gb");
  const DevicePerformance limited = performance("h100-96gb");  // 500 W in place of 700.
  CHECK(limited.gemm.half / full.gemm.half ==
        doctest::Approx(std::pow(5.0 / 7, std::log(271.0 / 253) / std::log(4.0 / 3))));
  CHECK(limited.attention.flash2.backward_64 / full.attention.flash2.backward_64 ==
        doctest::Approx(limited.gemm.half / full.gemm.half));
  const Result<DeviceSpec> reference = load_device(kConfigs, "h100-80gb");
  REQUIRE(reference);
  DeviceSpec roomy = *reference;
  roomy.name = "roomy";
  roomy.power_watts = 1000;
  const Result<DevicePerformance> unlimited = performance_of(kConfigs, roomy);
  REQUIRE(unlimited);
  CHECK(unlimited->gemm.half == full.gemm.half);
}

TEST_CASE(
    "kernel time: products of a training step on H100, H200 and B200 run as fast as measured") {
  // 780 and 982 TFLOP/s in all of Llama 3.1 8B's products, 8192 tokens (docs/time-model.md).
  for (const auto& [name, rate] :
       {std::pair{"h100-80gb", 780.0}, std::pair{"h200", 780.0}, std::pair{"b200", 982.0}}) {
    const double down = tera_flops(performance(name), {.m = 8192, .n = 4096, .k = 14336});
    CHECK(down == doctest::Approx(rate).epsilon(0.06));
  }
}

TEST_CASE("kernel time: rows that are no multiple of 16 bytes cost products their rate") {
  // A head of 4096 by 32000, 32002 and 32001 words on an H100: 679, 281 and 100 TFLOP/s forward,
  // 737, 274 and 147 for the input's gradient; an odd number of tokens costs nothing.
  const DevicePerformance h100 = performance("h100-80gb");
  const auto rate = [&](std::int64_t words, ir::GemmLayout layout) {
    return layout == ir::GemmLayout::kTN
               ? tera_flops(h100, {.m = 4096, .n = words, .k = 4096})
               : tera_flops(h100, {.m = 4096, .n = 4096, .k = words, .layout = layout});
  };
  for (const ir::GemmLayout layout : {ir::GemmLayout::kTN, ir::GemmLayout::kNN}) {
    CHECK(rate(32002, layout) / rate(32000, layout) == doctest::Approx(0.4).epsilon(0.05));
    CHECK(rate(32001, layout) / rate(32000, layout) == doctest::Approx(0.18).epsilon(0.05));
  }
  const double even = tera_flops(h100, {.m = 2048, .n = 4096, .k = 4096});
  CHECK(tera_flops(h100, {.m = 2047, .n = 4096, .k = 4096}) == doctest::Approx(even).epsilon(0.01));
}

TEST_CASE("kernel time: elements handled one by one take their own time where that is longer") {
  const DevicePerformance h100 = performance("h100-80gb");
  ir::TrafficShape shape{.bytes = 4LL * 8192 * 14336};
  const Seconds wide = traffic_time(h100, shape);
  shape.elements = 8192LL * 14336;
  const Seconds single = traffic_time(h100, shape);
  CHECK(wide.value() == doctest::Approx(157e-6).epsilon(0.05));  // A copy on an H100.
  // A product with a row: 298 us alone, and in a step 0.30 to 0.36 million million elements a
  // second.
  CHECK(single.value() > 326e-6);
  CHECK(single.value() < 392e-6);
  shape.bytes *= 100;
  CHECK(traffic_time(h100, shape).value() == doctest::Approx(100 * wide.value()).epsilon(0.03));
}

TEST_CASE("kernel time: where a framework's kernels are wide, only PyTorch's own go by elements") {
  DevicePerformance b200 = performance("b200");
  ir::TrafficShape shape{.bytes = 4LL * 8192 * 14336, .elements = 8192LL * 14336};
  const Seconds single = traffic_time(b200, shape);
  CHECK(single.value() ==
        doctest::Approx(8192.0 * 14336 / b200.memory.elements + b200.memory.floor.value()));
  b200.memory.wide = true;
  CHECK(traffic_time(b200, shape) < single);
  shape.kind = ir::TrafficKind::kOneByOne;
  CHECK(traffic_time(b200, shape) == single);
}

TEST_CASE("kernel time: products of MXFP8 take longer than those with a scale per tensor") {
  const DevicePerformance b300 = performance("b300");
  ir::GemmShape shape{.m = 15872, .n = 16384, .k = 4096, .dtype = ir::DType::kFp8};
  const double whole = gemm_time(b300, shape).value();
  shape.micro_scaled = true;
  CHECK(gemm_time(b300, shape).value() / whole == doctest::Approx(1.051).epsilon(0.01));
}

TEST_CASE("kernel time: AdamW's lists, its fused step and 8-bit states take what an H100 took") {
  // Llama 3.1 8B: eight passes over its parameters in 16 bits, which move 42 bytes of each; one
  // kernel, which moves 14; and bitsandbytes, 10 (tests/gpu/results, tests/measured/gpu_h100).
  constexpr std::int64_t kParameters = 8'030'261'248;
  const DevicePerformance h100 = performance("h100-80gb");
  const auto taken = [&](ir::TrafficKind kind, std::int64_t bytes, std::int64_t passes) {
    return traffic_time(
               h100, {.bytes = bytes * kParameters, .kind = kind, .elements = passes * kParameters})
        .value();
  };
  CHECK(taken(ir::TrafficKind::kList, 42, 8) == doctest::Approx(128.1e-3).epsilon(0.03));
  CHECK(taken(ir::TrafficKind::kFusedStep, 14, 1) == doctest::Approx(51.5e-3).epsilon(0.05));
  CHECK(taken(ir::TrafficKind::kQuantisedStep, 10, 1) == doctest::Approx(254e-3).epsilon(0.05));
}

TEST_CASE("kernel time: what goes by elements goes with the multiprocessors of a family's GPUs") {
  const DevicePerformance h100 = performance("h100-80gb");
  const DevicePerformance h20 = performance("h20");
  const double chips = h20.multiprocessors / static_cast<double>(h100.multiprocessors);
  CHECK(chips < 0.6);
  CHECK(h20.memory.elements / h100.memory.elements == doctest::Approx(chips));
  CHECK(h100.memory.list_element / h20.memory.list_element == doctest::Approx(chips));
  CHECK(h100.memory.quantised_step_element / h20.memory.quantised_step_element ==
        doctest::Approx(chips));
}

TEST_CASE("kernel time: adapters in fp32 take about what an H100 took") {
  // LoRA of rank 16 on 4096 tokens: 44 us down, 36 us up (tests/gpu/results).
  const DevicePerformance h100 = performance("h100-80gb");
  const auto taken = [&](std::int64_t n, std::int64_t k) {
    return gemm_time(h100, {.m = 4096, .n = n, .k = k, .dtype = ir::DType::kFp32}).value();
  };
  CHECK(taken(16, 4096) == doctest::Approx(44e-6).epsilon(0.25));
  CHECK(taken(4096, 16) == doctest::Approx(36e-6).epsilon(0.25));
}

TEST_CASE("kernel time: a family without measurements is refused by name") {
  const Result<DeviceSpec> gaudi = load_device(kConfigs, "gaudi-2");
  REQUIRE(gaudi);
  const auto found = performance_of(kConfigs, *gaudi);
  REQUIRE_FALSE(found);
  CHECK(found.error().got == "gaudi-2");
  CHECK_FALSE(found.error().fix.empty());
}

TEST_CASE("kernel time: a device that nobody measured has an estimate from its datasheet") {
  for (const char* const name :
       {"mi210", "mi250x", "mi300x", "mi325x", "mi355x", "gaudi-2", "gaudi-3"}) {
    CAPTURE(name);
    const DeviceSpec device = load_device(kConfigs, name).value();
    const auto estimate = performance_from_datasheet(kConfigs, device);
    REQUIRE(estimate);
    CHECK(estimate->estimated);
    CHECK(estimate->note.find("estimates from its datasheet") != std::string::npos);
    CHECK(estimate->gemm.half < *device.half);
    CHECK(estimate->gemm.half > 0.3 * *device.half);
  }
  CHECK_FALSE(performance_of(kConfigs, load_device(kConfigs, "h100-80gb").value())->estimated);
}

TEST_CASE("kernel time: files keep to their schemas, and each group names a source of its file") {
  for (const char* const kind : {"performance", "link-performance"}) {
    const std::string folder =
        kConfigs + "/performance" + (std::string(kind) == "performance" ? "" : "/links");
    const ir::JsonValue schema = json_in(kConfigs + "/schema/" + kind + ".schema.json");
    const ir::EntryFolder entries{.path = folder, .kind = kind, .list_command = {}};
    const Result<std::vector<std::string>> names = ir::entry_names(entries);
    REQUIRE(names);
    for (const std::string& name : *names) {
      if (name != "families") {
        CAPTURE(name);
        CHECK(test::SchemaCheck::faults(schema, json_in(ir::entry_path(entries, name))).empty());
      }
    }
  }
}

TEST_CASE("kernel time: a file of one's own is read for the device it was measured on") {
  const DeviceSpec device = load_device(kConfigs, "h100-80gb").value();
  const LinkSpec host = load_link(kConfigs, device.host_link).value();
  const std::string text = read_file(kConfigs + "/performance/h100-80gb.json").value();
  const test::TemporaryFolder folder;
  const auto with = [&](const std::string& key, const std::string& value) {
    std::string changed = text;
    const std::size_t at = changed.find("\"" + key + "\": ");
    REQUIRE(at != std::string::npos);
    const std::size_t end = changed.find_first_of(",}\n", at);
    changed.replace(at, end - at, "\"" + key + "\": " + value);
    return read_performance(folder.write("own.json", changed), device, host);
  };
  CHECK(with("half_share", "0.5")->gemm.half == 0.5 * *device.half);
  const auto zero = with("half_share", "0");
  REQUIRE_FALSE(zero);
  CHECK(zero.error().pointer == "/gemm/half_share");
  CHECK(zero.error().got == "0");
  CHECK_FALSE(with("floor_seconds", "-1e-6"));
  CHECK_FALSE(with("half_share", "0.5, \"half_shares\": 1"));
}

TEST_CASE("kernel time: large products come near what was measured on the device") {
  // stas00/ml-engineering, compute/accelerator: the best large bf16 product of the A100, 271
  // TFLOP/s. A typical large product runs at 0.85 to 1.05 of the best one.
  CHECK(tera_flops(performance("a100-80gb"), {8192, 8192, 8192}) ==
        doctest::Approx(255).epsilon(0.1));
}

TEST_CASE("kernel time: one more tile than multiprocessors costs a second wave") {
  DevicePerformance device = performance("h100-80gb");
  device.gemm.wave_loss = 1;
  device.gemm.overlap_loss = 0;
  device.gemm.tile_loss = 1e3;  // Only the largest tiles pay.
  // 132 multiprocessors: 11 x 12 tiles of 256 x 128 fill one wave, a 13th column begins a second.
  const Seconds full = gemm_time(device, {11 * 256, 12 * 128, 1 << 16}) - device.gemm.floor;
  const Seconds more = gemm_time(device, {11 * 256, 13 * 128, 1 << 16}) - device.gemm.floor;
  CHECK(more / full > 1.9);  // Smaller tiles, of which three waves are needed, gain little.
}

TEST_CASE("kernel time: a product of few rows takes the time to read its weights") {
  const DevicePerformance device = performance("h100-80gb");
  const Seconds reading = Bytes{2 * 16384 * 16384} / device.memory.rate;
  const Seconds time = gemm_time(device, {1, 16384, 16384});
  CHECK(time > reading);
  CHECK(time / reading < 1.3);
}

TEST_CASE("kernel time: products in series fill each other's last waves, sums show their results") {
  const DevicePerformance device = performance("b200");
  // 148 multiprocessors: 80 tiles of 128 x 256 leave half of a single product's wave idle.
  ir::GemmShape one{.m = 1280, .n = 2048, .k = 4096, .count = 1};
  const Seconds alone = gemm_time(device, one);
  one.count = 40;
  one.batch = ir::GemmBatch::kSeries;
  CHECK(gemm_time(device, one).value() < 0.9 * 40 * alone.value());
  // 40 experts' gradients of 3072 x 5120 in fp32 from 616 tokens each, read and written: 5 GB.
  ir::GemmShape gradient{.m = 3072,
                         .n = 5120,
                         .k = 616,
                         .count = 40,
                         .layout = ir::GemmLayout::kNT,
                         .batch = ir::GemmBatch::kSeries};
  const Seconds written = gemm_time(device, gradient);
  gradient.accumulate = true;
  const double moved = 40.0 * 3072 * 5120 * 8;
  const double shown = device.gemm.accumulate_loss * moved / device.memory.rate.value();
  CHECK(gemm_time(device, gradient).value() > written.value() + 0.8 * shown);
}

TEST_CASE("kernel time: permutations and cross entropy are slower than elementwise kernels") {
  const DevicePerformance device = performance("b200");
  ir::TrafficShape traffic{.bytes = std::int64_t{1} << 32, .launches = 2};
  const Seconds elementwise = traffic_time(device, traffic);
  traffic.kind = ir::TrafficKind::kCrossEntropy;
  const Seconds loss = traffic_time(device, traffic);
  CHECK(loss > elementwise);
  CHECK(loss.value() == doctest::Approx(2 * device.memory.floor.value() +
                                        std::exp2(32) / device.memory.cross_entropy.value()));
  traffic.kind = ir::TrafficKind::kPermutation;
  CHECK(traffic_time(device, traffic) > loss);
}

TEST_CASE("kernel time: causal attention computes half the pairs, a window its band") {
  const ir::AttentionShape full{.batch = 1,
                                .heads = 1,
                                .kv_heads = 1,
                                .queries = 4096,
                                .keys = 4096,
                                .head_dim = 128,
                                .value_dim = 128,
                                .causal = false};
  CHECK(visible_pairs(full) == doctest::Approx(4096.0 * 4096));
  ir::AttentionShape causal = full;
  causal.causal = true;
  CHECK(visible_pairs(causal) == doctest::Approx(4096.0 * 4097 / 2));
  // 3 queries of 5 keys see 3 + 4 + 5 of them.
  causal.queries = 3;
  causal.keys = 5;
  CHECK(visible_pairs(causal) == doctest::Approx(12));
  causal.window = 2;  // Two each.
  CHECK(visible_pairs(causal) == doctest::Approx(6));
}

TEST_CASE("property: kernel time: more work never takes less time, and none takes nothing") {
  test::Random random = test::seeded_random();
  CAPTURE(random.seed());
  for (const char* const name : {"a100-80gb", "h100-80gb", "b200", "l40s", "v100-32gb"}) {
    const DevicePerformance device = performance(name);
    for (int i = 0; i < 2'000; ++i) {
      ir::GemmShape shape{.m = random.between(1, 20'000),
                          .n = 8 * random.between(1, 2'500),  // Rows stay whole words of 16 bytes.
                          .k = random.between(1, 20'000),
                          .count = random.between(1, 8)};
      CAPTURE(name);
      CAPTURE(shape.m);
      CAPTURE(shape.n);
      CAPTURE(shape.k);
      const Seconds before = gemm_time(device, shape);
      CHECK(before >= device.gemm.floor);
      ir::GemmShape more = shape;
      more.k += 128;
      // A longer k may allow one split more: by no more than that is it quicker.
      CHECK(gemm_time(device, more).value() > 0.75 * before.value());
      more = shape;
      more.n *= 2;
      CHECK(gemm_time(device, more) >= before);
      const ir::TrafficShape traffic{.bytes = random.between(0, std::int64_t{1} << 32)};
      ir::TrafficShape larger = traffic;
      larger.bytes += 4096;
      CHECK(traffic_time(device, traffic) > Seconds{0});
      CHECK(traffic_time(device, larger) > traffic_time(device, traffic));
    }
  }
}

}  // namespace headroom::cost
