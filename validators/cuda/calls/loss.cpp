#include "validators/cuda/arguments.h"
#include "validators/cuda/calls/launch.h"

namespace headroom::cuda {
namespace {

constexpr int kRowThreads = 512;

/// STAT of everything that CUDA computes.
bool is_fp32(std::int32_t type) {
  return type == HEADROOM_FP32;
}

std::int32_t logit_statistics(HeadroomDevice* d, HeadroomStream stream, void* row_max,
                              void* row_sum, void* row_target, const void* logits,
                              std::int32_t type, const std::int32_t* labels, std::int64_t rows,
                              std::int64_t columns, std::int64_t first) {
  return launch(d, stream, {type}, grid_of_rows(rows, columns, kRowThreads),
                LogitStatisticsArguments{.row_max = static_cast<float*>(row_max),
                                         .row_sum = static_cast<float*>(row_sum),
                                         .row_target = static_cast<float*>(row_target),
                                         .logits = logits,
                                         .labels = labels,
                                         .columns = columns,
                                         .first = first});
}

std::int32_t rescale_sums(HeadroomDevice* d, HeadroomStream stream, void* row_sum,
                          const void* row_max, const void* whole_max, std::int32_t stat_type,
                          std::int64_t rows) {
  if (!is_fp32(stat_type)) {
    return fail(d, "CUDA has statistics in fp32 alone");
  }
  return launch(d, stream, {}, grid_of_all(rows),
                RescaleSumsArguments{.row_sum = static_cast<float*>(row_sum),
                                     .row_max = static_cast<const float*>(row_max),
                                     .whole_max = static_cast<const float*>(whole_max),
                                     .rows = rows});
}

std::int32_t cross_entropy_loss(HeadroomDevice* d, HeadroomStream stream, void* loss,
                                const void* row_max, const void* row_sum, const void* row_target,
                                std::int32_t stat_type, const std::int32_t* labels,
                                std::int64_t rows, double factor) {
  if (!is_fp32(stat_type)) {
    return fail(d, "CUDA has statistics in fp32 alone");
  }
  return launch(d, stream, {}, Grid{.x = rows > 0 ? 1 : 0, .threads = 1024},
                CrossEntropyLossArguments{.loss = static_cast<float*>(loss),
                                          .row_max = static_cast<const float*>(row_max),
                                          .row_sum = static_cast<const float*>(row_sum),
                                          .row_target = static_cast<const float*>(row_target),
                                          .labels = labels,
                                          .rows = rows,
                                          .factor = static_cast<float>(factor)});
}

std::int32_t cross_entropy_backward(HeadroomDevice* d, HeadroomStream stream, void* dlogits,
                                    const void* logits, std::int32_t type, const void* row_max,
                                    const void* row_sum, const std::int32_t* labels,
                                    std::int64_t rows, std::int64_t columns, std::int64_t first,
                                    double factor) {
  return launch(d, stream, {type}, grid_of_rows(rows, columns, kRowThreads),
                CrossEntropyBackwardArguments{.dlogits = dlogits,
                                              .logits = logits,
                                              .row_max = static_cast<const float*>(row_max),
                                              .row_sum = static_cast<const float*>(row_sum),
                                              .labels = labels,
                                              .rows = rows,
                                              .columns = columns,
                                              .first = first,
                                              .factor = static_cast<float>(factor)});
}

}  // namespace

void add_loss(HeadroomDeviceTable& table) {
  table.logit_statistics = logit_statistics;
  table.rescale_sums = rescale_sums;
  table.cross_entropy_loss = cross_entropy_loss;
  table.cross_entropy_backward = cross_entropy_backward;
}

}  // namespace headroom::cuda
