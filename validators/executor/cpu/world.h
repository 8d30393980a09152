#pragma once

#include <functional>
#include <vector>

#include "validators/executor/rank.h"

namespace headroom::exec {

/// All ranks of an execution on the CPU, one thread each, with collectives that really exchange
/// data: sums are in the order of the ranks. `visit` is called for each rank after the last step,
/// in the order of the ranks; the ranks then still hold everything.
///
/// Requires an execution that `check_execution` accepts; its `division.rank` is not read.
void run_world(const Execution& execution,
               const std::function<void(Rank& rank, int number)>& visit);

}  // namespace headroom::exec
