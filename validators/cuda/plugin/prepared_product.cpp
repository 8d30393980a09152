#include "validators/cuda/plugin/prepared_product.h"

namespace headroom::cuda {

PreparedProduct::~PreparedProduct() {
  for (const cublasLtMatrixLayout_t layout : {left, right, result}) {
    if (layout != nullptr) {
      blas.cublasLtMatrixLayoutDestroy(layout);
    }
  }
  if (product != nullptr) {
    blas.cublasLtMatmulDescDestroy(product);
  }
}

}  // namespace headroom::cuda
