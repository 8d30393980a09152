#include "costmodel/hardware/collective_time.h"

#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "costmodel/hardware/catalogue.h"
#include "model_ir/base/file.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cost {
namespace {

using test::kConfigs;

constexpr std::int64_t kLarge = std::int64_t{512} << 20;

Topology topology(const std::string& node) {
  const Result<NodeSpec> spec = load_node(kConfigs, node);
  REQUIRE(spec);
  Result<Topology> topology = topology_of(kConfigs, *spec);
  if (!topology) {
    FAIL(to_text(topology.error()));
  }
  return std::move(topology).value();
}

ir::CollectiveShape shape(ir::CollectiveKind kind, std::int64_t bytes, ir::RankGroup group) {
  return {.kind = kind, .bytes = bytes, .group = group};
}

}  // namespace

TEST_CASE("collective time: groups lie on nodes as the order of the mesh puts them") {
  const Topology dgx{.devices_per_node = 8};
  const auto placed = [&dgx](std::int64_t size, std::int64_t stride) {
    return placement_of(dgx, {.size = size, .stride = stride});
  };
  // Side by side: 4 on half a node, 8 on one, 16 on two.
  CHECK(placed(4, 1) == GroupPlacement{4, 1, 4, 4, 1});
  CHECK(placed(8, 1) == GroupPlacement{8, 1, 8, 8, 1});
  CHECK(placed(16, 1) == GroupPlacement{16, 2, 8, 8, 1});
  // Behind tensor parallelism of 4: two on each node; behind 8: one on each.
  CHECK(placed(16, 4) == GroupPlacement{16, 8, 2, 2, 4});
  CHECK(placed(16, 8) == GroupPlacement{16, 16, 1, 1, 1});
  // Ranks 6, 7 | 8: a group of three cut by the edge of a node.
  CHECK(placed(3, 1) == GroupPlacement{3, 2, 2, 1, 1});
  // Two axes: pairs side by side, and 4 such pairs a node apart.
  CHECK(placement_of(dgx, {.size = 2, .stride = 1, .outer_size = 4, .outer_stride = 8}) ==
        GroupPlacement{8, 4, 2, 2, 1});
}

TEST_CASE("collective time: large messages reach the measured bus bandwidth") {
  // ai-dynamo/aiconfigurator, nccl tables, 512 MiB, 8 GPUs of one node, GB/s of the bus:
  // A100 all-reduce 222, all-gather 205; H100 445, 335; B200 704, 617.
  struct Known {
    const char* node;
    double all_reduce;
    double all_gather;
  };
  for (const Known& known :
       {Known{"dgx-a100", 222, 205}, Known{"dgx-h100", 445, 335}, Known{"dgx-b200", 704, 617}}) {
    CAPTURE(known.node);
    const Topology node = topology(known.node);
    const ir::RankGroup all{.size = 8};
    const double reduce =
        collective_time(node, shape(ir::CollectiveKind::kAllReduce, kLarge, all)).value();
    const double gather =
        collective_time(node, shape(ir::CollectiveKind::kAllGather, kLarge, all)).value();
    CHECK(1e-9 * kLarge * 14 / 8 / reduce == doctest::Approx(known.all_reduce).epsilon(0.1));
    CHECK(1e-9 * kLarge * 7 / 8 / gather == doctest::Approx(known.all_gather).epsilon(0.1));
  }
}

TEST_CASE("collective time: a group across nodes is as fast as the adapters of its ranks") {
  const Topology node = topology("dgx-a100");  // One HDR adapter for each GPU.
  const auto gather = [&node](ir::RankGroup group) {
    return collective_time(node, shape(ir::CollectiveKind::kAllGather, 8 * kLarge, group)).value();
  };
  const double one = gather({.size = 16, .stride = 8});
  const double four = gather({.size = 16, .stride = 2});
  CHECK(one / four == doctest::Approx(4).epsilon(0.02));
  CHECK(8.0 * kLarge * 15 / 16 / one == doctest::Approx(21.25e9).epsilon(0.02));
}

TEST_CASE("collective time: groups that cross between PCIe switches share the way") {
  const Result<LinkSpec> link = load_link(kConfigs, "pcie4-peer");
  REQUIRE(link);
  Topology host{.devices_per_node = 8};
  host.fabric = read_fabric(kConfigs + "/performance/links/pcie4-peer.json", *link).value();
  const auto gather = [&host](ir::RankGroup group) {
    return collective_time(host, shape(ir::CollectiveKind::kAllGather, kLarge, group)).value();
  };
  // MooreThreads/SimuMax, configs/system/a100_pcie.json, in GB of 1024^3 bytes: four pairs across
  // at once gather at 4 each, eight together at 13.5, scatter at 11.1 and reduce at 12.5;
  // all-to-all among eight at 8.3 of the bus.
  constexpr double kUnit = 1024.0 * 1024 * 1024;
  CHECK(0.5 * kLarge / gather({.size = 2, .stride = 4}) ==
        doctest::Approx(4 * kUnit).epsilon(0.05));
  CHECK(0.875 * kLarge / gather({.size = 8}) == doctest::Approx(13.5 * kUnit).epsilon(0.03));
  const auto of = [&host](ir::CollectiveKind kind) {
    return collective_time(host, shape(kind, kLarge, {.size = 8})).value();
  };
  CHECK(0.875 * kLarge / of(ir::CollectiveKind::kReduceScatter) ==
        doctest::Approx(11.1 * kUnit).epsilon(0.03));
  CHECK(1.75 * kLarge / of(ir::CollectiveKind::kAllReduce) ==
        doctest::Approx(12.54 * kUnit).epsilon(0.03));
  const double exchange =
      collective_time(host, shape(ir::CollectiveKind::kAllToAll, kLarge, {.size = 8})).value();
  CHECK(0.875 * kLarge / exchange == doctest::Approx(8.26 * kUnit).epsilon(0.05));
}

TEST_CASE("collective time: a group of one costs nothing, an empty buffer still its latency") {
  const Topology node = topology("dgx-h100");
  CHECK(collective_time(node, shape(ir::CollectiveKind::kAllReduce, kLarge, {})) == Seconds{0});
  CHECK(collective_time(node, shape(ir::CollectiveKind::kAllReduce, 0, {.size = 8})) > Seconds{0});
}

TEST_CASE("collective time: a token goes once to each rank and node that has one of its experts") {
  const Topology node = topology("dgx-h100");
  const auto tokens = [](std::int64_t ranks, std::int32_t top_k) {
    ir::CollectiveShape all = shape(ir::CollectiveKind::kTokenExchange, kLarge, {.size = ranks});
    all.experts = 128;
    all.top_k = top_k;
    return all;
  };
  const auto copies = [](std::int64_t ranks, std::int64_t top_k) {
    return shape(ir::CollectiveKind::kAllToAll, top_k * kLarge, {.size = ranks});
  };
  // One expert each: one copy, as in an all-to-all.
  CHECK(collective_time(node, tokens(8, 1)).value() ==
        doctest::Approx(collective_time(node, copies(8, 1)).value()));
  // All experts: one copy for each rank.
  CHECK(collective_time(node, tokens(8, 128)).value() ==
        doctest::Approx(collective_time(node, copies(8, 8)).value()));
  // Eight of 128 on two nodes: all but 0.3 % of the tokens cross once, where half of eight copies
  // would; C(64, 8) / C(128, 8) = 0.0031.
  const double once = collective_time(node, tokens(16, 8)).value();
  CHECK(once / collective_time(node, copies(16, 8)).value() ==
        doctest::Approx(0.9969 / 4).epsilon(0.002));
}

TEST_CASE("property: collective time: more bytes never take less time") {
  test::Random random = test::seeded_random();
  CAPTURE(random.seed());
  for (const char* const name : {"dgx-a100", "dgx-h100", "gb200-nvl72", "aws-g6e-48xlarge"}) {
    const Topology node = topology(name);
    for (int i = 0; i < 2'000; ++i) {
      const ir::RankGroup group{.size = random.between(2, 64), .stride = random.between(1, 32)};
      const auto kind = static_cast<ir::CollectiveKind>(random.between(0, 6));
      const std::int64_t bytes = std::int64_t{1} << random.between(0, 34);
      CAPTURE(name);
      CAPTURE(group.size);
      CAPTURE(group.stride);
      CAPTURE(bytes);
      const Seconds less = collective_time(node, shape(kind, bytes, group));
      CHECK(less > Seconds{0});
      CHECK(collective_time(node, shape(kind, bytes + bytes / 2 + 1, group)) > less);
    }
  }
}

TEST_CASE("collective time: a link that is not known is refused by name") {
  NodeSpec node = load_node(kConfigs, "dgx-a100").value();
  node.inter_link = "carrier-pigeon";
  const auto found = topology_of(kConfigs, node);
  REQUIRE_FALSE(found);
  CHECK(found.error().got == "carrier-pigeon");
}

TEST_CASE("collective time: a file with a rate of zero is refused with the key") {
  const LinkSpec link = load_link(kConfigs, "nvlink3").value();
  std::string text = read_file(kConfigs + "/performance/links/nvlink3.json").value();
  const std::size_t at = text.find("\"share\"");
  REQUIRE(at != std::string::npos);
  text.replace(at, text.find_first_of(",}\n", at) - at, "\"share\": 0");
  const test::TemporaryFolder folder;
  const std::string path = folder.write("nvlink3.json", text);
  const auto fabric = read_fabric(path, link);
  REQUIRE_FALSE(fabric);
  CHECK(fabric.error().pointer == "/ring_ll/share");
  CHECK(fabric.error().got == "0");
}

TEST_CASE("placement: a domain of 72 is filled by 64 where groups would lie across two") {
  Topology topology;
  topology.devices_per_node = 72;
  CHECK(placement_of(topology, {.size = 32}).nodes == 1);
  CHECK(placement_of(topology, {.size = 8, .stride = 8}).nodes == 1);
  CHECK(placement_of(topology, {.size = 72}).nodes == 1);
  CHECK(placement_of(topology, {.size = 128}).nodes > 1);
  topology.devices_per_node = 12;  // A node, not a domain of trays.
  CHECK(placement_of(topology, {.size = 8}).nodes == 2);
}

}  // namespace headroom::cost
