#include <array>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "cli/report/calibration_answer.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/performance_json.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/timed_backend.h"
#include "validators/calibrate/device_file.h"
#include "validators/calibrate/run_cases.h"

namespace headroom::calibrate {
namespace {

using test::kConfigs;
using test::TimedBackend;

CatalogueGpu h100() {
  Result<CatalogueGpu> gpu = catalogue_gpu(kConfigs, "h100-80gb");
  REQUIRE(gpu);
  return std::move(gpu).value();
}

/// A GPU that differs from the catalogue's in everything that is measured.
cost::DevicePerformance other_performance() {
  cost::DevicePerformance other = h100().performance;
  other.gemm.half = 0.87 * other.gemm.half;
  other.gemm.fp32 = 1.1 * other.gemm.fp32;
  other.gemm.k_overhead *= 1.3;
  other.gemm.wave_loss *= 0.8;
  other.gemm.input_gradient = 1.06;
  other.gemm.weight_gradient = 1.09;
  other.gemm.floor = Seconds{4.1e-6};
  other.gemm.uneven_rows = 0.5;
  other.gemm.odd_rows = 0.3;
  other.memory.rate = 0.93 * other.memory.rate;
  other.memory.cached = 1.7 * other.memory.rate;
  other.memory.floor = Seconds{2.6e-6};
  other.launch.driver = Seconds{1.9e-6};
  other.host.latency = Seconds{8e-6};
  other.host.to_device = BytesPerSecond{51e9};
  other.host.to_host = BytesPerSecond{53e9};
  double factor = 0.5;
  for (FlopsPerSecond* const rate :
       {&other.attention.executor.forward_64, &other.attention.executor.forward_128,
        &other.attention.executor.backward_64, &other.attention.executor.backward_128,
        &other.attention.executor.forward_wide, &other.attention.executor.backward_wide}) {
    *rate = factor * *rate;
    factor += 0.07;
  }
  return other;
}

std::vector<Case> cases_of(const CatalogueGpu& gpu) {
  return all_cases(gpu.performance.memory.cache);
}

const CaseObserver kSilent{.progress = [](const CaseProgress&) {}, .stop = [] { return false; }};

std::unique_ptr<exec::Device> open(TimedBackend& backend) {
  Result<std::unique_ptr<exec::Device>> device = exec::Device::open(backend.table(), 0, kWorkspace);
  REQUIRE(device);
  return std::move(device).value();
}

/// Runs the cases on a device and returns what the file then has.
Result<bool> measure(TimedBackend& backend, const std::vector<Case>& cases, const std::string& file,
                     const CaseObserver& observer = kSilent) {
  const std::unique_ptr<exec::Device> device = open(backend);
  Result<MeasurementWriter> writer =
      MeasurementWriter::open(file, measured_device(device->info(), "2026-11-27"));
  if (!writer) {
    return std::move(writer).error();
  }
  Result<std::unique_ptr<Bench>> bench =
      Bench::make(*device, cases, [&backend] { return backend.host; });
  if (!bench) {
    return std::move(bench).error();
  }
  return run_cases(*bench.value(), cases, writer.value(), observer);
}

void check_schema(const std::string& name, const ir::JsonValue& document) {
  for (const std::string& fault : test::SchemaCheck::faults(test::read_schema(name), document)) {
    FAIL_CHECK(name << fault);
  }
}

/// The answer is what its schema says, and has 80 columns at most.
void check_report(const cli::CalibrationAnswer& answer) {
  const Result<ir::JsonValue> json = ir::parse_json(cli::calibration_json(answer), "answer");
  REQUIRE(json);
  check_schema("calibration.schema.json", *json);
  const std::string text =
      cli::calibration_text(answer, cli::plain_terminal(cli::ColorChoice::kNever));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(cli::columns_of(line) <= 80);
  }
  CHECK(text.find("headroom fit MODEL --gpu my-gpu.json") != std::string::npos);
}

MeasurementFile content_of(const std::string& file) {
  Result<std::optional<MeasurementFile>> read = read_measurements(file);
  REQUIRE(read);
  REQUIRE(read->has_value());
  return **read;
}

}  // namespace

TEST_CASE("calibrate: medians and spreads are those of the quartiles") {
  CHECK(median_of({3, 1, 2}) == 2);
  CHECK(median_of({4, 1, 2, 3}) == 2.5);
  CHECK(spread_of({5}) == 0);
  CHECK(spread_of({0, 0, 0}) == 0);
  CHECK(spread_of({10, 10, 10, 10, 10, 10, 10, 10, 99}) == 0);   // One outlier does not count.
  CHECK(spread_of({8, 9, 10, 11, 12}) == doctest::Approx(0.2));  // Quartiles 9 and 11.
}

TEST_CASE("calibrate: cases have names of their own, and need memory that small GPUs have") {
  const std::vector<Case> cases = cases_of(h100());
  std::set<std::string> names;
  for (const Case& one : cases) {
    CAPTURE(one.name);
    CHECK(names.insert(one.name).second);
    CHECK(memory_of(one) > Bytes{0});
    CHECK(memory_of(one) <= memory_of(cases));
  }
  CHECK(memory_of(cases) < Bytes{2 * kGiB});
}

TEST_CASE("calibrate: times predicted with a calibrated file are those that were measured") {
  const CatalogueGpu gpu = h100();
  const std::vector<Case> cases = cases_of(gpu);
  TimedBackend backend{.performance = other_performance()};
  const test::TemporaryFolder folder;
  const std::string lines = folder.path("gpu.jsonl");
  const Result<bool> complete = measure(backend, cases, lines);
  REQUIRE(complete);
  CHECK(*complete);
  CHECK(backend.live == 0);

  const MeasurementFile file = content_of(lines);
  CHECK(unsteady(file).empty());
  const Result<Figures> figures = fit_figures(gpu, file);
  REQUIRE(figures);
  CHECK(figures->p90_error < 0.01);
  CHECK(figures->fp16_time == doctest::Approx(1).epsilon(0.02));
  CHECK(figures->without_workspace == doctest::Approx(1.25).epsilon(0.02));
  CHECK(figures->pageable_to_device.value() == doctest::Approx(51e9 / 4).epsilon(0.01));
  const Result<ir::JsonValue> document = device_document(gpu, file.device, *figures);
  REQUIRE(document);
  const std::string path = folder.write("gpu.json", to_pretty_json(*document));
  check_schema("gpu.schema.json", *document);
  check_schema("performance.schema.json", *document->find("performance"));
  check_report({.gpu = gpu,
                .file = file,
                .figures = *figures,
                .unsteady = {},
                .output = "my-gpu.json",
                .measurements = "my-gpu.jsonl",
                .written = true});

  const Result<cost::DeviceSpec> device = cost::load_device(kConfigs, path);
  REQUIRE(device);
  CHECK(device->total == Bytes{backend.total_bytes});
  CHECK(device->name == "h100-80gb");  // So that its nodes are found.
  const Result<cost::DevicePerformance> read = cost::performance_of(kConfigs, *device);
  if (!read) {
    FAIL(to_text(read.error()));
  }
  const cost::DevicePerformance& truth = backend.performance;
  CHECK(read->note.empty());
  test::Random random = test::seeded_random();
  for (int i = 0; i < 300; ++i) {
    const ir::GemmShape shape{
        .m = 8 * random.between(16, 2'000),
        .n = 8 * random.between(16, 2'000),
        .k = 8 * random.between(16, 2'000),
        .dtype = random.pick<ir::DType>({ir::DType::kBf16, ir::DType::kBf16, ir::DType::kFp32}),
        .layout = random.pick<ir::GemmLayout>(
            {ir::GemmLayout::kTN, ir::GemmLayout::kNN, ir::GemmLayout::kNT})};
    CAPTURE(shape.m);
    CAPTURE(shape.n);
    CAPTURE(shape.k);
    CHECK(gemm_time(*read, shape) / gemm_time(truth, shape) == doctest::Approx(1).epsilon(0.03));
  }
  const auto same_attention = [&](bool backward, std::int64_t head_dim) {
    cost::DevicePerformance mine = *read;
    mine.attention.flash2 = mine.attention.executor;
    cost::DevicePerformance theirs = truth;
    theirs.attention.flash2 = theirs.attention.executor;
    const ir::AttentionShape shape{.batch = 2,
                                   .heads = 24,
                                   .kv_heads = 8,
                                   .queries = 3072,
                                   .keys = 3072,
                                   .head_dim = head_dim,
                                   .value_dim = head_dim,
                                   .backward = backward};
    return attention_time(mine, shape) / attention_time(theirs, shape);
  };
  for (const std::int64_t head_dim : {64, 96, 128, 256}) {
    CAPTURE(head_dim);
    CHECK(same_attention(false, head_dim) == doctest::Approx(1).epsilon(0.02));
    CHECK(same_attention(true, head_dim) == doctest::Approx(1).epsilon(0.02));
  }
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1} << 22, std::int64_t{1} << 30}) {
    CAPTURE(bytes);
    CHECK(traffic_time(*read, {.bytes = bytes}) / traffic_time(truth, {.bytes = bytes}) ==
          doctest::Approx(1).epsilon(0.01));
    for (const ir::CopyKind kind : {ir::CopyKind::kHostToDevice, ir::CopyKind::kDeviceToHost}) {
      const ir::CopyShape shape{.kind = kind, .bytes = bytes};
      CHECK(copy_time(*read, shape) / copy_time(truth, shape) == doctest::Approx(1).epsilon(0.01));
    }
  }
  CHECK(read->launch.driver.value() == doctest::Approx(1.9e-6));
  CHECK(read->launch.eager == truth.launch.eager);  // PyTorch's host is not measured.
}

TEST_CASE("calibrate: an interrupted run goes on with what is missing, in the same file") {
  const CatalogueGpu gpu = h100();
  const std::vector<Case> cases = cases_of(gpu);
  TimedBackend backend{.performance = gpu.performance};
  const test::TemporaryFolder folder;
  const std::string lines = folder.path("gpu.jsonl");
  int asked = 0;
  const Result<bool> first =
      measure(backend, cases, lines,
              {.progress = [](const CaseProgress&) {}, .stop = [&asked] { return ++asked > 5; }});
  REQUIRE(first);
  CHECK_FALSE(*first);
  const MeasurementFile begun = content_of(lines);
  CHECK(begun.measurements.size() == 5);
  CHECK_FALSE(fit_figures(gpu, begun));

  std::ofstream(lines, std::ios::app) << R"({"case": "gemm bf16 TN 5)";  // The power went off.
  CHECK(content_of(lines).measurements.size() == 5);
  std::vector<std::string> measured;
  const Result<bool> second = measure(backend, cases, lines,
                                      {.progress =
                                           [&measured](const CaseProgress& now) {
                                             if (now.next != nullptr) {
                                               measured.push_back(now.next->name);
                                             }
                                             CHECK(now.all == cases_of(h100()).size());
                                           },
                                       .stop = [] { return false; }});
  REQUIRE(second);
  CHECK(*second);
  CHECK(measured.size() == cases.size() - 5);
  CHECK(measured.front() == cases[5].name);
  const MeasurementFile whole = content_of(lines);
  CHECK(whole.measurements.size() == cases.size());
  CHECK(whole.measurements.front() == begun.measurements.front());

  backend.name = "NVIDIA H200";
  const Result<bool> other = measure(backend, cases, lines);
  REQUIRE_FALSE(other);
  CHECK(other.error().got.find("NVIDIA H100 80GB HBM3") != std::string::npos);
}

TEST_CASE("calibrate: lines of another form are refused with their number") {
  const test::TemporaryFolder folder;
  const std::string head =
      R"({"schema_version":1,"product":"P","libraries":"L","total_bytes":9,"usable_bytes":8,)"
      R"("compute_capability_major":9,"compute_capability_minor":0,"multiprocessors":1,)"
      R"("can_compute":true,"date":""})"
      "\n";
  CHECK(read_measurements(folder.write("good.jsonl", head))->has_value());
  for (const char* const line :
       {"{}", R"({"case":"x","calls":1,"seconds":[]})", R"({"case":"x","calls":0,"seconds":[1]})",
        R"({"case":"x","calls":1,"seconds":[-1]})", "nothing"}) {
    CAPTURE(line);
    const auto read = read_measurements(folder.write("bad.jsonl", head + line + "\n"));
    REQUIRE_FALSE(read);
    CHECK(read.error().file.ends_with("bad.jsonl, line 2"));
  }
  CHECK_FALSE(read_measurements(folder.path("none.jsonl"))->has_value());
}

TEST_CASE("calibrate: what scatters is measured again, and named if it goes on") {
  const CatalogueGpu gpu = h100();
  std::vector<Case> cases = cases_of(gpu);
  cases.resize(3);
  TimedBackend backend{.performance = gpu.performance};
  const test::TemporaryFolder folder;
  int asked = 0;
  constexpr int kBefore = 3 + 9;  // Clearing, two trials of the case, and its nine repetitions.
  backend.noise = [&asked] { return ++asked <= kBefore && asked % 2 == 0 ? 1.5 : 1.0; };
  REQUIRE(measure(backend, cases, folder.path("once.jsonl")));
  CHECK(unsteady(content_of(folder.path("once.jsonl"))).empty());

  backend.noise = [&asked] { return ++asked % 2 == 0 ? 1.5 : 1.0; };
  REQUIRE(measure(backend, cases, folder.path("always.jsonl")));
  const MeasurementFile file = content_of(folder.path("always.jsonl"));
  // The host's clock, by which its launches are measured, is steady.
  REQUIRE(unsteady(file).size() == 2);
  CHECK(spread_of(unsteady(file).front()->seconds) > kWidestSpread);
}

TEST_CASE("calibrate: a device that fails or is too small ends with one sentence") {
  const CatalogueGpu gpu = h100();
  std::vector<Case> cases = cases_of(gpu);
  const test::TemporaryFolder folder;
  TimedBackend failing{.performance = gpu.performance};
  failing.failure = "cublasLtMatmul failed: status 14";
  const Result<bool> failed = measure(failing, cases, folder.path("a.jsonl"));
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == ErrorCode::kEnvironment);
  CHECK(failed.error().got == failing.failure);
  REQUIRE(failed.error().notes.size() == 1);
  CHECK(failed.error().notes.front().starts_with("while measuring gemm bf16 TN"));
  CHECK(failing.live == 0);
  // Earlier measurements stay.
  CHECK_FALSE(content_of(folder.path("a.jsonl")).measurements.empty());

  TimedBackend small{.performance = gpu.performance};
  small.free_bytes = kGiB / 2;
  const Result<bool> refused = measure(small, cases, folder.path("b.jsonl"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().got == "not enough free memory");
  CHECK(small.live == 0);
}

TEST_CASE("performance file: writing and reading it again changes no time, for every GPU") {
  const Result<std::vector<cost::DeviceSpec>> devices = cost::list_devices(kConfigs);
  REQUIRE(devices);
  const test::TemporaryFolder folder;
  for (const cost::DeviceSpec& device : *devices) {
    const Result<cost::DevicePerformance> before = cost::performance_of(kConfigs, device);
    if (!before) {
      continue;  // No GPU of its family was measured.
    }
    CAPTURE(device.name);
    const ir::JsonValue json = cost::performance_to_json(
        *before, device,
        {.gemm = "a", .attention = "b", .memory = "c", .launch = "d", .host = "e"});
    const std::string path = folder.write("performance.json", ir::to_json(json));
    const Result<cost::LinkSpec> link = cost::load_link(kConfigs, device.host_link);
    REQUIRE(link);
    const Result<cost::DevicePerformance> after = cost::read_performance(path, device, *link);
    if (!after) {
      FAIL(to_text(after.error()));
    }
    const ir::JsonValue again = cost::performance_to_json(
        *after, device, {.gemm = "a", .attention = "b", .memory = "c", .launch = "d", .host = "e"});
    const auto numbers = [](const ir::JsonValue& value, const char* group) {
      std::vector<double> all;
      for (const ir::JsonMember& member : *value.find(group)->as_object()) {
        all.push_back(member.value.as_number().value_or(0));
      }
      return all;
    };
    for (const char* const group : {"gemm", "attention", "memory", "launch", "host"}) {
      CAPTURE(group);
      const std::vector<double> first = numbers(json, group);
      const std::vector<double> second = numbers(again, group);
      REQUIRE(first.size() == second.size());
      for (std::size_t i = 0; i < first.size(); ++i) {
        CHECK(second[i] == doctest::Approx(first[i]).epsilon(1e-12));
      }
    }
  }
}

}  // namespace headroom::calibrate
