#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace headroom::standin {

constexpr int kMostDevices = 64;

/// The GPU that the stand-in pretends to be. Every device of the process is one of these.
struct Profile {
  std::string name = "NVIDIA H100 80GB HBM3";
  std::uint64_t total_bytes = 85'017'493'504;  ///< As cudaMemGetInfo reports them.
  std::uint64_t context_bytes = 0;             ///< Gone before the first allocation.
  int capability_major = 9;
  int capability_minor = 0;
  int multiprocessors = 132;
  int devices = 1;
  /// By how many launches the device lags behind the host: an event is complete only that many
  /// launches after it was recorded, or at a synchronisation. 0: everything is complete at once.
  std::uint64_t lag = 0;
  /// Time that events say each launch takes, for tests of what measures times; 0: events tell the
  /// host's clock.
  std::uint64_t launch_microseconds = 0;

  /// Limits of the compute capability.
  ///
  /// Source: CUDA C++ Programming Guide 13.0, table "Technical Specifications per Compute
  ///         Capability".
  [[nodiscard]] int threads_per_multiprocessor() const;
  [[nodiscard]] int blocks_per_multiprocessor() const;
  [[nodiscard]] std::size_t shared_bytes_per_multiprocessor() const;
  /// One block may take all of a multiprocessor's shared memory but 1 KiB (compute capability 8.0
  /// and later), or all of it.
  [[nodiscard]] std::size_t shared_bytes_per_block_optin() const;
  /// The capability (x 10) of the code that runs: kernels of PyTorch's wheels are compiled
  /// for some capabilities, and a device runs the newest of its own major or older ones. CUB
  /// refuses a capability that it was not compiled for.
  ///
  /// Source: TORCH_CUDA_ARCH_LIST in .ci/manywheel/build_cuda.sh of PyTorch 2.8 and 2.11.
  [[nodiscard]] int compiled_capability() const;
};

/// The profile that the environment states (HEADROOM_GPU_BYTES, _CONTEXT, _CC, _SMS, _NAME, _COUNT,
/// _LAG, _LAUNCH_MICROSECONDS); what it does not state keeps the values above.
Profile profile_from_environment();

}  // namespace headroom::standin
