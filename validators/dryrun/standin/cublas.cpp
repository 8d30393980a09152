// cuBLAS and cuBLASLt: matrix products are counted and done at once.
#include <cstdint>
#include <cstring>
#include <new>

#include "validators/dryrun/standin/device.h"

namespace headroom::standin {
namespace {

/// cublasLtMatrixLayout: the handle of a matrix, which may lie in the caller's 64 bytes.
struct Layout {
  double rows;
  double columns;
  double batch = 1;
};
static_assert(sizeof(Layout) <= 64);

/// cublasLtMatmulHeuristicResult_t: an algorithm that needs no workspace. PyTorch allocates the
/// workspace that it allows, whatever the algorithm takes of it.
struct Heuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);

/// A product of m x k and k x n matrices: 2 m n k operations.
int count_product(double m, double n, double k, double batch) {
  Locked gpu;
  ++gpu->work.gemms;
  gpu->work.gemm_flops += 2 * m * n * k * batch;
  gpu->queue.launch();
  return 0;
}

int new_library_handle(void** handle) {
  *handle = new_handle();
  return 0;
}

}  // namespace
}  // namespace headroom::standin

using namespace headroom::standin;  // NOLINT: this file defines C functions

extern "C" {

int cublasCreate_v2(void** handle) {
  return new_library_handle(handle);
}
int cublasGetMathMode(void* /*handle*/, int* mode) {
  *mode = 0;
  return 0;
}
int cublasGetPointerMode_v2(void* /*handle*/, int* mode) {
  *mode = 0;
  return 0;
}
const char* cublasGetStatusString(int status) {
  return status == 0 ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}
const char* cublasGetStatusName(int status) {
  return cublasGetStatusString(status);
}
const char* cublasLtGetStatusString(int status) {
  return cublasGetStatusString(status);
}
const char* cublasLtGetStatusName(int status) {
  return cublasGetStatusString(status);
}

// The first six arguments of every product are handle, transposed a, transposed b, m, n, k.
int cublasSgemm_v2(void* /*handle*/, int /*ta*/, int /*tb*/, int m, int n, int k) {
  return count_product(m, n, k, 1);
}
int cublasDgemm_v2(void* /*handle*/, int /*ta*/, int /*tb*/, int m, int n, int k) {
  return count_product(m, n, k, 1);
}
int cublasHgemm(void* /*handle*/, int /*ta*/, int /*tb*/, int m, int n, int k) {
  return count_product(m, n, k, 1);
}
int cublasSgemmEx(void* /*handle*/, int /*ta*/, int /*tb*/, int m, int n, int k) {
  return count_product(m, n, k, 1);
}
int cublasGemmEx(void* /*handle*/, int /*ta*/, int /*tb*/, int m, int n, int k) {
  return count_product(m, n, k, 1);
}
int cublasGemmStridedBatchedEx(void* /*handle*/, int /*ta*/, int /*tb*/, int m, int n, int k,
                               const void* /*alpha*/, const void* /*a*/, int /*a_type*/,
                               int /*lda*/, long long /*stride_a*/, const void* /*b*/,
                               int /*b_type*/, int /*ldb*/, long long /*stride_b*/,
                               const void* /*beta*/, void* /*c*/, int /*c_type*/, int /*ldc*/,
                               long long /*stride_c*/, int batch) {
  return count_product(m, n, k, batch);
}
int cublasSgemmStridedBatched(void* /*handle*/, int /*ta*/, int /*tb*/, int m, int n, int k,
                              const void* /*alpha*/, const void* /*a*/, int /*lda*/,
                              long long /*stride_a*/, const void* /*b*/, int /*ldb*/,
                              long long /*stride_b*/, const void* /*beta*/, void* /*c*/,
                              int /*ldc*/, long long /*stride_c*/, int batch) {
  return count_product(m, n, k, batch);
}
int cublasGemmBatchedEx(void* /*handle*/, int /*ta*/, int /*tb*/, int m, int n, int k,
                        const void* /*alpha*/, const void* /*a*/, int /*a_type*/, int /*lda*/,
                        const void* /*b*/, int /*b_type*/, int /*ldb*/, const void* /*beta*/,
                        void* /*c*/, int /*c_type*/, int /*ldc*/, int batch) {
  return count_product(m, n, k, batch);
}

int cublasLtCreate(void** handle) {
  return new_library_handle(handle);
}
int cublasLtMatmulDescCreate(void** handle, int /*compute*/, int /*scale*/) {
  return new_library_handle(handle);
}
int cublasLtMatmulPreferenceCreate(void** handle) {
  return new_library_handle(handle);
}
int cublasLtMatrixTransformDescCreate(void** handle, int /*scale*/) {
  return new_library_handle(handle);
}
int cublasLtMatrixLayoutCreate(void** handle, int /*type*/, std::uint64_t rows,
                               std::uint64_t columns, std::int64_t /*leading*/) {
  *handle = new Layout{static_cast<double>(rows), static_cast<double>(columns)};
  return 0;
}
int cublasLtMatrixLayoutInit_internal(void* layout, std::size_t /*size*/, int /*type*/,
                                      std::uint64_t rows, std::uint64_t columns,
                                      std::int64_t /*leading*/) {
  new (layout) Layout{static_cast<double>(rows), static_cast<double>(columns)};
  return 0;
}
int cublasLtMatrixLayoutDestroy(void* handle) {
  delete static_cast<Layout*>(handle);
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(void* handle, int attribute, const void* value,
                                     std::size_t bytes) {
  constexpr int kBatchCount = 5;
  if (attribute == kBatchCount && bytes == sizeof(std::int32_t)) {
    std::int32_t count = 1;
    std::memcpy(&count, value, sizeof count);
    static_cast<Layout*>(handle)->batch = count;
  }
  return 0;
}
int cublasLtMatmulAlgoGetHeuristic(void* /*handle*/, void* /*product*/, void* /*a*/, void* /*b*/,
                                   void* /*c*/, void* /*d*/, void* /*preference*/, int /*wanted*/,
                                   void* results, int* found) {
  const Heuristic heuristic{};
  std::memcpy(results, &heuristic, sizeof heuristic);
  *found = 1;
  return 0;
}
int cublasLtMatmul(void* /*handle*/, void* /*product*/, const void* /*alpha*/, const void* /*A*/,
                   const void* a, const void* /*B*/, const void* /*b*/, const void* /*beta*/,
                   const void* /*C*/, const void* /*c*/, void* /*D*/, const void* d) {
  if (a == nullptr || d == nullptr) {
    return 0;
  }
  // Whether a is transposed is in the description; its elements are m k either way.
  const auto& left = *static_cast<const Layout*>(a);
  const auto& result = *static_cast<const Layout*>(d);
  const double inner = result.rows > 0 ? left.rows * left.columns / result.rows : 0;
  return count_product(result.rows, result.columns, inner, result.batch);
}
}
