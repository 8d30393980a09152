#pragma once

#include <cublasLt.h>

#include <string>

namespace headroom::cuda {

// Functions of cuBLASLt that the plugin calls.
#define HEADROOM_BLAS_FUNCTIONS(X)        \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtGetVersion)                   \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)

/// cuBLASLt, found at run time: by its name, in $CUDA_PATH and $CUDA_HOME, in /usr/local/cuda, and
/// where Python packages of NVIDIA put it.
struct Blas {
#define HEADROOM_BLAS_MEMBER(name) decltype(&::name) name = nullptr;
  HEADROOM_BLAS_FUNCTIONS(HEADROOM_BLAS_MEMBER)
#undef HEADROOM_BLAS_MEMBER

  /// Returns what is missing in one sentence, or "".
  [[nodiscard]] std::string load();
  /// "cublasLtMatmul failed: status 14".
  [[nodiscard]] static std::string sentence(const char* call, cublasStatus_t status);
};

}  // namespace headroom::cuda
