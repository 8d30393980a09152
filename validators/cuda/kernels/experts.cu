#include "validators/cuda/kernels/platform.cuh"

namespace headroom::cuda {

/// Whether `value` is chosen before `best`: what is not a number comes first (torch.topk).
HEADROOM_DEVICE bool comes_before(float value, float best) {
  return value > best || (value != value && best == best);
}

/// One warp for each token.
template <typename T>
HEADROOM_DEVICE void route(const RouteArguments& a) {
  const int64_t t = block_index();
  const T* const logits = in<T>(a.logits) + t * a.expert_count;
  float* const p = a.probabilities + t * a.expert_count;
  float highest = kLowest;
  for (int64_t x = lane(); x < a.expert_count; x += kWarp) {
    highest = fmaxf(highest, load(logits[x]));
  }
  highest = warp_max(highest);
  float sum = 0;
  for (int64_t x = lane(); x < a.expert_count; x += kWarp) {
    sum += expf(load(logits[x]) - highest);
  }
  sum = warp_sum(sum);
  // Experts that are chosen leave the competition. Lanes look at experts of their own alone.
  float* const open = launch_memory<float>();
  for (int64_t x = lane(); x < a.expert_count; x += kWarp) {
    p[x] = expf(load(logits[x]) - highest) / sum;
    open[x] = p[x];
  }
  float total = 0;
  for (int64_t j = 0; j < a.top_k; ++j) {
    float best = -1;
    int expert = 0x7fffffff;
    for (int64_t x = lane(); x < a.expert_count; x += kWarp) {
      if (comes_before(open[x], best)) {
        best = open[x];
        expert = static_cast<int>(x);
      }
    }
    for (int mask = kWarp / 2; mask > 0; mask /= 2) {
      const float other_best = from_lane_xor(best, mask);
      const int other_expert = from_lane_xor(expert, mask);
      if (comes_before(other_best, best) ||
          (!comes_before(best, other_best) && other_expert < expert)) {
        best = other_best;
        expert = other_expert;
      }
    }
    total += best;
    if (lane() == expert % kWarp) {
      open[expert] = -1;
    }
    if (lane() == 0) {
      a.experts[t * a.top_k + j] = expert;
      a.weights[t * a.top_k + j] = best;
    }
  }
  if (lane() == 0 && a.normalise != 0) {
    for (int64_t j = 0; j < a.top_k; ++j) {
      a.weights[t * a.top_k + j] /= total;
    }
  }
}

/// One warp for each token. k is small, so that each lane computes all that belongs to the choices.
template <typename T>
HEADROOM_DEVICE void route_backward(const RouteBackwardArguments& a) {
  const int64_t t = block_index();
  const float* const p = a.probabilities + t * a.expert_count;
  const float* const dweights = a.dweights + t * a.top_k;
  const int32_t* const experts = a.experts + t * a.top_k;
  float total = 1;
  float shift = 0;  // The part of the normalisation that all choices share.
  if (a.normalise != 0) {
    float chosen = 0;
    float products = 0;
    for (int64_t j = 0; j < a.top_k; ++j) {
      chosen += p[experts[j]];
      products += dweights[j] * p[experts[j]];
    }
    total = chosen;
    shift = products / (chosen * chosen);
  }
  float sum = 0;
  for (int64_t j = 0; j < a.top_k; ++j) {
    sum += (dweights[j] / total - shift) * p[experts[j]];
  }
  for (int64_t x = lane(); x < a.expert_count; x += kWarp) {
    float own = 0;
    for (int64_t j = 0; j < a.top_k; ++j) {
      own += experts[j] == x ? dweights[j] / total - shift : 0.0F;
    }
    store(out<T>(a.dlogits)[t * a.expert_count + x], p[x] * (own - sum));
  }
}

/// offsets[x + 1] = how often expert x was chosen; one block for each expert.
HEADROOM_DEVICE void expert_counts(const ExpertCountsArguments& a) {
  const int64_t expert = block_index();
  int64_t count = 0;
  for (int64_t begin = 0; begin < a.choices; begin += thread_count()) {
    const int64_t i = begin + thread_index();
    count += block_place(i < a.choices && a.experts[i] == expert).total;
  }
  if (thread_index() == 0) {
    a.offsets[expert + 1] = count;
  }
}

/// Counts become sums of counts; one thread.
HEADROOM_DEVICE void expert_offsets(const ExpertOffsetsArguments& a) {
  if (thread_index() != 0) {
    return;
  }
  a.offsets[0] = 0;
  for (int64_t x = 0; x < a.expert_count; ++x) {
    a.offsets[x + 1] += a.offsets[x];
  }
}

/// The choices of an expert, in their order; one block for each expert.
HEADROOM_DEVICE void expert_positions(const ExpertPositionsArguments& a) {
  const int64_t expert = block_index();
  int64_t next = a.offsets[expert];
  for (int64_t begin = 0; begin < a.choices; begin += thread_count()) {
    const int64_t i = begin + thread_index();
    const bool own = i < a.choices && a.experts[i] == expert;
    const Place place = block_place(own);
    if (own) {
      const int64_t row = next + place.before;
      a.position[i] = static_cast<int32_t>(row);
      a.source[row] = static_cast<int32_t>(i / a.top_k);
    }
    next += place.total;
  }
}

template <typename T>
HEADROOM_DEVICE void gather_rows(const GatherRowsArguments& a) {
  const int64_t r = block_index();
  const T* const from = in<T>(a.x) + a.source[r] * a.columns;
  T* const to = out<T>(a.out) + r * a.columns;
  for (int64_t c = kEight * thread_index(); c < a.columns; c += kEight * thread_count()) {
    float x[kEight];
    load_eight(x, from + c, a.columns - c);
    store_eight(to + c, x, a.columns - c);
  }
}

/// The sum of the rows of a token's choices, each times its weight if there are weights.
template <typename T>
HEADROOM_DEVICE void sum_choices(T* to, const T* x, const float* weights, const int32_t* position,
                                 int64_t top_k, int64_t columns) {
  for (int64_t c = kEight * thread_index(); c < columns; c += kEight * thread_count()) {
    float sums[kEight] = {};
    for (int64_t j = 0; j < top_k; ++j) {
      const float weight = weights != nullptr ? weights[j] : 1.0F;
      float row[kEight];
      load_eight(row, x + position[j] * columns + c, columns - c);
      HEADROOM_UNROLL
      for (int i = 0; i < kEight; ++i) {
        sums[i] += weight * row[i];
      }
    }
    store_eight(to + c, sums, columns - c);
  }
}

template <typename T>
HEADROOM_DEVICE void gather_rows_backward(const GatherRowsBackwardArguments& a) {
  const int64_t t = block_index();
  sum_choices(out<T>(a.dx) + t * a.columns, in<T>(a.dout), nullptr, a.position + t * a.top_k,
              a.top_k, a.columns);
}

template <typename T>
HEADROOM_DEVICE void combine_rows(const CombineRowsArguments& a) {
  const int64_t t = block_index();
  sum_choices(out<T>(a.out) + t * a.columns, in<T>(a.x), a.weights + t * a.top_k,
              a.position + t * a.top_k, a.top_k, a.columns);
}

template <typename T>
HEADROOM_DEVICE void combine_rows_backward(const CombineRowsBackwardArguments& a) {
  const int64_t choice = block_index();
  const T* const dout = in<T>(a.dout) + choice / a.top_k * a.columns;
  const T* const x = in<T>(a.x) + a.position[choice] * a.columns;
  T* const dx = out<T>(a.dx) + a.position[choice] * a.columns;
  const float weight = a.weights[choice];
  float sum = 0;
  for (int64_t c = kEight * thread_index(); c < a.columns; c += kEight * thread_count()) {
    float dy[kEight];
    float row[kEight];
    load_eight(dy, dout + c, a.columns - c);
    load_eight(row, x + c, a.columns - c);
    HEADROOM_UNROLL
    for (int i = 0; i < kEight; ++i) {
      sum += dy[i] * row[i];
      dy[i] *= weight;
    }
    store_eight(dx + c, dy, a.columns - c);
  }
  sum = block_sum(sum);
  if (thread_index() == 0) {
    a.dweights[choice] = sum;
  }
}

}  // namespace headroom::cuda

HEADROOM_KERNEL_TYPES(route, RouteArguments, 32, route)
HEADROOM_KERNEL_TYPES(route_backward, RouteBackwardArguments, 32, route_backward)
HEADROOM_KERNEL(expert_counts, ExpertCountsArguments, 256, expert_counts)
HEADROOM_KERNEL(expert_offsets, ExpertOffsetsArguments, 32, expert_offsets)
HEADROOM_KERNEL(expert_positions, ExpertPositionsArguments, 256, expert_positions)
HEADROOM_KERNEL_TYPES(gather_rows, GatherRowsArguments, 256, gather_rows)
HEADROOM_KERNEL_TYPES(gather_rows_backward, GatherRowsBackwardArguments, 256, gather_rows_backward)
HEADROOM_KERNEL_TYPES(combine_rows, CombineRowsArguments, 256, combine_rows)
HEADROOM_KERNEL_TYPES(combine_rows_backward, CombineRowsBackwardArguments, 256,
                      combine_rows_backward)
