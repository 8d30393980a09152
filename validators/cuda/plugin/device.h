#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "validators/cuda/calls/launch.h"
#include "validators/cuda/plugin/blas.h"
#include "validators/cuda/plugin/driver.h"
#include "validators/cuda/plugin/prepared_product.h"

namespace headroom::cuda {

/// A kernel that has been started before.
struct LoadedKernel {
  CUfunction function = nullptr;
  int most_threads = 0;
  std::size_t static_bytes = 0;
  std::size_t allowed_bytes = 0;  ///< Allowed bytes of dynamic shared memory.
};

}  // namespace headroom::cuda

/// One opened device.
struct HeadroomDevice {
  HeadroomDevice();
  ~HeadroomDevice();
  HeadroomDevice(const HeadroomDevice&) = delete;
  HeadroomDevice& operator=(const HeadroomDevice&) = delete;

  headroom::cuda::Driver driver;
  headroom::cuda::Blas blas;
  /// A number of this opened device alone; a context may have the address of one that is gone.
  std::uint64_t identity = 0;
  CUdevice ordinal = 0;
  CUcontext context = nullptr;
  int capability = 0;  ///< Compute capability, times ten.
  std::vector<CUstream> streams;
  std::vector<CUevent> events;  ///< Events by their number; null: destroyed.
  std::vector<CUmodule> modules;
  std::unordered_map<std::string, headroom::cuda::LoadedKernel> kernels;
  headroom::cuda::LaunchLimits limits;
  cublasLtHandle_t blas_handle = nullptr;
  std::int64_t workspace_bytes = 0;
  /// Prepared products, by everything that the choice of an algorithm depends on.
  std::map<std::vector<std::int64_t>, std::unique_ptr<headroom::cuda::PreparedProduct>> products;
  std::string error;
  std::string last_kernel;

  /// Makes the context current for this thread.
  void enter() const;
  /// 0, or 1 with the sentence of a failed call. Kernels run later than the call that starts them,
  /// so that a fault names the kernel that was started last.
  [[nodiscard]] std::int32_t answer(const char* call, CUresult code);
  [[nodiscard]] std::int32_t answer(const char* call, cublasStatus_t status);
  [[nodiscard]] CUstream stream(HeadroomStream number) const {
    return streams[static_cast<std::size_t>(number)];
  }
};
