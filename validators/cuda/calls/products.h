#pragma once

#include <cstdint>
#include <vector>

#include "validators/executor/device_abi.h"

namespace headroom::cuda {

/// Products as cuBLASLt understands them: result = alpha op(left) op(right) + beta result, matrices
/// column-major, `*_lead` elements from one column to the next, `*_stride` from one matrix to the
/// next.
struct ColumnMajor {
  std::int64_t rows = 0;     ///< Rows of the result.
  std::int64_t columns = 0;  ///< Columns of the result.
  std::int64_t inner = 0;
  bool transpose_left = false;
  bool transpose_right = false;
  std::int32_t type = 0;
  std::int32_t output_type = 0;
  std::int32_t math = 0;
  double alpha = 1;
  double beta = 0;
  const void* left = nullptr;
  const void* right = nullptr;
  void* result = nullptr;
  std::int64_t left_lead = 0;
  std::int64_t right_lead = 0;
  std::int64_t result_lead = 0;
  std::int64_t batches = 1;
  std::int64_t left_stride = 0;
  std::int64_t right_stride = 0;
  std::int64_t result_stride = 0;
  std::int32_t left_format = 0;  ///< HeadroomFp8, if `type` is HEADROOM_FP8.
  std::int32_t right_format = 0;
  const void* left_scale = nullptr;
  const void* right_scale = nullptr;
  void* workspace = nullptr;
};

/// A row-major matrix is the transpose of a column-major one, so that C = A B becomes C' = B' A'.
/// Two nested batches become one where their strides allow, otherwise a list of batches.
[[nodiscard]] std::vector<ColumnMajor> column_major(const HeadroomGemm& gemm);

/// Bytes of an element; 0: CUDA multiplies no such elements.
[[nodiscard]] std::int64_t element_bytes(std::int32_t type);

/// The plugin has one with cuBLASLt, the emulation a plain one. No size is 0.
[[nodiscard]] std::int32_t multiply(HeadroomDevice* device, HeadroomStream stream,
                                    const ColumnMajor& product);

void add_products(HeadroomDeviceTable& table);

}  // namespace headroom::cuda
