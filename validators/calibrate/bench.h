#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "model_ir/base/result.h"
#include "validators/calibrate/cases.h"
#include "validators/calibrate/statistics.h"
#include "validators/executor/device.h"

namespace headroom::calibrate {

/// Seconds of the host's clock, from any moment on.
using HostClock = std::function<double()>;
[[nodiscard]] double steady_seconds();

/// Bytes of the workspace that products are given: what PyTorch gives cuBLASLt on Hopper and newer
/// GPUs (pytorch/pytorch aten/src/ATen/cuda/CublasHandlePool.cpp, getChosenWorkspaceSize).
inline constexpr Bytes kWorkspace{std::int64_t{32} << 20};

/// Measures cases on one device. Its memory is obtained once, for the largest case.
class Bench {
 public:
  /// Errors:  kEnvironment if the device fails, or has less memory than the largest case needs.
  [[nodiscard]] static Result<std::unique_ptr<Bench>> make(exec::Device& device,
                                                           const std::vector<Case>& cases,
                                                           HostClock clock = steady_seconds);
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench();

  /// Repeats the case until nine repetitions of at least 20 ms have been measured.
  ///
  /// Model:   the device's events stand around the calls of one repetition. Before short calls, the
  ///          device is given other work, so that the host is ahead and its pace does not show.
  /// Errors:  kEnvironment with the first failure of the device.
  [[nodiscard]] Result<Measurement> measure(const Case& one);

  /// Keeps the device busy with large products for a while, until it runs at the clocks of long
  /// work.
  ///
  /// Errors:  as `measure`.
  [[nodiscard]] Status warm_up(double seconds);

 private:
  using Call = std::function<void()>;

  Bench(exec::Device& device, HostClock clock);
  [[nodiscard]] Call prepare(const GemmCase& gemm);
  [[nodiscard]] Call prepare(const AttentionCase& attention);
  [[nodiscard]] Call prepare(const TrafficCase& traffic);
  [[nodiscard]] Call prepare(const LaunchCase& launch);
  [[nodiscard]] Call prepare(const CopyCase& copy);
  /// A tensor of `bytes` behind those that the case already has.
  [[nodiscard]] std::byte* take(std::int64_t bytes);
  [[nodiscard]] std::byte* normal(std::int64_t elements, ir::DType dtype);
  void get_ahead(std::int64_t calls);
  [[nodiscard]] double device_seconds(const Call& call, std::int64_t calls, bool ahead);
  [[nodiscard]] double host_seconds(const Call& call, std::int64_t calls);

  exec::Device& device_;
  HostClock clock_;
  std::byte* arena_ = nullptr;
  std::byte* workspace_ = nullptr;
  std::int64_t arena_bytes_ = 0;
  std::int64_t taken_ = 0;
  std::byte* pinned_ = nullptr;
  std::vector<std::byte> pageable_;
  HeadroomEvent begin_ = 0;
  HeadroomEvent end_ = 0;
  double clear_seconds_ = 0;  ///< Clearing the whole arena, which is what keeps the device busy.
};

}  // namespace headroom::calibrate
