#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "planner/chain/chain.h"
#include "tests/bench/measurement.h"
#include "tests/support/random.h"

namespace headroom::plan {
namespace {

using bench::Measurement;

/// A chain whose `saved` add up to about `budgets` times `slots`.
struct Instance {
  std::size_t stages = 0;
  std::int64_t slots = 0;
  std::int64_t budgets = 0;
  bool alike = false;  ///< Layers of one kind between an embedding and a loss.
  [[nodiscard]] std::string name() const {
    return std::to_string(stages) + (alike ? " layers alike x " : " unlike layers x ") +
           std::to_string(slots) + ", all takes " + std::to_string(budgets) + "x";
  }
};

/// Layers of a transformer: backward takes twice forward, a layer keeps about ten times its output.
/// Unlike ones differ in time by up to nine and in size by up to three.
Chain make_chain(const Instance& instance) {
  test::Random random(410);
  const std::int64_t mean =
      instance.budgets * instance.slots / static_cast<std::int64_t>(instance.stages);
  Chain chain;
  for (std::size_t i = 0; i < instance.stages; ++i) {
    const bool end = i == 0 || i + 1 == instance.stages;
    ChainStage stage;
    stage.forward =
        instance.alike ? (end ? 3 : 10) : static_cast<double>(random.between(1000, 9000)) / 1000;
    stage.backward = 2 * stage.forward;
    stage.saved =
        std::max<std::int64_t>(2, instance.alike ? mean : random.between(mean / 2, 3 * mean / 2));
    stage.output = std::max<std::int64_t>(
        1, instance.alike ? mean / 10 : stage.saved * random.between(3, 30) / 100);
    stage.gradient = stage.output;
    stage.forward_transient = stage.saved / 5;
    stage.backward_transient = stage.saved / 3;
    chain.push_back(stage);
  }
  return chain;
}

std::vector<Instance> instances() {
  std::vector<Instance> all;
  for (const std::size_t stages : {std::size_t{128}, std::size_t{512}}) {
    for (const std::int64_t budgets : {2, 4, 20}) {
      all.push_back({.stages = stages, .slots = 5000, .budgets = budgets});
    }
    all.push_back({.stages = stages, .slots = 5000, .budgets = 4, .alike = true});
  }
  return all;
}

int run(const std::vector<std::string_view>& arguments) {
  const std::optional<bench::Options> options = bench::parse_options(arguments);
  if (!options) {
    std::fprintf(stderr, "usage: bench_chain [--json] [--smoke] [--only TEXT]\n");
    return 2;
  }
  std::vector<Measurement> all;
  for (const Instance& instance : instances()) {
    if (instance.name().find(options->only) == std::string::npos) {
      continue;
    }
    const Chain chain = make_chain(instance);
    all.push_back(bench::measure(instance.name(), options->runs, [&] {
      constexpr int kThreads = 2;
      const std::optional<ChainSchedule> found = optimal_chain(chain, instance.slots, kThreads);
      return found ? std::llround(1000 * found->time) : 0;
    }));
  }
  bench::print("optimal chains, two threads", all, *options);
  return 0;
}

}  // namespace
}  // namespace headroom::plan

int main(int count, char** values) {
  return headroom::plan::run(std::vector<std::string_view>(values + 1, values + count));
}
