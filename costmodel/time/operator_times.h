#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "costmodel/time/program_time.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

/// All items of one operator in the last step of a program.
struct OperatorTime {
  std::string name;  ///< "linear", "all_gather"; empty if the program does not name it.
  bool backward = false;
  StepPart part = StepPart::kMemoryBound;
  std::int64_t items = 0;
  Seconds time;      ///< Sum over the items, whether or not they overlap with others.
  double flops = 0;  ///< FLOPs of products and attention, as `flops_of` counts them.
  double bytes = 0;  ///< Bytes of device memory that are read and written; 0 for communication.
};

/// The times of the operators of `program` in its last step, longest first, ties by name.
/// `time` is that of `price_program` for the same program.
[[nodiscard]] std::vector<OperatorTime> operator_times(const ir::RankProgram& program,
                                                       const ProgramTime& time);

}  // namespace headroom::cost
