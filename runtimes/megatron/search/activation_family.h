#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "runtimes/megatron/search/program_sample.h"
#include "runtimes/megatron/search/sample_form.h"

namespace headroom::plan {

/// Which pipeline stage a rank belongs to, counted so that it is the same in a pipeline with more
/// stages behind it.
struct StagePlace {
  std::int64_t number = 0;  ///< From the first; not for the last.
  bool last = false;        ///< Of two or more.
  friend bool operator==(const StagePlace&, const StagePlace&) = default;
};

/// The peaks of all Megatron programs that differ only in how often they repeat themselves.
///
/// Model:   layers of a run, groups of layers that are recomputed together, and stages of a
///          pipeline repeat. Live bytes at one moment of a program are a polynomial of degree one
///          in each of these counts: they grow by what one more of them keeps. So 2^k programs
///          (each count at its base or one above) determine the polynomial of every region, and the
///          peak of any longer program is the greatest of them:
///
///              peak(t1..tk) = max over regions of  sum over S of c[S] * prod over i in S of t_i
///
///          with t_i = count - base >= 0. A polynomial that another bounds coefficient by
///          coefficient is dropped: it is nowhere greater. Counts below their base are taken as
///          they are.
class ActivationFamily {
 public:
  static constexpr std::size_t kMostCounts = 4;
  using Coefficients = std::array<std::int64_t, std::size_t{1} << kMostCounts>;
  using Counts = std::array<std::int64_t, kMostCounts>;  ///< The t_i.

  /// What remains and peaks in a step, above what `StaticMemory` says.
  struct Step {
    std::int64_t peak = 0;     ///< Of forward and backward, above `base`.
    std::int64_t remains = 0;  ///< At the optimizer's begin, above `base`.
    std::int64_t log = 0;      ///< Above `optimizer_end`.
  };

  /// Lowers the programs that determine the family of `form`.
  ///
  /// Errors:  those of the lowering; kInvalidArgument if regions of the programs differ or more
  ///          than `kMostCounts` counts vary.
  [[nodiscard]] static Result<ActivationFamily> make(const ir::ModelSpec& model,
                                                     const ir::ParallelPlan& plan,
                                                     const SampleForm& form, StagePlace stage,
                                                     std::int64_t context_rank,
                                                     const DeviceTraits& device);

  [[nodiscard]] Step step(std::size_t index, const Counts& counts) const;
  [[nodiscard]] std::size_t steps() const { return steps_.size(); }
  /// Programs that were lowered.
  [[nodiscard]] std::size_t samples() const { return samples_; }

 private:
  struct StepForm {
    std::vector<Coefficients> peaks;
    Coefficients remains{};
    Coefficients log{};
  };
  std::vector<StepForm> steps_;
  std::size_t varying_ = 0;
  std::size_t samples_ = 0;
};

/// The form whose programs are lowered for `form`, and how far `form` is above it.
struct FamilyPlace {
  SampleForm base;
  /// Which counts vary, in the order of `ActivationFamily::Counts`: units and group of each run,
  /// then stages.
  std::vector<std::size_t> varying;
  ActivationFamily::Counts counts{};
};
[[nodiscard]] std::optional<FamilyPlace> place_of(const SampleForm& form, StagePlace stage,
                                                  bool steady);

}  // namespace headroom::plan
