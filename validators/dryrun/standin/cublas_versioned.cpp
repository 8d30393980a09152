// Functions of libcublas that name its release; see cudart_versioned.cpp.
#include <cstddef>

#include "validators/dryrun/standin/versions.h"

extern "C" int cublasGetVersion_v2(void* /*handle*/, int* version) {
  *version = headroom::standin::version_of(HEADROOM_CUDA_MAJOR).cublas;
  return 0;
}
extern "C" std::size_t cublasGetCudartVersion() {
  return static_cast<std::size_t>(headroom::standin::version_of(HEADROOM_CUDA_MAJOR).cuda);
}
