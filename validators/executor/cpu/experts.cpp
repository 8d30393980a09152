#include <algorithm>
#include <cmath>
#include <vector>

#include "validators/executor/cpu/values.h"

namespace headroom::exec::cpu {
namespace {

/// Whether `right` is chosen before `left`: what is not a number comes first (torch.topk).
bool is_less(double left, double right) {
  return left < right || (std::isnan(right) && !std::isnan(left));
}

std::int32_t route(HeadroomDevice* d, HeadroomStream, void* probabilities, void* weights,
                   std::int32_t* experts, const void* logits, std::int32_t type,
                   std::int64_t tokens, std::int64_t expert_count, std::int64_t top_k,
                   std::int32_t normalise) {
  const Stat all(probabilities, type);
  const Stat chosen(weights, type);
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    std::vector<double> p(at(expert_count));
    for (std::int64_t t = 0; t < tokens; ++t) {
      double highest = -HUGE_VAL;
      for (std::int64_t x = 0; x < expert_count; ++x) {
        p[at(x)] = load(in<T>(logits)[t * expert_count + x]);
        highest = std::max(highest, p[at(x)]);
      }
      double sum = 0;
      for (double& value : p) {
        value = std::exp(value - highest);
        sum += value;
      }
      for (std::int64_t x = 0; x < expert_count; ++x) {
        p[at(x)] /= sum;
        all.set(t * expert_count + x, p[at(x)]);
      }
      double total = 0;
      for (std::int64_t j = 0; j < top_k; ++j) {
        const auto best = std::ranges::max_element(p, is_less);
        const auto expert = best - p.begin();
        experts[t * top_k + j] = static_cast<std::int32_t>(expert);
        chosen.set(t * top_k + j, *best);
        total += *best;
        *best = -1;
      }
      for (std::int64_t j = 0; normalise != 0 && j < top_k; ++j) {
        chosen.set(t * top_k + j, chosen[t * top_k + j] / total);
      }
    }
  });
}

/// Gradient of the chosen probabilities, before their normalisation.
void undo_normalisation(std::vector<double>& dp, const std::vector<double>& p) {
  double total = 0;
  double products = 0;
  for (std::size_t j = 0; j < p.size(); ++j) {
    total += p[j];
    products += dp[j] * p[j];
  }
  for (double& value : dp) {
    value = value / total - products / (total * total);
  }
}

std::int32_t route_backward(HeadroomDevice* d, HeadroomStream, void* dlogits, std::int32_t type,
                            const void* dweights, const void* probabilities,
                            const std::int32_t* experts, std::int64_t tokens,
                            std::int64_t expert_count, std::int64_t top_k, std::int32_t normalise) {
  const Stat all(probabilities, type);
  const Stat gradients(dweights, type);
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    std::vector<double> p(at(top_k));
    std::vector<double> dp(at(top_k));
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t j = 0; j < top_k; ++j) {
        p[at(j)] = all[t * expert_count + experts[t * top_k + j]];
        dp[at(j)] = gradients[t * top_k + j];
      }
      if (normalise != 0) {
        undo_normalisation(dp, p);
      }
      double sum = 0;
      for (std::int64_t j = 0; j < top_k; ++j) {
        sum += dp[at(j)] * p[at(j)];
      }
      for (std::int64_t x = 0; x < expert_count; ++x) {
        double own = 0;
        for (std::int64_t j = 0; j < top_k; ++j) {
          own += experts[t * top_k + j] == x ? dp[at(j)] : 0;
        }
        store(out<T>(dlogits)[t * expert_count + x], all[t * expert_count + x] * (own - sum));
      }
    }
  });
}

std::int32_t sort_by_expert(HeadroomDevice*, HeadroomStream, std::int32_t* position,
                            std::int32_t* source, std::int64_t* offsets,
                            const std::int32_t* experts, std::int64_t tokens,
                            std::int64_t expert_count, std::int64_t top_k) {
  std::vector<std::int64_t> next(at(expert_count + 1));
  for (std::int64_t i = 0; i < tokens * top_k; ++i) {
    ++next[at(experts[i] + 1)];
  }
  for (std::int64_t x = 0; x < expert_count; ++x) {
    next[at(x + 1)] += next[at(x)];
  }
  std::ranges::copy(next, offsets);
  for (std::int64_t i = 0; i < tokens * top_k; ++i) {
    const std::int64_t row = next[at(experts[i])]++;
    position[i] = static_cast<std::int32_t>(row);
    source[row] = static_cast<std::int32_t>(i / top_k);
  }
  return 0;
}

std::int32_t gather_rows(HeadroomDevice* d, HeadroomStream, void* to, const void* x,
                         const std::int32_t* source, std::int32_t type, std::int64_t rows,
                         std::int64_t columns) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(in<T>(x) + source[r] * columns, columns, out<T>(to) + r * columns);
    }
  });
}

std::int32_t gather_rows_backward(HeadroomDevice* d, HeadroomStream, void* dx, const void* dout,
                                  const std::int32_t* position, std::int32_t type,
                                  std::int64_t tokens, std::int64_t top_k, std::int64_t columns) {
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t i = 0; i < tokens * columns; ++i) {
      const std::int64_t t = i / columns;
      double sum = 0;
      for (std::int64_t j = 0; j < top_k; ++j) {
        sum += load(in<T>(dout)[position[t * top_k + j] * columns + i % columns]);
      }
      store(out<T>(dx)[i], sum);
    }
  });
}

std::int32_t combine_rows(HeadroomDevice* d, HeadroomStream, void* to, const void* x,
                          const void* weights, const std::int32_t* position, std::int32_t type,
                          std::int64_t tokens, std::int64_t top_k, std::int64_t columns) {
  const Stat factors(weights, type);
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t i = 0; i < tokens * columns; ++i) {
      const std::int64_t t = i / columns;
      double sum = 0;
      for (std::int64_t j = 0; j < top_k; ++j) {
        sum += factors[t * top_k + j] *
               load(in<T>(x)[position[t * top_k + j] * columns + i % columns]);
      }
      store(out<T>(to)[i], sum);
    }
  });
}

std::int32_t combine_rows_backward(HeadroomDevice* d, HeadroomStream, void* dx, void* dweights,
                                   const void* dout, const void* x, const void* weights,
                                   const std::int32_t* position, std::int32_t type,
                                   std::int64_t tokens, std::int64_t top_k, std::int64_t columns) {
  const Stat factors(weights, type);
  const Stat gradients(dweights, type);
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    for (std::int64_t choice = 0; choice < tokens * top_k; ++choice) {
      const T* const dy = in<T>(dout) + choice / top_k * columns;
      const T* const row = in<T>(x) + position[choice] * columns;
      T* const to = out<T>(dx) + position[choice] * columns;
      double sum = 0;
      for (std::int64_t c = 0; c < columns; ++c) {
        sum += load(dy[c]) * load(row[c]);
        store(to[c], factors[choice] * load(dy[c]));
      }
      gradients.set(choice, sum);
    }
  });
}

}  // namespace

void add_experts(HeadroomDeviceTable& table) {
  table.route = route;
  table.route_backward = route_backward;
  table.sort_by_expert = sort_by_expert;
  table.gather_rows = gather_rows;
  table.gather_rows_backward = gather_rows_backward;
  table.combine_rows = combine_rows;
  table.combine_rows_backward = combine_rows_backward;
}

}  // namespace headroom::exec::cpu
