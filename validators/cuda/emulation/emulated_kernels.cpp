// All kernels in one source: their registrations are there as soon as one of them is needed.
#include <functional>
#include <map>
#include <string>

#include "validators/cuda/emulation/kernels.h"
#include "validators/cuda/kernels/attention_rows.cu"
#include "validators/cuda/kernels/attention_tiles.cu"
#include "validators/cuda/kernels/data.cu"
#include "validators/cuda/kernels/elementwise.cu"
#include "validators/cuda/kernels/experts.cu"
#include "validators/cuda/kernels/fp8.cu"
#include "validators/cuda/kernels/loss.cu"
#include "validators/cuda/kernels/norm.cu"
#include "validators/cuda/kernels/optimizer.cu"

namespace headroom::cuda::emulation {

std::map<std::string, Kernel, std::less<>>& kernels() {
  static std::map<std::string, Kernel, std::less<>> table;
  return table;
}

}  // namespace headroom::cuda::emulation
