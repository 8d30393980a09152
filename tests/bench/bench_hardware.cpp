// What one price costs: nanoseconds for each call of the time model's functions, over a mixture of
// shapes of training.

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/work_time.h"
#include "tests/bench/measurement.h"

namespace headroom::cost {
namespace {

const std::string kConfigs = std::string(HEADROOM_SOURCE_DIR) + "/configs";
constexpr int kRounds = 2'000;  ///< Over all shapes, for one run.

std::vector<ir::WorkShape> gemms() {
  std::vector<ir::WorkShape> shapes;
  for (const std::int64_t m : {512, 2'048, 4'096, 8'192, 32'768}) {
    for (const std::int64_t n : {1'024, 4'096, 14'336, 128'256}) {
      for (const std::int64_t k : {1'024, 4'096, 14'336}) {
        shapes.emplace_back(ir::GemmShape{.m = m, .n = n, .k = k});
      }
    }
  }
  return shapes;
}

std::vector<ir::WorkShape> attention() {
  std::vector<ir::WorkShape> shapes;
  for (const std::int64_t tokens : {1'024, 4'096, 8'192, 32'768}) {
    for (const bool backward : {false, true}) {
      shapes.emplace_back(ir::AttentionShape{.batch = 1,
                                             .heads = 32,
                                             .kv_heads = 8,
                                             .queries = tokens,
                                             .keys = tokens,
                                             .head_dim = 128,
                                             .value_dim = 128,
                                             .backward = backward});
    }
  }
  return shapes;
}

std::vector<ir::WorkShape> collectives() {
  std::vector<ir::WorkShape> shapes;
  for (const auto kind : {ir::CollectiveKind::kAllReduce, ir::CollectiveKind::kAllGather,
                          ir::CollectiveKind::kAllToAll, ir::CollectiveKind::kSend}) {
    for (const std::int64_t stride : {1, 2, 8}) {
      for (const std::int64_t bytes : {1 << 16, 1 << 22, 1 << 28}) {
        shapes.emplace_back(ir::CollectiveShape{
            .kind = kind, .bytes = bytes, .group = {.size = 16, .stride = stride}});
      }
    }
  }
  return shapes;
}

bench::Measurement price(const std::string& name, int runs,
                         const std::vector<ir::WorkShape>& shapes, const DevicePerformance& device,
                         const Topology& topology) {
  const int rounds = runs == 0 ? 1 : kRounds;
  bench::Measurement measurement = bench::measure(name, runs, [&] {
    double sum = 0;
    for (int round = 0; round < rounds; ++round) {
      for (const ir::WorkShape& shape : shapes) {
        sum += work_time(device, topology, shape).value();
      }
    }
    return static_cast<std::int64_t>(1e6 * sum);
  });
  measurement.unit = "ns";
  for (double& value : measurement.values) {
    value *= 1e6 / (static_cast<double>(rounds) * static_cast<double>(shapes.size()));
  }
  return measurement;
}

int run(const bench::Options& options) {
  const Result<DeviceSpec> device = load_device(kConfigs, "h100-80gb");
  const Result<NodeSpec> node = load_node(kConfigs, "dgx-h100");
  if (!device || !node) {
    return 1;
  }
  const Result<DevicePerformance> performance = performance_of(kConfigs, *device);
  const Result<Topology> topology = topology_of(kConfigs, *node);
  if (!performance || !topology) {
    return 1;
  }
  bench::print("One price, H100",
               {price("gemm_time", options.runs, gemms(), *performance, *topology),
                price("attention_time", options.runs, attention(), *performance, *topology),
                price("collective_time", options.runs, collectives(), *performance, *topology)},
               options);
  return 0;
}

}  // namespace
}  // namespace headroom::cost

int main(int count, char** values) {
  return headroom::bench::run_with_options(count, values, headroom::cost::run);
}
