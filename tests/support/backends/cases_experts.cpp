#include "tests/support/backends/cases.h"

namespace headroom::test {
namespace {

using Table = HeadroomDeviceTable;

void routing(Twin& twin, std::int32_t type, std::int64_t experts, std::int64_t top_k,
             std::int32_t normalise) {
  constexpr std::int64_t kTokens = 150;
  constexpr std::int64_t kColumns = 43;
  const std::int64_t choices = kTokens * top_k;
  twin.begin("experts " + name_of(type) + " E " + std::to_string(experts) + " k " +
             std::to_string(top_k));
  const Twins logits = twin.normal(type, kTokens * experts, 2);
  const Twins p = twin.output(HEADROOM_FP32, kTokens * experts);
  const Twins weights = twin.output(HEADROOM_FP32, choices);
  const Twins chosen = twin.integers(std::vector<std::int32_t>(static_cast<std::size_t>(choices)));
  const Twins dweights = twin.normal(HEADROOM_FP32, choices);
  const Twins dlogits = twin.output(type, kTokens * experts);
  const auto ints = [](void* data) { return static_cast<std::int32_t*>(data); };
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    std::int32_t code = t.route(d, 0, at(p), at(weights), ints(at(chosen)), at(logits), type,
                                kTokens, experts, top_k, normalise);
    code += t.route_backward(d, 0, at(dlogits), type, at(dweights), at(p), ints(at(chosen)),
                             kTokens, experts, top_k, normalise);
    return code;
  });
  twin.compare("probabilities", p);
  twin.compare("weights", weights);
  twin.compare("chosen", chosen);
  twin.compare("gradient", dlogits, 3);
  const Twins position =
      twin.integers(std::vector<std::int32_t>(static_cast<std::size_t>(choices)));
  const Twins source = twin.integers(std::vector<std::int32_t>(static_cast<std::size_t>(choices)));
  const Twins offsets = twin.output(HEADROOM_INT64, experts + 1);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    return t.sort_by_expert(d, 0, ints(at(position)), ints(at(source)),
                            static_cast<std::int64_t*>(at(offsets)), ints(at(chosen)), kTokens,
                            experts, top_k);
  });
  twin.compare("position", position);
  twin.compare("source", source);
  twin.compare("offsets", offsets);
  const Twins x = twin.normal(type, kTokens * kColumns);
  const Twins rows = twin.output(type, choices * kColumns);
  const Twins dx = twin.output(type, kTokens * kColumns);
  const Twins combined = twin.output(type, kTokens * kColumns);
  const Twins drows = twin.output(type, choices * kColumns);
  const Twins dchosen = twin.output(HEADROOM_FP32, choices);
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    std::int32_t code =
        t.gather_rows(d, 0, at(rows), at(x), ints(at(source)), type, choices, kColumns);
    code += t.gather_rows_backward(d, 0, at(dx), at(rows), ints(at(position)), type, kTokens, top_k,
                                   kColumns);
    code += t.combine_rows(d, 0, at(combined), at(rows), at(weights), ints(at(position)), type,
                           kTokens, top_k, kColumns);
    code += t.combine_rows_backward(d, 0, at(drows), at(dchosen), at(x), at(rows), at(weights),
                                    ints(at(position)), type, kTokens, top_k, kColumns);
    return code;
  });
  twin.compare("gathered", rows);
  twin.compare("gradient of gathered", dx);
  twin.compare("combined", combined);
  twin.compare("gradient of combined", drows);
  twin.compare("gradient of weights", dchosen, 3);
  twin.end();
}

}  // namespace

void compare_experts(Twin& twin) {
  for (const std::int32_t type : kTypes) {
    routing(twin, type, 4, 2, 1);
    routing(twin, type, 8, 1, 0);
    routing(twin, type, 70, 6, 1);
  }
  // Equal logits go to the lower expert.
  twin.begin("ties");
  const Twins logits = twin.values(HEADROOM_FP32, std::vector<double>(2 * 40, 0.25));
  const Twins p = twin.output(HEADROOM_FP32, 2 * 40);
  const Twins weights = twin.output(HEADROOM_FP32, 2 * 3);
  const Twins chosen = twin.integers(std::vector<std::int32_t>(2 * 3));
  twin.run([&](const Table& t, HeadroomDevice* d, const Twin::At& at) {
    return t.route(d, 0, at(p), at(weights), static_cast<std::int32_t*>(at(chosen)), at(logits),
                   HEADROOM_FP32, 2, 40, 3, 0);
  });
  twin.compare("chosen", chosen);
  twin.end();
}

}  // namespace headroom::test
