#include "validators/cuda/emulation/emulated_backend.h"

#include <atomic>
#include <string>

#include "model_ir/base/check.h"
#include "validators/cuda/calls/launch.h"
#include "validators/cuda/calls/products.h"
#include "validators/cuda/emulation/kernels.h"
#include "validators/executor/cpu/cpu_backend.h"
#include "validators/executor/cpu/fp8.h"
#include "validators/executor/cpu/values.h"

namespace headroom::cuda {
namespace {

/// Shared memory of a block on every device that the plugin is built for. Source: CUDA C++
/// Programming Guide 13.0, table "Technical Specifications per Compute Capability", 8.0.
constexpr std::size_t kSharedBytes = std::size_t{163} * 1024;

std::atomic<emulation::Order> order_of_threads = emulation::Order::kAscending;

}  // namespace

std::int32_t fail(HeadroomDevice* device, const std::string& sentence) {
  return exec::cpu::fail(device, sentence.c_str());
}

std::int32_t launch_kernel(HeadroomDevice* device, HeadroomStream /*stream*/,
                           const std::string& kernel, const Grid& grid, const void* arguments,
                           std::size_t argument_bytes) {
  const auto found = emulation::kernels().find(kernel);
  if (found == emulation::kernels().end()) {
    return fail(device, "there is no kernel " + kernel);
  }
  HEADROOM_ASSERT(found->second.argument_bytes == argument_bytes);
  const LaunchLimits limits{.shared_bytes = kSharedBytes};
  if (const std::string problem =
          launch_problem(kernel, grid, found->second.most_threads, 0, limits);
      !problem.empty()) {
    return fail(device, problem);
  }
  emulation::run_grid({.grid = {.x = grid.x, .y = grid.y, .z = grid.z},
                       .threads = grid.threads,
                       .shared_bytes = grid.shared_bytes},
                      order_of_threads, [&] { found->second.body(arguments); });
  return 0;
}

namespace {

/// Both operands are transposed and not, as cuBLASLt wants it: inner dimensions are contiguous.
std::int32_t multiply8(HeadroomDevice* device, const ColumnMajor& p) {
  if (!p.transpose_left || p.transpose_right || p.batches != 1) {
    return fail(device, "products in 8 bits are one at a time, with contiguous inner dimensions");
  }
  using exec::cpu::fp8_value;
  const auto* const left = static_cast<const std::uint8_t*>(p.left);
  const auto* const right = static_cast<const std::uint8_t*>(p.right);
  const double scale = static_cast<double>(*static_cast<const float*>(p.left_scale)) *
                       static_cast<double>(*static_cast<const float*>(p.right_scale));
  return exec::cpu::typed(device, p.output_type, [&](auto* output) {
    auto* const result = exec::cpu::out<exec::cpu::Element<decltype(output)>>(p.result);
    for (std::int64_t column = 0; column < p.columns; ++column) {
      for (std::int64_t row = 0; row < p.rows; ++row) {
        double sum = 0;
        for (std::int64_t i = 0; i < p.inner; ++i) {
          sum += fp8_value(left[row * p.left_lead + i], p.left_format) *
                 fp8_value(right[column * p.right_lead + i], p.right_format);
        }
        auto& to = result[column * p.result_lead + row];
        exec::cpu::store(to,
                         p.alpha * scale * sum + (p.beta == 0 ? 0 : p.beta * exec::cpu::load(to)));
      }
    }
  });
}

}  // namespace

std::int32_t multiply(HeadroomDevice* device, HeadroomStream /*stream*/, const ColumnMajor& p) {
  if (p.type == HEADROOM_FP8) {
    return multiply8(device, p);
  }
  return exec::cpu::typed(device, p.type, p.output_type, [&p](auto* operand, auto* output) {
    using exec::cpu::load;
    using exec::cpu::store;
    using T = exec::cpu::Element<decltype(operand)>;
    using U = exec::cpu::Element<decltype(output)>;
    for (std::int64_t batch = 0; batch < p.batches; ++batch) {
      const T* const left = exec::cpu::in<T>(p.left) + batch * p.left_stride;
      const T* const right = exec::cpu::in<T>(p.right) + batch * p.right_stride;
      U* const result = exec::cpu::out<U>(p.result) + batch * p.result_stride;
      for (std::int64_t column = 0; column < p.columns; ++column) {
        for (std::int64_t row = 0; row < p.rows; ++row) {
          double sum = 0;
          for (std::int64_t i = 0; i < p.inner; ++i) {
            sum += load(left[p.transpose_left ? row * p.left_lead + i : i * p.left_lead + row]) *
                   load(right[p.transpose_right ? i * p.right_lead + column
                                                : column * p.right_lead + i]);
          }
          U& to = result[column * p.result_lead + row];
          store(to, p.alpha * sum + (p.beta == 0 ? 0 : p.beta * load(to)));
        }
      }
    }
  });
}

namespace emulation {

const HeadroomDeviceTable& emulated_backend() {
  static const HeadroomDeviceTable table = [] {
    HeadroomDeviceTable made = exec::cpu_backend();
    made.backend = "emulated CUDA";
    add_kernels(made);
    add_products(made);
    return made;
  }();
  return table;
}

void set_order(Order order) {
  order_of_threads = order;
}

}  // namespace emulation
}  // namespace headroom::cuda
