#include "costmodel/expert_load.h"

#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/random.h"

namespace headroom::cost {
namespace {

ExpertLoad load_of(double imbalance, std::int64_t ranks = 8, std::int64_t experts = 64) {
  const auto load =
      busiest_rank({.experts = experts, .ranks = ranks, .top_k = 4, .imbalance = imbalance});
  REQUIRE(load);
  return *load;
}

}  // namespace

TEST_CASE("busiest_rank: balanced routing and a single rank are an even share") {
  CHECK(load_of(0).expected == 1);
  CHECK(load_of(0).p95 == 1);
  CHECK(load_of(0.8, 1).p95 == 1);
}

TEST_CASE("busiest_rank: two experts on two ranks with imbalance 1/sqrt(3) share uniformly") {
  // Dirichlet(1, 1): a share is uniform, F(x) = x. The maximum of two independent ones has mean
  // 2/3 and 95 % quantile sqrt(0.95); a rank's load is twice its share.
  const auto load =
      busiest_rank({.experts = 2, .ranks = 2, .top_k = 1, .imbalance = 1 / std::sqrt(3.0)});
  REQUIRE(load);
  CHECK(load->expected == doctest::Approx(4.0 / 3).epsilon(1e-3));
  CHECK(load->p95 == doctest::Approx(2 * std::sqrt(0.95)).epsilon(1e-6));
}

TEST_CASE("busiest_rank: no rank receives more than every token for each of its experts") {
  // One expert on each of 4 ranks, two experts per token: at most 4 x 1/2 of an even share.
  const auto load = busiest_rank({.experts = 4, .ranks = 4, .top_k = 2, .imbalance = 1.7});
  REQUIRE(load);
  CHECK(load->p95 == 2);
}

TEST_CASE("busiest_rank: the published imbalance is that of the published busiest experts") {
  // arXiv:2408.15664, tables 2 and 6: 64 experts, six for each token.
  for (const auto& [imbalance, busiest] :
       {std::pair(0.19, 1.52), std::pair(0.26, 1.72), std::pair(kPublishedImbalance, 1.937)}) {
    const Routing routing{.experts = 64, .ranks = 64, .top_k = 6, .imbalance = imbalance};
    const auto load = busiest_rank(routing);
    REQUIRE(load);
    CHECK(load->expected == doctest::Approx(busiest).epsilon(0.02));
    CHECK(busy_load(routing).value() == load->p95);
  }
}

TEST_CASE("busiest_rank: an imbalance that no routing has is refused") {
  for (const double imbalance : {-0.1, 8.0, std::nan("")}) {
    const auto load = busiest_rank({.experts = 64, .ranks = 8, .top_k = 4, .imbalance = imbalance});
    REQUIRE_FALSE(load);
    CHECK(load.error().key == "routing-imbalance");
  }
}

TEST_CASE("property: more imbalance is more load, and one step in twenty more than the mean") {
  test::Random random = test::seeded_random();
  for (int i = 0; i < 50; ++i) {
    const std::int64_t ranks = std::int64_t{1} << random.between(1, 5);
    const std::int64_t experts = ranks * random.between(1, 8);
    const double top = std::sqrt(static_cast<double>(experts - 1));
    const double low = top * static_cast<double>(random.between(1, 40)) / 100;
    CAPTURE(ranks);
    CAPTURE(experts);
    CAPTURE(low);
    const ExpertLoad less = load_of(low, ranks, experts);
    const ExpertLoad more = load_of(low * 1.5, ranks, experts);
    CHECK(less.expected <= more.expected + 1e-9);
    CHECK(less.p95 >= less.expected - 1e-9);
    CHECK(less.expected >= 1);
  }
}

}  // namespace headroom::cost
