#pragma once

#include <cstddef>

#include "validators/cuda/plugin/blas.h"

namespace headroom::cuda {

/// The objects that cuBLASLt needs to multiply matrices of given sizes: made once, used in every
/// step.
struct PreparedProduct {
  explicit PreparedProduct(const Blas& library) : blas(library) {}
  ~PreparedProduct();
  PreparedProduct(const PreparedProduct&) = delete;
  PreparedProduct& operator=(const PreparedProduct&) = delete;

  const Blas& blas;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t left = nullptr;
  cublasLtMatrixLayout_t right = nullptr;
  cublasLtMatrixLayout_t result = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
};

}  // namespace headroom::cuda
