// Functions of libnvrtc that name its release; see cudart_versioned.cpp.
#include "validators/dryrun/standin/versions.h"

extern "C" int nvrtcVersion(int* major, int* minor) {
  const int version = headroom::standin::version_of(HEADROOM_CUDA_MAJOR).cuda;  // 12080: 12.8
  *major = version / 1000;
  *minor = version % 1000 / 10;
  return 0;
}
