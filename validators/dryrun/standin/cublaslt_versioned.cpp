// Functions of libcublasLt that name its release; see cudart_versioned.cpp.
#include <cstddef>

#include "validators/dryrun/standin/versions.h"

extern "C" std::size_t cublasLtGetVersion() {
  return headroom::standin::version_of(HEADROOM_CUDA_MAJOR).cublaslt;
}
extern "C" std::size_t cublasLtGetCudartVersion() {
  return static_cast<std::size_t>(headroom::standin::version_of(HEADROOM_CUDA_MAJOR).cuda);
}
