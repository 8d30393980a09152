#include "validators/snapshot/memory_use.h"

#include <algorithm>

namespace headroom::check {

UseTrend trend_of(const MemoryUse& use) {
  const std::vector<UseSample>& samples = use.samples;
  UseTrend trend{.peak = samples.front(),
                 .first = samples.front().used,
                 .last = samples.back().used,
                 .per_hour = {}};
  for (std::size_t at = 0; at < samples.size(); ++at) {
    Bytes& quarter = trend.quarters.at(at * trend.quarters.size() / samples.size());
    quarter = std::max(quarter, samples[at].used);
    if (samples[at].used > trend.peak.used) {
      trend.peak = samples[at];
    }
  }
  trend.grows = samples.size() >= trend.quarters.size();
  for (std::size_t at = 1; at < trend.quarters.size(); ++at) {
    trend.grows = trend.grows && trend.quarters.at(at) > trend.quarters.at(at - 1);
  }
  const std::optional<double> begin = samples.front().seconds;
  const std::optional<double> end = samples.back().seconds;
  if (begin && end && *end > *begin) {
    constexpr double kHour = 3600;
    trend.per_hour =
        static_cast<double>((trend.last - trend.first).value()) / (*end - *begin) * kHour;
  }
  return trend;
}

}  // namespace headroom::check
