#include <algorithm>

#include "validators/executor/cpu/values.h"

namespace headroom::exec::cpu {
namespace {

std::int32_t logit_statistics(HeadroomDevice* d, HeadroomStream, void* row_max, void* row_sum,
                              void* row_target, const void* logits, std::int32_t type,
                              const std::int32_t* labels, std::int64_t rows, std::int64_t columns,
                              std::int64_t first) {
  const Stat maxima(row_max, type);
  const Stat sums(row_sum, type);
  const Stat targets(row_target, type);
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const row = in<T>(logits) + r * columns;
      double highest = -HUGE_VAL;
      for (std::int64_t c = 0; c < columns; ++c) {
        highest = std::max(highest, load(row[c]));
      }
      maxima.set(r, highest);
      double sum = 0;
      for (std::int64_t c = 0; c < columns; ++c) {
        sum += std::exp(load(row[c]) - maxima[r]);
      }
      sums.set(r, sum);
      const std::int64_t label = labels[r] - first;
      targets.set(r, labels[r] >= 0 && label >= 0 && label < columns ? load(row[label]) : 0);
    }
  });
}

std::int32_t rescale_sums(HeadroomDevice*, HeadroomStream, void* row_sum, const void* row_max,
                          const void* whole_max, std::int32_t stat_type, std::int64_t rows) {
  const Stat sums(row_sum, stat_type);
  const Stat maxima(row_max, stat_type);
  const Stat whole(whole_max, stat_type);
  for (std::int64_t r = 0; r < rows; ++r) {
    sums.set(r, sums[r] * std::exp(maxima[r] - whole[r]));
  }
  return 0;
}

std::int32_t cross_entropy_loss(HeadroomDevice*, HeadroomStream, void* loss, const void* row_max,
                                const void* row_sum, const void* row_target, std::int32_t stat_type,
                                const std::int32_t* labels, std::int64_t rows, double factor) {
  const Stat total(loss, stat_type);
  const Stat maxima(row_max, stat_type);
  const Stat sums(row_sum, stat_type);
  const Stat targets(row_target, stat_type);
  double sum = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    sum += labels[r] >= 0 ? std::log(sums[r]) + maxima[r] - targets[r] : 0;
  }
  total.set(0, total[0] + factor * sum);
  return 0;
}

std::int32_t cross_entropy_backward(HeadroomDevice* d, HeadroomStream, void* dlogits,
                                    const void* logits, std::int32_t type, const void* row_max,
                                    const void* row_sum, const std::int32_t* labels,
                                    std::int64_t rows, std::int64_t columns, std::int64_t first,
                                    double factor) {
  const Stat maxima(row_max, type);
  const Stat sums(row_sum, type);
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const double p = std::exp(load(in<T>(logits)[r * columns + c]) - maxima[r]) / sums[r];
        const double target = c + first == labels[r] ? 1 : 0;
        store(out<T>(dlogits)[r * columns + c], labels[r] >= 0 ? factor * (p - target) : 0);
      }
    }
  });
}

}  // namespace

void add_loss(HeadroomDeviceTable& table) {
  table.logit_statistics = logit_statistics;
  table.rescale_sums = rescale_sums;
  table.cross_entropy_loss = cross_entropy_loss;
  table.cross_entropy_backward = cross_entropy_backward;
}

}  // namespace headroom::exec::cpu
