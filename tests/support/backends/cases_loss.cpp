#include "tests/support/backends/cases.h"

namespace headroom::test {
namespace {

using Table = HeadroomDeviceTable;

void losses(Twin& twin, std::int32_t type, std::int64_t columns) {
  constexpr std::int64_t kRows = 23;
  constexpr std::int64_t kFirst = 100;
  twin.begin("cross entropy " + name_of(type) + " V " + std::to_string(columns));
  std::vector<std::int32_t> numbers;
  for (std::int64_t r = 0; r < kRows; ++r) {
    // Some labels lie in another shard, some rows have none.
    numbers.push_back(
        r % 7 == 3 ? -1 : static_cast<std::int32_t>(twin.random().between(0, 2 * columns + 99)));
  }
  numbers[0] = kFirst;
  numbers[1] = static_cast<std::int32_t>(kFirst + columns - 1);
  const Twins labels = twin.integers(numbers);
  const Twins logits = twin.normal(type, kRows * columns, 4);
  const Twins dlogits = twin.output(type, kRows * columns);
  const Twins maxima = twin.output(HEADROOM_FP32, kRows);
  const Twins sums = twin.output(HEADROOM_FP32, kRows);
  const Twins targets = twin.output(HEADROOM_FP32, kRows);
  const Twins loss = twin.values(HEADROOM_FP32, {1.5});
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    const auto* const l = static_cast<const std::int32_t*>(at(labels));
    std::int32_t code = t.logit_statistics(d, 0, at(maxima), at(sums), at(targets), at(logits),
                                           type, l, kRows, columns, kFirst);
    code += t.cross_entropy_loss(d, 0, at(loss), at(maxima), at(sums), at(targets), HEADROOM_FP32,
                                 l, kRows, 0.01);
    code += t.cross_entropy_backward(d, 0, at(dlogits), at(logits), type, at(maxima), at(sums), l,
                                     kRows, columns, kFirst, 512);
    code += t.cross_entropy_backward(d, 0, at(logits), at(logits), type, at(maxima), at(sums), l,
                                     kRows, columns, kFirst, 0.25);
    return code;
  });
  twin.compare("maxima", maxima);
  twin.compare("sums", sums, 2);
  twin.compare("targets", targets);
  twin.compare("loss", loss, 5);
  twin.compare("gradient", dlogits, 2);
  twin.compare("in place", logits, 2);
  const Twins whole = twin.normal(HEADROOM_FP32, kRows);
  const Twins own = twin.normal(HEADROOM_FP32, kRows);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    return t.rescale_sums(d, 0, at(sums), at(own), at(whole), HEADROOM_FP32, kRows);
  });
  twin.compare("rescaled", sums, 3);
  twin.end();
}

}  // namespace

void compare_loss(Twin& twin) {
  for (const std::int32_t type : kTypes) {
    losses(twin, type, 37);
    losses(twin, type, 5003);
  }
}

}  // namespace headroom::test
