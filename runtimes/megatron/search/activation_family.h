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

/// The pipeline stage of a rank, numbered so that a pipeline with more stages after it has the same
/// number.
struct StagePlace {
  std::int64_t number = 0;  ///< Counted from the first stage; not used for the last.
  bool last = false;        ///< The last of two or more stages.
  friend bool operator==(const StagePlace&, const StagePlace&) = default;
};

/// The peaks of all Megatron programs that differ only in how often their parts repeat.
///
/// Model:   three things repeat: layers of a run, groups of layers that are recomputed together,
///          and stages of a pipeline. The live bytes at one moment of a program are a polynomial of
///          degree one in each of these counts: one more repetition adds the bytes that it keeps.
///          So 2^k programs (each count at its base or one above) determine the polynomial of every
///          region. The peak of any longer program is the maximum of these polynomials:
///
///             peak(t1..tk) = max over regions of  sum over S of c[S] * prod over i in S of t_i
///
///          with t_i = count - base >= 0. A polynomial is dropped if another one is at least as
///          large in every coefficient: it is nowhere greater. Counts below their base are taken
///          as they are.
class ActivationFamily {
 public:
  static constexpr std::size_t kMostCounts = 4;
  using Coefficients = std::array<std::int64_t, std::size_t{1} << kMostCounts>;
  using Counts = std::array<std::int64_t, kMostCounts>;  ///< The t_i.

  /// What remains and peaks in a step, beyond what `StaticMemory` counts.
  struct Step {
    std::int64_t peak = 0;     ///< Peak of forward and backward, above `base`.
    std::int64_t remains = 0;  ///< What is alive when the optimizer begins, above `base`.
    std::int64_t log = 0;      ///< While losses are logged, above `optimizer_end`.
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
  /// Number of programs that were lowered.
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

/// The form whose programs are lowered for `form`, and the counts by which `form` exceeds it.
struct FamilyPlace {
  SampleForm base;
  /// The counts that vary, in the order of `ActivationFamily::Counts`: units and group of each run,
  /// then stages.
  std::vector<std::size_t> varying;
  ActivationFamily::Counts counts{};
};
[[nodiscard]] std::optional<FamilyPlace> place_of(const SampleForm& form, StagePlace stage,
                                                  bool steady);

}  // namespace headroom::plan
