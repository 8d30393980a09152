#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/outside_memory.h"
#include "model_ir/base/result.h"
#include "model_ir/base/units.h"

namespace headroom::check {

/// The GPU that a program is told it has.
struct DryRunDevice {
  std::string name;     ///< Catalogue name: "h100-80gb".
  std::string product;  ///< As `torch.cuda.get_device_name()` answers.
  Bytes total;          ///< As `cudaMemGetInfo` answers; a budget stands in its place.
  bool budget = false;  ///< Whether `total` is the user's budget.
  Bytes outside;        ///< Taken before the first allocation: the sum of `terms`.
  std::vector<cost::OutsideTerm> terms;
  int capability = 90;  ///< Compute capability x 10.
  int multiprocessors = 132;
  int per_node = 8;  ///< GPUs of a node.
};

/// The processes that a program is told about.
struct DryRunWorld {
  std::int64_t ranks = 1;  ///< 1: the program is told nothing about other processes.
  std::int64_t rank = 0;
  bool real = false;  ///< The processes of the program itself; `ranks` is how many are expected.
};

/// What the dry run tells a program about `device`.
///
/// `budget`: 0: the device's own total.
/// Errors:  kInvalidArgument for a device of another vendor than NVIDIA: the dry run stands in for
///          CUDA's libraries.
[[nodiscard]] Result<DryRunDevice> profile_of(const cost::DeviceSpec& device, Bytes budget,
                                              const DryRunWorld& world);

}  // namespace headroom::check
