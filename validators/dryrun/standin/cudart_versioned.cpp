// Functions of libcudart whose answer or arguments differ between CUDA 12 and 13. They stand in the
// library of each version alone (HEADROOM_CUDA_MAJOR), so that a caller's symbol version finds the
// right one.
#include <cstddef>

#include "validators/dryrun/standin/versions.h"

namespace {

constexpr int kVersion = headroom::standin::version_of(HEADROOM_CUDA_MAJOR).cuda;

}  // namespace

extern "C" {

int cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return 0;
}

#if HEADROOM_CUDA_MAJOR >= 13
int cudaStreamGetCaptureInfo_v3(void* stream, int* status, unsigned long long* number, void** graph,
                                const void** dependencies, const void** edges, std::size_t* count);
int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* number, void** graph,
                             const void** dependencies, const void** edges, std::size_t* count) {
  return cudaStreamGetCaptureInfo_v3(stream, status, number, graph, dependencies, edges, count);
}
#else
int cudaStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* number, void** graph,
                                const void** dependencies, std::size_t* count);
int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* number) {
  return cudaStreamGetCaptureInfo_v2(stream, status, number, nullptr, nullptr, nullptr);
}
#endif
}
