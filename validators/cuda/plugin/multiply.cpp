// Matrix products through cuBLASLt.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "validators/cuda/calls/products.h"
#include "validators/cuda/plugin/device.h"
#include "validators/cuda/plugin/prepared_product.h"

namespace headroom::cuda {
namespace {

/// Products that are kept prepared: many more than one model has; a search over batch sizes, which
/// has others for each, does not collect them all.
constexpr std::size_t kMostProducts = 1024;

cudaDataType_t data_type(std::int32_t type, std::int32_t format = 0) {
  if (type == HEADROOM_FP8) {
    return format == HEADROOM_E5M2 ? CUDA_R_8F_E5M2 : CUDA_R_8F_E4M3;
  }
  return type == HEADROOM_BF16 ? CUDA_R_16BF : type == HEADROOM_FP16 ? CUDA_R_16F : CUDA_R_32F;
}

/// Bytes by which an address is known to be aligned; algorithms ask for 256 at most.
std::int64_t alignment_of(const void* data) {
  constexpr std::uintptr_t kLargest = 256;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return static_cast<std::int64_t>(std::min(kLargest, address & (~address + 1)));
}

std::vector<std::int64_t> key_of(const ColumnMajor& p) {
  return {p.rows,
          p.columns,
          p.inner,
          p.transpose_left ? 1 : 0,
          p.transpose_right ? 1 : 0,
          p.type,
          p.output_type,
          p.math,
          p.left_lead,
          p.right_lead,
          p.result_lead,
          p.batches,
          p.left_stride,
          p.right_stride,
          p.result_stride,
          p.left_format,
          p.right_format,
          alignment_of(p.left),
          alignment_of(p.right),
          alignment_of(p.result),
          p.workspace != nullptr ? 1 : 0};
}

/// Calls of cuBLASLt in a row: after the first that fails, the others do nothing.
class Calls {
 public:
  explicit Calls(HeadroomDevice& device) : device_(device) {}
  template <typename Function, typename... A>
  void run(const char* name, Function function, A... arguments) {
    if (failed_ == 0) {
      failed_ = device_.answer(name, function(arguments...));
    }
  }
  [[nodiscard]] std::int32_t failed() const { return failed_; }

 private:
  HeadroomDevice& device_;
  std::int32_t failed_ = 0;
};

/// A column-major matrix, or a batch of them.
struct Matrix {
  std::int32_t type;
  std::int64_t rows, columns, lead, batches, stride;
  std::int32_t format = 0;
};

void make_layout(Calls& calls, const Blas& blas, cublasLtMatrixLayout_t* layout, const Matrix& m) {
  calls.run("cublasLtMatrixLayoutCreate", blas.cublasLtMatrixLayoutCreate, layout,
            data_type(m.type, m.format), static_cast<std::uint64_t>(m.rows),
            static_cast<std::uint64_t>(m.columns), m.lead);
  if (m.batches == 1 || calls.failed() != 0) {
    return;
  }
  const auto count = static_cast<std::int32_t>(m.batches);
  calls.run("cublasLtMatrixLayoutSetAttribute", blas.cublasLtMatrixLayoutSetAttribute, *layout,
            CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
  calls.run("cublasLtMatrixLayoutSetAttribute", blas.cublasLtMatrixLayoutSetAttribute, *layout,
            CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.stride, sizeof m.stride);
}

void describe(Calls& calls, PreparedProduct& made, const ColumnMajor& p) {
  const Blas& blas = made.blas;
  const cublasComputeType_t compute = p.math == HEADROOM_MATH_TF32 && p.type == HEADROOM_FP32
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
  calls.run("cublasLtMatmulDescCreate", blas.cublasLtMatmulDescCreate, &made.product, compute,
            CUDA_R_32F);
  const cublasOperation_t left = p.transpose_left ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t right = p.transpose_right ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (calls.failed() == 0) {
    calls.run("cublasLtMatmulDescSetAttribute", blas.cublasLtMatmulDescSetAttribute, made.product,
              CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
    calls.run("cublasLtMatmulDescSetAttribute", blas.cublasLtMatmulDescSetAttribute, made.product,
              CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
  }
  make_layout(calls, blas, &made.left,
              {.type = p.type,
               .rows = p.transpose_left ? p.inner : p.rows,
               .columns = p.transpose_left ? p.rows : p.inner,
               .lead = p.left_lead,
               .batches = p.batches,
               .stride = p.left_stride,
               .format = p.left_format});
  make_layout(calls, blas, &made.right,
              {.type = p.type,
               .rows = p.transpose_right ? p.columns : p.inner,
               .columns = p.transpose_right ? p.inner : p.columns,
               .lead = p.right_lead,
               .batches = p.batches,
               .stride = p.right_stride,
               .format = p.right_format});
  make_layout(calls, blas, &made.result,
              {.type = p.output_type,
               .rows = p.rows,
               .columns = p.columns,
               .lead = p.result_lead,
               .batches = p.batches,
               .stride = p.result_stride});
}

/// The places of the scales of operands in 8 bits. cuBLASLt reads them when the product runs.
void set_scales(Calls& calls, const PreparedProduct& made, const ColumnMajor& p) {
  if (p.type != HEADROOM_FP8) {
    return;
  }
  const Blas& blas = made.blas;
  calls.run("cublasLtMatmulDescSetAttribute", blas.cublasLtMatmulDescSetAttribute, made.product,
            CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &p.left_scale, sizeof p.left_scale);
  calls.run("cublasLtMatmulDescSetAttribute", blas.cublasLtMatmulDescSetAttribute, made.product,
            CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &p.right_scale, sizeof p.right_scale);
}

/// The first algorithm that cuBLASLt proposes.
std::int32_t choose(Calls& calls, HeadroomDevice& d, PreparedProduct& made, const ColumnMajor& p) {
  const Blas& blas = made.blas;
  cublasLtMatmulPreference_t preference = nullptr;
  calls.run("cublasLtMatmulPreferenceCreate", blas.cublasLtMatmulPreferenceCreate, &preference);
  if (calls.failed() != 0) {
    return 1;
  }
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                       std::size_t bytes) {
    calls.run("cublasLtMatmulPreferenceSetAttribute", blas.cublasLtMatmulPreferenceSetAttribute,
              preference, attribute, value, bytes);
  };
  const auto workspace = static_cast<std::uint64_t>(p.workspace != nullptr ? d.workspace_bytes : 0);
  const auto left = static_cast<std::uint32_t>(alignment_of(p.left));
  const auto right = static_cast<std::uint32_t>(alignment_of(p.right));
  const auto result = static_cast<std::uint32_t>(alignment_of(p.result));
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &left, sizeof left);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &right, sizeof right);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &result, sizeof result);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &result, sizeof result);
  cublasLtMatmulHeuristicResult_t proposal{};
  int found = 0;
  calls.run("cublasLtMatmulAlgoGetHeuristic", blas.cublasLtMatmulAlgoGetHeuristic, d.blas_handle,
            made.product, made.left, made.right, made.result, made.result, preference, 1, &proposal,
            &found);
  blas.cublasLtMatmulPreferenceDestroy(preference);
  if (calls.failed() == 0 && found == 0) {
    return fail(&d, "cuBLASLt has no algorithm for a product of " + std::to_string(p.rows) + " x " +
                        std::to_string(p.inner) + " by " + std::to_string(p.inner) + " x " +
                        std::to_string(p.columns));
  }
  made.algorithm = proposal.algo;
  made.workspace_bytes = proposal.workspaceSize;
  return calls.failed();
}

}  // namespace

std::int32_t multiply(HeadroomDevice* device, HeadroomStream stream, const ColumnMajor& p) {
  HeadroomDevice& d = *device;
  d.enter();
  constexpr int kLeastFor8Bits = 89;  // NVIDIA cuBLAS documentation, section "cublasLtMatmul".
  if (p.type == HEADROOM_FP8 && d.capability < kLeastFor8Bits) {
    return fail(device, "products in 8 bits need a GPU of compute capability 8.9 or newer");
  }
  Calls calls(d);
  std::vector<std::int64_t> key = key_of(p);
  auto found = d.products.find(key);
  if (found == d.products.end()) {
    auto made = std::make_unique<PreparedProduct>(d.blas);
    describe(calls, *made, p);
    set_scales(calls, *made, p);
    if (calls.failed() != 0 || choose(calls, d, *made, p) != 0) {
      return 1;
    }
    if (d.products.size() >= kMostProducts) {
      d.products.clear();
    }
    found = d.products.emplace(std::move(key), std::move(made)).first;
  }
  const PreparedProduct& made = *found->second;
  set_scales(calls, made, p);
  const auto alpha = static_cast<float>(p.alpha);
  const auto beta = static_cast<float>(p.beta);
  d.last_kernel = "cuBLASLt";
  calls.run("cublasLtMatmul", d.blas.cublasLtMatmul, d.blas_handle, made.product,
            static_cast<const void*>(&alpha), p.left, made.left, p.right, made.right,
            static_cast<const void*>(&beta), static_cast<const void*>(p.result), made.result,
            p.result, made.result, &made.algorithm, p.workspace, made.workspace_bytes,
            d.stream(stream));
  return calls.failed();
}

}  // namespace headroom::cuda
