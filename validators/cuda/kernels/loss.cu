#include "validators/cuda/kernels/platform.cuh"

namespace headroom::cuda {

/// The largest of some logits, and the sum of exp(logit - largest).
struct ExponentialSum {
  float highest;
  float sum;
};

HEADROOM_DEVICE void add_logit(ExponentialSum& s, float logit) {
  if (logit > s.highest) {
    s.sum = s.sum * expf(s.highest - logit) + 1.0F;
    s.highest = logit;
  } else if (logit > kLowest) {
    s.sum += expf(logit - s.highest);
  }
}

template <typename T>
HEADROOM_DEVICE void logit_statistics(const LogitStatisticsArguments& a) {
  const int64_t r = block_index();
  const T* const row = in<T>(a.logits) + r * a.columns;
  ExponentialSum own = {kLowest, 0};
  for (int64_t c = kEight * thread_index(); c < a.columns; c += kEight * thread_count()) {
    float x[kEight];
    load_eight(x, row + c, a.columns - c);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      if (c + j < a.columns) {
        add_logit(own, x[j]);
      }
    }
  }
  const float highest = block_max(own.highest);
  const float sum = block_sum(own.sum > 0 ? own.sum * expf(own.highest - highest) : 0.0F);
  if (thread_index() == 0) {
    const int64_t label = a.labels[r] - a.first;
    a.row_max[r] = highest;
    a.row_sum[r] = sum;
    a.row_target[r] = a.labels[r] >= 0 && label >= 0 && label < a.columns ? load(row[label]) : 0.0F;
  }
}

HEADROOM_DEVICE void rescale_sums(const RescaleSumsArguments& a) {
  for (int64_t r = global_thread(); r < a.rows; r += global_threads()) {
    a.row_sum[r] *= expf(a.row_max[r] - a.whole_max[r]);
  }
}

/// One block, so that the sum has one order.
HEADROOM_DEVICE void cross_entropy_loss(const CrossEntropyLossArguments& a) {
  float sum = 0;
  for (int64_t r = thread_index(); r < a.rows; r += thread_count()) {
    sum += a.labels[r] >= 0 ? logf(a.row_sum[r]) + a.row_max[r] - a.row_target[r] : 0.0F;
  }
  sum = block_sum(sum);
  if (thread_index() == 0) {
    a.loss[0] += a.factor * sum;
  }
}

template <typename T>
HEADROOM_DEVICE void cross_entropy_backward(const CrossEntropyBackwardArguments& a) {
  const int64_t r = block_index();
  const int32_t label = a.labels[r];
  const float highest = a.row_max[r];
  const float inverse_sum = 1.0F / a.row_sum[r];
  const int64_t target = label - a.first;
  for (int64_t c = kEight * thread_index(); c < a.columns; c += kEight * thread_count()) {
    float x[kEight];
    load_eight(x, in<T>(a.logits) + r * a.columns + c, a.columns - c);
    HEADROOM_UNROLL
    for (int j = 0; j < kEight; ++j) {
      const float p = expf(x[j] - highest) * inverse_sum;
      x[j] = label >= 0 ? a.factor * (p - (c + j == target ? 1.0F : 0.0F)) : 0.0F;
    }
    store_eight(out<T>(a.dlogits) + r * a.columns + c, x, a.columns - c);
  }
}

}  // namespace headroom::cuda

HEADROOM_KERNEL_TYPES(logit_statistics, LogitStatisticsArguments, 512, logit_statistics)
HEADROOM_KERNEL(rescale_sums, RescaleSumsArguments, 256, rescale_sums)
HEADROOM_KERNEL(cross_entropy_loss, CrossEntropyLossArguments, 1024, cross_entropy_loss)
HEADROOM_KERNEL_TYPES(cross_entropy_backward, CrossEntropyBackwardArguments, 512,
                      cross_entropy_backward)
