#include "costmodel/confidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include "costmodel/memory/timeline.h"

namespace headroom::cost {
namespace {

using Sets = std::vector<const ResidualSet*>;

bool is_memory(Measurand measurand) {
  return measurand != Measurand::kStepTime;
}

/// Whether errors of `lender` can be used for `wanted`.
bool lends(Measurand lender, Measurand wanted) {
  return lender == wanted || (is_memory(lender) && is_memory(wanted));
}

/// `errors`: sorted, not empty.
ErrorRange range_of(const std::vector<double>& errors) {
  const std::size_t n = errors.size();
  if (n < kRunsForRanks) {
    return {errors.front(), errors.back()};
  }
  const double tail = (1 - kConfidenceLevel) / 2 * static_cast<double>(n + 1);
  const auto low = static_cast<std::size_t>(std::floor(tail));  // At least 1.
  return {errors[low - 1], errors[n - low]};
}

ErrorRange hull(const ErrorRange& a, const ErrorRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

/// The residual sets that apply to the prediction; `borrowed` says whether sets of other runtimes
/// are among them.
Sets chosen(std::span<const ResidualSet> sets, const std::string& runtime, Measurand measurand,
            bool& borrowed) {
  constexpr std::size_t kEnough = 2;
  Sets found;
  std::size_t on_gpu = 0;
  for (const ResidualSet& set : sets) {
    if (set.runtime == runtime && set.measurand == measurand) {
      found.push_back(&set);
      on_gpu += set.on_gpu && set.errors.size() >= kRunsOfSource ? 1U : 0U;
    }
  }
  borrowed = false;
  if (on_gpu >= kEnough) {
    return found;
  }
  for (const ResidualSet& set : sets) {
    const bool own = set.runtime == runtime && set.measurand == measurand;
    if (!own && set.on_gpu && lends(set.measurand, measurand)) {
      found.push_back(&set);
      borrowed = borrowed || set.runtime != runtime;
    }
  }
  return found;
}

/// All differences between two runs of one source. They are scaled to the error of predicting one
/// run from the mean of `own` others: variance 1 + 1 / own instead of 2.
std::vector<double> differences(const std::vector<double>& errors, std::size_t own) {
  constexpr std::size_t kMostErrors = 200;  // 40,000 differences are enough.
  const double scale = std::sqrt((1 + 1 / static_cast<double>(own)) / 2);
  const std::size_t stride = (errors.size() + kMostErrors - 1) / kMostErrors;
  std::vector<double> all;
  for (std::size_t i = 0; i < errors.size(); i += stride) {
    for (std::size_t j = 0; j < errors.size(); j += stride) {
      if (i != j) {
        all.push_back((errors[i] - errors[j]) * scale);
      }
    }
  }
  std::ranges::sort(all);
  return all;
}

void add_samples(ErrorModel& model, const std::vector<double>& errors, double centre) {
  for (const double error : errors) {
    model.samples.push_back({centre + error, 1 / static_cast<double>(errors.size())});
  }
}

/// The errors of a source, or their differences around the mean of the user's own runs.
std::vector<double> shaped(const ResidualSet& set, const std::vector<double>& own) {
  return own.empty() ? set.errors : differences(set.errors, own.size());
}

const std::vector<double>& of_measurand(const Calibration& own, Measurand measurand) {
  switch (measurand) {
    case Measurand::kPeakAllocated:
      return own.allocated;
    case Measurand::kPeakReserved:
      return own.reserved;
    case Measurand::kStepTime:
      break;
  }
  return own.step_time;
}

/// Whether the replay of `estimate`'s program succeeds with `capacity` bytes for the allocator.
bool ends_within(const StepEstimate& estimate, const ir::AllocatorSettings& settings,
                 Bytes capacity) {
  return !replay(estimate.program, settings, capacity).out_of_memory.has_value();
}

/// The least capacity with which the replay ends, in steps of 0.5 % above the allocated peak: the
/// same ones whatever capacity there is.
Bytes needed_by_allocator(const StepEstimate& estimate, const ir::AllocatorSettings& settings) {
  constexpr std::int64_t kSteps = 200;
  const bool at_once = estimate.retries == 0 && !estimate.out_of_memory;
  const Bytes least = std::min(estimate.peak_allocated, estimate.peak_reserved);
  const Bytes most =
      at_once ? estimate.peak_reserved : std::max(estimate.peak_reserved, estimate.capacity);
  if (!at_once && !ends_within(estimate, settings, most)) {
    return most;
  }
  const std::int64_t step = std::max<std::int64_t>(least.value() / kSteps, 1);
  std::int64_t low = -1;
  std::int64_t high = ((most - least).value() + step - 1) / step;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (ends_within(estimate, settings, least + Bytes{middle * step}) ? high : low) = middle;
  }
  return least + Bytes{high * step};
}

/// Probability that a value uniform in [low, high] is at most `room`.
double share_within(double room, double low, double high) {
  if (room >= high) {
    return 1;
  }
  return room < low ? 0 : (room - low) / (high - low);
}

/// The chance that an allocator's need fits beside the terms outside of it.
class ChanceToFit {
 public:
  /// Keeps a reference to `model`.
  ChanceToFit(Bytes total, std::span<const OutsideTerm> outside, const ErrorModel& model)
      : model_(model), total_(static_cast<double>(total.value())) {
    for (const OutsideTerm& term : outside) {
      least_ += static_cast<double>(term.bytes.value());
      most_ += static_cast<double>(std::max(term.bound, term.bytes).value());
    }
  }

  double operator()(double needed) const {
    double sum = 0;
    double weights = 0;  // The sum, rounded alike: what always fits has a probability of exactly 1.
    for (const ErrorModel::Sample& sample : model_.samples) {
      sum += sample.weight * share_within(total_ - needed * (1 + sample.error), least_, most_);
      weights += sample.weight;
    }
    return model_.samples.empty() ? share_within(total_ - needed, least_, most_) : sum / weights;
  }

 private:
  const ErrorModel& model_;
  double total_;
  double least_ = 0;
  double most_ = 0;
};

/// `Confidence::needed` and the chances that follow from it.
struct Need {
  std::optional<Bytes> bytes;
  Chances chances;
};

Need need_of(const StepEstimate& estimate, const ErrorModel& model,
             const ir::AllocatorSettings& settings) {
  constexpr double kSlightly = 1e-3;
  const ChanceToFit chance(estimate.device_total, estimate.outside, model);
  const auto chance_of = [&chance](Bytes bytes) {
    return chance(static_cast<double>(bytes.value()));
  };
  const bool at_once = estimate.retries == 0 && !estimate.out_of_memory;
  Need need;
  need.chances.at_once = at_once ? chance_of(estimate.peak_reserved) : 0;
  need.chances.fits = need.chances.at_once;
  // Emptying the cache helps only if the allocated bytes alone would fit.
  const double at_most = chance_of(std::min(estimate.peak_allocated, estimate.peak_reserved));
  if (at_most - need.chances.at_once > kSlightly) {
    need.bytes = needed_by_allocator(estimate, settings);
    need.chances.fits = std::max(chance_of(*need.bytes), need.chances.at_once);
  }
  return need;
}

/// The errors of reserved bytes by runtime, each worked out once. Threads: any number.
class KnownErrors {
 public:
  KnownErrors(std::vector<ResidualSet> sets, Calibration own)
      : sets_(std::move(sets)), own_(std::move(own)) {}

  const ErrorModel& of(const std::string& runtime) {
    const std::lock_guard lock(mutex_);
    const auto [model, is_new] = models_.try_emplace(runtime);
    if (is_new) {
      model->second = error_model(sets_, runtime, Measurand::kPeakReserved, own_);
    }
    return model->second;  // Elements of a map stay where they are.
  }

 private:
  const std::vector<ResidualSet> sets_;
  const Calibration own_;
  std::mutex mutex_;
  std::map<std::string, ErrorModel> models_;
};

}  // namespace

ErrorModel error_model(std::span<const ResidualSet> sets, const std::string& runtime,
                       Measurand measurand, const Calibration& own) {
  ErrorModel model;
  const std::vector<double>& runs = of_measurand(own, measurand);
  const double centre = runs.empty() ? 0
                                     : std::accumulate(runs.begin(), runs.end(), 0.0) /
                                           static_cast<double>(runs.size());
  model.own_runs = runs.size();
  const Sets found = chosen(sets, runtime, measurand, model.borrowed);
  const bool any_gpu =
      std::ranges::any_of(found, [](const ResidualSet* set) { return set->on_gpu; });
  bool first = true;
  for (const ResidualSet* set : found) {
    const std::vector<double> errors = shaped(*set, runs);
    if (errors.empty()) {
      continue;  // A single run has no differences.
    }
    const ErrorRange range = range_of(errors);
    const ErrorRange shifted{centre + range.low, centre + range.high};
    model.range = first ? shifted : hull(model.range, shifted);
    first = false;
    model.runs += set->errors.size();
    model.gpu_runs += set->on_gpu ? set->errors.size() : 0;
    model.sources.push_back(set->source);
    if (set->on_gpu || !any_gpu) {
      add_samples(model, errors, centre);
    }
  }
  if (first) {
    model.range = {centre, centre};
  }
  const double total = std::accumulate(
      model.samples.begin(), model.samples.end(), 0.0,
      [](double sum, const ErrorModel::Sample& sample) { return sum + sample.weight; });
  for (ErrorModel::Sample& sample : model.samples) {
    sample.weight /= total;
  }
  return model;
}

ByteInterval interval_of(Bytes predicted, const ErrorRange& range) {
  const auto at = [predicted](double error) {
    const double bytes = static_cast<double>(predicted.value()) * (1 + error);
    return Bytes{std::llround(std::max(bytes, 0.0))};
  };
  return {.low = at(range.low), .high = at(range.high)};
}

Confidence confidence_of(const StepEstimate& estimate, const ir::ParallelPlan& plan,
                         std::span<const ResidualSet> sets, const Calibration& own) {
  const std::string runtime = residual_runtime(plan);
  Confidence confidence;
  confidence.allocated = interval_of(
      estimate.peak_allocated, error_model(sets, runtime, Measurand::kPeakAllocated, own).range);
  confidence.basis = error_model(sets, runtime, Measurand::kPeakReserved, own);
  confidence.reserved = interval_of(estimate.peak_reserved, confidence.basis.range);
  if (estimate.retries > 0 && !estimate.out_of_memory) {  // It reserves what there is, at most.
    confidence.reserved.high = std::min(confidence.reserved.high, estimate.capacity);
  }
  const ErrorModel times = error_model(sets, runtime, Measurand::kStepTime, own);
  if (estimate.time && times.runs > 0) {
    const Seconds total = estimate.time->total;
    confidence.step_time = TimeInterval{.low = std::max(1 + times.range.low, 0.0) * total,
                                        .high = (1 + times.range.high) * total};
  }
  const Need need = need_of(estimate, confidence.basis, plan.allocator);
  confidence.needed = need.bytes;
  confidence.chances = need.chances;
  return confidence;
}

bool counts_on_emptying(const StepEstimate& estimate, const Confidence& confidence) {
  constexpr double kNotably = 0.99;  // The need is known to 0.5 %.
  const auto reserved = static_cast<double>(estimate.peak_reserved.value());
  return !estimate.out_of_memory && confidence.chances.at_once < kConfidenceLevel &&
         confidence.needed &&
         static_cast<double>(confidence.needed->value()) <= kNotably * reserved;
}

Verdict verdict_of(double chance) {
  if (chance >= kConfidenceLevel) {
    return Verdict::kFits;
  }
  return chance < kLeastChance ? Verdict::kDoesNotFit : Verdict::kTight;
}

void settle_verdict(StepEstimate& estimate, const Confidence& confidence) {
  if (confidence.basis.runs > 0) {
    settle_chances(estimate, confidence.chances);
  }
}

void settle_chances(StepEstimate& estimate, const Chances& chances) {
  estimate.chance = chances.fits;
  estimate.at_once = chances.at_once;
  Verdict verdict = verdict_of(chances.fits);
  if (chances.at_once < kConfidenceLevel) {
    verdict = std::max(verdict, Verdict::kTight);
  }
  estimate.device_verdict = verdict;
  estimate.verdict = std::max(estimate.device_verdict, estimate.host_verdict);
}

Judge judge_by(std::vector<ResidualSet> sets, Calibration own) {
  return [errors = std::make_shared<KnownErrors>(std::move(sets), std::move(own))](
             const ir::ParallelPlan& plan, StepEstimate& estimate) {
    const ErrorModel& model = errors->of(residual_runtime(plan));
    if (model.runs > 0) {
      settle_chances(estimate, need_of(estimate, model, plan.allocator).chances);
    }
  };
}

Bytes room_for(double chance, Bytes total, std::span<const OutsideTerm> outside,
               const ErrorModel& model) {
  Bytes high = total;
  for (const OutsideTerm& term : outside) {
    high -= term.bytes;
  }
  high = std::max(high, Bytes{0});
  const ChanceToFit chance_of(total, outside, model);
  const auto suffices = [&](Bytes need) {
    return chance_of(static_cast<double>(need.value())) >= chance;
  };
  if (model.runs == 0 || suffices(high)) {
    return high;
  }
  Bytes low{0};
  while (high - low > Bytes{kMiB}) {
    const Bytes middle{low.value() + (high.value() - low.value()) / 2};
    (suffices(middle) ? low : high) = middle;
  }
  return low;
}

Room room_by(std::vector<ResidualSet> sets, double chance) {
  /// What was worked out, by all that it depends on.
  struct Known {
    std::mutex mutex;
    std::map<std::tuple<std::string, std::int64_t, std::vector<std::int64_t>>, Bytes> rooms;
  };
  return [chance, errors = std::make_shared<KnownErrors>(std::move(sets), Calibration{}),
          known = std::make_shared<Known>()](const ir::ParallelPlan& plan, Bytes total,
                                             std::span<const OutsideTerm> outside) {
    std::vector<std::int64_t> figures;
    for (const OutsideTerm& term : outside) {
      figures.push_back(term.bytes.value());
      figures.push_back(term.bound.value());
    }
    const std::string runtime = residual_runtime(plan);
    const std::lock_guard lock(known->mutex);
    const auto [room, is_new] =
        known->rooms.try_emplace({runtime, total.value(), std::move(figures)}, Bytes{0});
    if (is_new) {
      room->second = room_for(chance, total, outside, errors->of(runtime));
    }
    return room->second;
  };
}

}  // namespace headroom::cost
