#include "runtimes/megatron/search/activation_family.h"

#include <algorithm>
#include <utility>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/stage_layers.h"

namespace headroom::plan {
namespace {

/// Least number of units of a run and of layers of a group: two at each end, where one is both the
/// second and the last but one.
constexpr std::int64_t kBaseUnits = 3;
/// Stages after the stage whose program is lowered, so that it has warm-up micro-batches as well.
constexpr std::int64_t kStagesBehind = 2;

/// The counts of a form that may vary: units and group of each run, then stages.
std::vector<std::int64_t*> counts_of(SampleForm& form) {
  std::vector<std::int64_t*> counts;
  for (LayerRun& run : form.runs) {
    counts.push_back(&run.units);
    counts.push_back(&run.group);
  }
  counts.push_back(&form.stages);
  return counts;
}

/// Number of micro-batches that are replayed for a steady schedule of `form.stages` stages.
std::int64_t steady_micro_batches(const SampleForm& form) {
  return form.chunks > 1 ? 2 * form.stages : form.stages + 2;
}

/// Converts values at the corners of a cube (bit i: count i one above its base) to coefficients.
void to_coefficients(ActivationFamily::Coefficients& values, std::size_t varying) {
  for (std::size_t bit = 0; bit < varying; ++bit) {
    for (std::size_t corner = 0; corner < (std::size_t{1} << varying); ++corner) {
      if ((corner >> bit & 1U) != 0) {
        values[corner] -= values[corner ^ (std::size_t{1} << bit)];
      }
    }
  }
}

std::int64_t value_at(const ActivationFamily::Coefficients& coefficients, std::size_t varying,
                      const ActivationFamily::Counts& counts) {
  std::int64_t sum = 0;
  for (std::size_t term = 0; term < (std::size_t{1} << varying); ++term) {
    std::int64_t product = coefficients[term];
    for (std::size_t bit = 0; bit < varying; ++bit) {
      product *= (term >> bit & 1U) != 0 ? counts[bit] : 1;
    }
    sum += product;
  }
  return sum;
}

bool bounds(const ActivationFamily::Coefficients& above,
            const ActivationFamily::Coefficients& below) {
  return std::ranges::equal(above, below, [](std::int64_t a, std::int64_t b) { return a >= b; });
}

/// Drops polynomials that another one bounds in every coefficient; of equal ones, one stays.
void drop_bounded(std::vector<ActivationFamily::Coefficients>& all) {
  std::vector<ActivationFamily::Coefficients> kept;
  for (const ActivationFamily::Coefficients& one : all) {
    const auto is_bounded = [&](const auto& other) { return bounds(other, one); };
    if (std::ranges::any_of(kept, is_bounded)) {
      continue;
    }
    std::erase_if(kept, [&](const auto& other) { return bounds(one, other); });
    kept.push_back(one);
  }
  all = std::move(kept);
}

Error irregular(const char* what) {
  return Error::invalid_argument("plan", what, "programs that repeat themselves");
}

}  // namespace

std::optional<FamilyPlace> place_of(const SampleForm& form, StagePlace stage, bool steady) {
  FamilyPlace place{.base = form, .varying = {}, .counts = {}};
  const std::vector<std::int64_t*> counts = counts_of(place.base);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool is_stages = i + 1 == counts.size();
    // A chunk may have one unit less of the last run.
    const bool is_last_run = i + 3 == counts.size();
    const bool has_less = is_last_run && (form.first_short || form.last_short);
    const std::int64_t behind = stage.last ? kStagesBehind + 1 : stage.number + 1 + kStagesBehind;
    const std::int64_t least = is_stages ? behind : kBaseUnits + (has_less ? 1 : 0);
    const bool fixed = is_stages && (!steady || form.chunks > 1);
    if (fixed || *counts[i] <= least) {
      continue;
    }
    if (place.varying.size() == ActivationFamily::kMostCounts) {
      return std::nullopt;
    }
    place.counts[place.varying.size()] = *counts[i] - least;
    place.varying.push_back(i);
    *counts[i] = least;
  }
  if (steady && form.stages > 1) {
    place.base.micro_batches = steady_micro_batches(place.base);
  }
  return place;
}

Result<ActivationFamily> ActivationFamily::make(const ir::ModelSpec& model,
                                                const ir::ParallelPlan& plan,
                                                const SampleForm& form, StagePlace stage,
                                                std::int64_t context_rank,
                                                const DeviceTraits& device) {
  const bool steady = form.stages > 1 && form.micro_batches == steady_micro_batches(form);
  const std::optional<FamilyPlace> place = place_of(form, stage, steady);
  if (!place) {
    return irregular("too many kinds of layers");
  }
  ActivationFamily family;
  family.varying_ = place->varying.size();
  std::vector<std::vector<RegionKey>> keys;
  std::vector<std::vector<Coefficients>> values;
  for (std::size_t corner = 0; corner < (std::size_t{1} << family.varying_); ++corner) {
    SampleForm one = place->base;
    const std::vector<std::int64_t*> counts = counts_of(one);
    for (std::size_t bit = 0; bit < family.varying_; ++bit) {
      *counts[place->varying[bit]] += static_cast<std::int64_t>(corner >> bit & 1U);
    }
    if (steady) {
      one.micro_batches = steady_micro_batches(one);
    }
    const ShortQuestion question = short_question(model, plan, one);
    const std::int64_t number = stage.last ? one.stages - 1 : stage.number;
    const std::int64_t rank =
        number * ir::stage_stride(question.plan) + context_rank * plan.mesh.tensor;
    const Result<ProgramSample> sample =
        sample_program(question, one, ir::Rank{static_cast<std::int32_t>(rank)}, device);
    if (!sample) {
      return sample.error();
    }
    ++family.samples_;
    if (corner == 0) {
      keys.resize(sample->steps.size());
      values.resize(sample->steps.size());
      family.steps_.resize(sample->steps.size());
    }
    std::vector<std::size_t> at(sample->steps.size(), 0);
    for (const RegionPeak& region : sample->regions) {
      const auto step = static_cast<std::size_t>(region.step);
      if (corner == 0) {
        keys[step].push_back(region.key);
        values[step].emplace_back();
      }
      if (at[step] >= keys[step].size() || keys[step][at[step]] != region.key) {
        return irregular("regions that differ");
      }
      values[step][at[step]++][corner] = region.bytes;
    }
    for (std::size_t step = 0; step < sample->steps.size(); ++step) {
      if (at[step] != keys[step].size()) {
        return irregular("regions that differ");
      }
      family.steps_[step].remains[corner] = sample->steps[step].remains;
      family.steps_[step].log[corner] = sample->steps[step].log;
    }
  }
  for (std::size_t step = 0; step < family.steps_.size(); ++step) {
    for (Coefficients& region : values[step]) {
      to_coefficients(region, family.varying_);
    }
    drop_bounded(values[step]);
    family.steps_[step].peaks = std::move(values[step]);
    to_coefficients(family.steps_[step].remains, family.varying_);
    to_coefficients(family.steps_[step].log, family.varying_);
  }
  return family;
}

ActivationFamily::Step ActivationFamily::step(std::size_t index, const Counts& counts) const {
  const StepForm& form = steps_[index];
  Step result{.peak = INT64_MIN,
              .remains = value_at(form.remains, varying_, counts),
              .log = value_at(form.log, varying_, counts)};
  for (const Coefficients& region : form.peaks) {
    result.peak = std::max(result.peak, value_at(region, varying_, counts));
  }
  return result;
}

}  // namespace headroom::plan
