#include "validators/calibrate/run_cases.h"

#include <algorithm>
#include <utility>

namespace headroom::calibrate {

Result<bool> run_cases(Bench& bench, const std::vector<Case>& cases, MeasurementWriter& writer,
                       const CaseObserver& observer) {
  const auto is_done = [&writer](const Case& one) { return writer.find(one.name) != nullptr; };
  auto done = static_cast<std::size_t>(std::ranges::count_if(cases, is_done));
  for (const Case& one : cases) {
    if (is_done(one)) {
      continue;
    }
    if (observer.stop()) {
      return false;
    }
    observer.progress({.done = done, .all = cases.size(), .next = &one});
    Result<Measurement> measured = bench.measure(one);
    if (measured && spread_of(measured->seconds) > kWidestSpread) {
      Result<Measurement> again = bench.measure(one);
      if (!again || spread_of(again->seconds) < spread_of(measured->seconds)) {
        measured = std::move(again);
      }
    }
    if (!measured) {
      return std::move(measured).error();
    }
    if (Status written = writer.add(*measured); !written) {
      return std::move(written).error();
    }
    ++done;
  }
  observer.progress({.done = done, .all = cases.size(), .next = nullptr});
  return true;
}

}  // namespace headroom::calibrate
