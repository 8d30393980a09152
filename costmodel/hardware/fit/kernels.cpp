#include "costmodel/hardware/fit/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/hardware/fit/search.h"

namespace headroom::cost::fit {
namespace {

constexpr double kStep = 0.3;  ///< First step of a search, in logarithms.

/// Maps any number to a share between 0 and 1, and back.
double share_of(double x) {
  return 1 / (1 + std::exp(-x));
}
double logit(double share) {
  const double inside = std::clamp(share, 0.01, 0.99);
  return std::log(inside / (1 - inside));
}

/// What all fits of products have in common.
constexpr std::size_t kShared = 5;
// Where searches begin and what they stay close to: tiles that lose little because of their size, a
// prologue of a few steps of 32 to 64 elements, and waves and traffic that partly overlap.
Point shared_point(const DevicePerformance& device) {
  return {std::log(device.gemm.half.value()), std::log(20.0), std::log(150.0), logit(0.6),
          logit(0.1)};
}
void set_shared(DevicePerformance& device, const Point& point) {
  GemmPerformance& gemm = device.gemm;
  gemm.half = FlopsPerSecond{std::exp(point[0])};
  gemm.tile_loss = std::exp(std::min(point[1], std::log(500.0)));
  gemm.k_overhead = std::exp(std::min(point[2], std::log(5000.0)));
  gemm.wave_loss = share_of(point[3]);
  gemm.overlap_loss = share_of(point[4]);
}

void set_training(DevicePerformance& device, const Point& point) {
  set_shared(device, point);
  device.gemm.input_gradient = std::exp(point[kShared]);
  device.gemm.weight_gradient = std::exp(point[kShared + 1]);
}

void set_serving(DevicePerformance& device, const Point& point) {
  set_shared(device, point);
  device.gemm.floor = Seconds{std::exp(point[kShared])};
  device.memory.rate = BytesPerSecond{std::exp(point[kShared + 1])};
}

void set_forward(DevicePerformance& device, const Point& point) {
  device.attention.native.forward_64 = FlopsPerSecond{std::exp(point[0])};
  device.attention.native.forward_128 = FlopsPerSecond{std::exp(point[1])};
  device.attention.key_overhead = std::exp(point[2]);
  device.attention.floor = Seconds{std::exp(point[3])};
}

template <typename Set>
auto gemm_objective(const DevicePerformance& device, const Samples<ir::GemmShape>& samples,
                    const Set& set) {
  return [changed = device, &samples, set](const Point& point) mutable {
    set(changed, point);
    return misfit(samples,
                  [&changed](const ir::GemmShape& shape) { return gemm_time(changed, shape); });
  };
}

template <typename Set>
auto attention_objective(const DevicePerformance& device,
                         const Samples<ir::AttentionShape>& samples, const Set& set) {
  return [changed = device, &samples, set](const Point& point) mutable {
    set(changed, point);
    return misfit(samples, [&changed](const ir::AttentionShape& shape) {
      return attention_time(changed, shape);
    });
  };
}

}  // namespace

void fit_gemm(DevicePerformance& device, const Samples<ir::GemmShape>& samples) {
  Point start = shared_point(device);
  start.push_back(std::log(device.gemm.floor.value()));
  start.push_back(std::log(device.memory.rate.value()));
  set_serving(device, minimum_near(gemm_objective(device, samples, set_serving), start, kStep));
}

void fit_training_gemm(DevicePerformance& device, const Samples<ir::GemmShape>& samples) {
  Point start = shared_point(device);
  start.push_back(std::log(device.gemm.input_gradient));
  start.push_back(std::log(device.gemm.weight_gradient));
  set_training(device, minimum_near(gemm_objective(device, samples, set_training), start, kStep));
}

void fit_measured_gemm(DevicePerformance& device, const Samples<ir::GemmShape>& samples) {
  const auto set = [](DevicePerformance& changed, const Point& point) {
    set_training(changed, point);
    changed.gemm.floor = Seconds{std::exp(point[kShared + 2])};
  };
  Point start = shared_point(device);
  start.push_back(std::log(device.gemm.input_gradient));
  start.push_back(std::log(device.gemm.weight_gradient));
  start.push_back(std::log(device.gemm.floor.value()));
  set(device, minimum_near(gemm_objective(device, samples, set), start, kStep));
}

void fit_gemm_figure(DevicePerformance& device, double GemmPerformance::*figure,
                     const Samples<ir::GemmShape>& samples) {
  const auto set = [figure](DevicePerformance& changed, const Point& point) {
    changed.gemm.*figure = std::exp(point[0]);
  };
  set(device,
      minimum_near(gemm_objective(device, samples, set), {std::log(device.gemm.*figure)}, kStep));
}

void fit_gemm_figure(DevicePerformance& device, FlopsPerSecond GemmPerformance::*figure,
                     const Samples<ir::GemmShape>& samples) {
  const auto set = [figure](DevicePerformance& changed, const Point& point) {
    changed.gemm.*figure = FlopsPerSecond{std::exp(point[0])};
  };
  set(device, minimum_near(gemm_objective(device, samples, set),
                           {std::log((device.gemm.*figure).value())}, kStep));
}

Seconds series_time(const DevicePerformance& device, const ir::GemmShape& shape) {
  return std::max(gemm_time(device, shape),
                  static_cast<double>(shape.count) * device.gemm.series_call);
}

void fit_series(DevicePerformance& device, const Samples<ir::GemmShape>& samples) {
  const auto set = [](DevicePerformance& changed, const Point& point) {
    changed.gemm.series = std::exp(point[0]);
    changed.gemm.series_call = Seconds{std::exp(point[1])};
    changed.gemm.accumulate_loss = share_of(point[2]);
  };
  const auto objective = [changed = device, &samples, set](const Point& point) mutable {
    set(changed, point);
    return misfit(samples,
                  [&changed](const ir::GemmShape& shape) { return series_time(changed, shape); });
  };
  set(device, minimum_near(objective, {0.0, std::log(6e-6), 0.0}, kStep));
}

void set_products_in_step(DevicePerformance& device, FlopsPerSecond rate) {
  // Llama 3 8B: queries and output; keys and values; gate and up; down; 32 layers and the head.
  struct Products {
    std::int64_t n;
    std::int64_t k;
    std::int64_t number;
  };
  constexpr std::array<Products, 5> kProducts = {{{4096, 4096, 64},
                                                  {1024, 4096, 64},
                                                  {14336, 4096, 64},
                                                  {4096, 14336, 32},
                                                  {128256, 4096, 1}}};
  Seconds taken;
  Flops done;
  for (const Products& product : kProducts) {
    for (const ir::GemmLayout layout :
         {ir::GemmLayout::kTN, ir::GemmLayout::kNN, ir::GemmLayout::kNT}) {
      const ir::GemmShape shape{.m = 8192, .n = product.n, .k = product.k, .layout = layout};
      const double number = static_cast<double>(product.number);
      taken = taken + number * gemm_time(device, shape);
      done = done + Flops{number * shape.flops()};
    }
  }
  device.gemm.half = (taken / (done / rate)) * device.gemm.half;
}

void fit_attention(DevicePerformance& device, const Samples<ir::AttentionShape>& samples) {
  const AttentionPerformance& attention = device.attention;
  const Point start = {std::log(attention.native.forward_64.value()),
                       std::log(attention.native.forward_128.value()),
                       std::log(attention.key_overhead), std::log(attention.floor.value())};
  set_forward(device,
              minimum_near(attention_objective(device, samples, set_forward), start, kStep));
  const bool narrow = std::any_of(samples.begin(), samples.end(),
                                  [](const auto& each) { return each.shape.head_dim == 64; });
  if (!narrow) {
    // FlashAttention-2 on H100: Shah et al. 2024, arXiv:2407.08608, figure 5, 16384 tokens.
    device.attention.native.forward_64 = (324.0 / 370.0) * device.attention.native.forward_128;
  }
}

void fit_training_attention(DevicePerformance& device, const Samples<ir::AttentionShape>& samples) {
  const AttentionPerformance before = device.attention;
  const auto set = [before](DevicePerformance& changed, const Point& point) {
    AttentionPerformance& attention = changed.attention;
    attention.native.forward_128 = FlopsPerSecond{std::exp(point[0])};
    attention.native.backward_128 = FlopsPerSecond{std::exp(point[1])};
    const double narrow = before.native.forward_64 / before.native.forward_128;
    attention.native.forward_64 = narrow * attention.native.forward_128;
    attention.native.backward_64 = narrow * attention.native.backward_128;
    attention.native.forward_wide = std::exp(point[2]) * attention.native.forward_128;
    attention.native.backward_wide = std::exp(point[2]) * attention.native.backward_128;
    attention.key_overhead = std::exp(point[3]);
  };
  const Point start = {std::log(before.native.forward_128.value()),
                       std::log(before.native.backward_128.value()),
                       std::log(before.native.forward_wide / before.native.forward_128),
                       std::log(before.key_overhead)};
  set(device, minimum_near(attention_objective(device, samples, set), start, kStep));
}

void fit_wide_attention(DevicePerformance& device, const Samples<ir::AttentionShape>& samples) {
  const AttentionRates before = device.attention.native;
  const auto set = [before](DevicePerformance& changed, const Point& point) {
    AttentionRates& rates = changed.attention.native;
    rates.forward_128 = FlopsPerSecond{std::exp(point[0])};
    rates.backward_128 = FlopsPerSecond{std::exp(point[1])};
    rates.forward_wide = FlopsPerSecond{std::exp(point[2])};
    rates.backward_wide = FlopsPerSecond{std::exp(point[3])};
    rates.forward_64 = (before.forward_64 / before.forward_128) * rates.forward_128;
    rates.backward_64 = (before.backward_64 / before.backward_128) * rates.backward_128;
    changed.attention.key_overhead = std::exp(point[4]);
  };
  const Point start = {std::log(before.forward_128.value()), std::log(before.backward_128.value()),
                       std::log(before.forward_wide.value()),
                       std::log(before.backward_wide.value()),
                       std::log(device.attention.key_overhead)};
  set(device, minimum_near(attention_objective(device, samples, set), start, kStep));
}

void fit_all_attention(DevicePerformance& device, const Samples<ir::AttentionShape>& samples,
                       bool overhead) {
  const auto set = [overhead](DevicePerformance& changed, const Point& point) {
    AttentionRates& rates = changed.attention.native;
    rates.forward_64 = FlopsPerSecond{std::exp(point[0])};
    rates.forward_128 = FlopsPerSecond{std::exp(point[1])};
    rates.backward_64 = FlopsPerSecond{std::exp(point[2])};
    rates.backward_128 = FlopsPerSecond{std::exp(point[3])};
    rates.forward_wide = FlopsPerSecond{std::exp(point[4])};
    rates.backward_wide = FlopsPerSecond{std::exp(point[5])};
    if (overhead) {
      changed.attention.key_overhead = std::exp(point[6]);
    }
  };
  const AttentionRates& rates = device.attention.native;
  Point start;
  for (const FlopsPerSecond rate : {rates.forward_64, rates.forward_128, rates.backward_64,
                                    rates.backward_128, rates.forward_wide, rates.backward_wide}) {
    start.push_back(std::log(rate.value()));
  }
  if (overhead) {
    start.push_back(std::log(device.attention.key_overhead));
  }
  set(device, minimum_near(attention_objective(device, samples, set), start, kStep));
}

}  // namespace headroom::cost::fit
