#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model_ir/base/result.h"

namespace headroom::cli {

/// The processes that `mpirun -n N headroom ...` has started. Without mpirun there is one.
///
/// Model:   the environment variables of launchers (Open MPI, MPICH and similar ones) are checked.
///          Only if they are set, MPI's libraries are loaded, through the module `headroom_mpi`,
///          which is beside the program or, if installed, in `../lib/headroom`.
class Ranks {
 public:
  /// Errors:  kEnvironment under a launcher if the program was built without MPI or if MPI does not
  ///          start.
  [[nodiscard]] static Result<Ranks> join();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool is_first() const { return rank_ == 0; }

  /// The text of every rank, in rank order, on the first rank; empty on the others. All ranks must
  /// call it.
  ///
  /// Errors:  kEnvironment if the text of a rank does not arrive.
  [[nodiscard]] Result<std::vector<std::string>> gather(const std::string& text) const;
  /// Returns when all ranks have called it.
  void wait() const;

 private:
  struct Module;
  int rank_ = 0;
  int size_ = 1;
  std::shared_ptr<const Module> module_;  ///< None if alone. The last owner leaves MPI.
};

}  // namespace headroom::cli
