#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "costmodel/memory/timeline.h"
#include "model_ir/base/result.h"
#include "validators/executor/training.h"

namespace headroom::exec {

/// More than any device has; sums of sizes stay far from an overflow.
inline constexpr Bytes kUnlimitedMemory{std::int64_t{1} << 60};

/// One rank of an execution on a device: everything that it needs, made and destroyed in order.
class Rank {
 public:
  /// `groups`: empty for a shadow rank. `capacity`: what the allocator may take. The execution must
  /// outlive the rank.
  Rank(std::unique_ptr<Device> device, const Execution& execution, Groups groups, Bytes capacity,
       Memory::Backing backing);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /// Loads, and runs all steps. Stops at the first failure.
  void run();

  [[nodiscard]] Training& training() { return *training_; }
  [[nodiscard]] Context& context() { return *context_; }
  [[nodiscard]] const Memory& memory() const { return *memory_; }
  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] const Division& division() const { return division_; }
  /// Losses of the steps, if this rank has the last stage.
  [[nodiscard]] const std::vector<double>& losses() const { return losses_; }
  /// Wall-clock seconds of each step.
  [[nodiscard]] const std::vector<double>& seconds() const { return seconds_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Memory> memory_;
  Groups groups_;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Training> training_;
  Division division_;
  int steps_ = 0;
  std::vector<double> losses_;
  std::vector<double> seconds_;
};

/// The results of a shadow rank on a device.
struct RankRun {
  HeadroomDeviceInfo device{};
  std::vector<cost::PhaseMemory> phases;
  std::optional<cost::OutOfMemory> out_of_memory;
  std::vector<double> losses;
  std::vector<double> seconds;
  std::optional<double> gradient_norm;
  /// Memory that left the device while the rank ran, at most: its segments and what the driver took
  /// besides.
  Bytes driver;
};

/// Runs the execution's rank as a shadow rank on device `ordinal` of a backend, whose allocator may
/// take `capacity`. Running out of memory is a result.
///
/// Errors:  kEnvironment if the device cannot be opened or fails.
[[nodiscard]] Result<RankRun> run_rank(const Execution& execution,
                                       const HeadroomDeviceTable& backend, int ordinal,
                                       Bytes capacity);

/// The memory program of the execution's rank: the program that `run_rank` runs on a device, made
/// without a device. It takes milliseconds to a second for any model.
[[nodiscard]] ir::RankProgram record_rank(const Execution& execution,
                                          Memory::Backing backing = Memory::Backing::kNone);

/// The same, replayed on a device that leaves `capacity` to the allocator.
[[nodiscard]] cost::MemoryTimeline predict_rank(const Execution& execution, Bytes capacity);

}  // namespace headroom::exec
