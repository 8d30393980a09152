#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model_ir/base/result.h"

namespace headroom::cli {

/// The processes that `mpirun -n N headroom ...` has started; one alone without it.
///
/// Model:   what tells is the environment that launchers of Open MPI, MPICH and their kin set.
///          MPI's libraries are loaded only then, through the module `headroom_mpi`, which lies
///          beside the program or, installed, in `../lib/headroom`.
class Ranks {
 public:
  /// Errors:  kEnvironment under a launcher when the program was built without MPI, or MPI does not
  ///          start.
  [[nodiscard]] static Result<Ranks> join();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool is_first() const { return rank_ == 0; }

  /// Every rank's text, by rank, for the first one; nothing for the others. All must call it.
  ///
  /// Errors:  kEnvironment if a rank's does not arrive.
  [[nodiscard]] Result<std::vector<std::string>> gather(const std::string& text) const;
  /// Returns when all have called it.
  void wait() const;

 private:
  struct Module;
  int rank_ = 0;
  int size_ = 1;
  std::shared_ptr<const Module> module_;  ///< None: alone. Leaves MPI with its last owner.
};

}  // namespace headroom::cli
