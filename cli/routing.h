#pragma once

#include <cstdint>
#include <optional>

#include "cli/arguments.h"
#include "cli/question.h"
#include "costmodel/estimate.h"
#include "costmodel/expert_load.h"
#include "model_ir/base/result.h"

namespace headroom::cli {

/// The spread of tokens over experts without --routing-imbalance: as published trainings
/// had it, or evenly, for comparisons with runs that were measured.
enum class UsualRouting : std::uint8_t { kPublished, kEven };

/// The effect of imbalanced token routing on the busiest expert-parallel rank.
struct RoutingAnswer {
  double imbalance = 0;
  bool assumed = false;  ///< The user gave none.
  cost::ExpertLoad load;
  Bytes balanced;  ///< Reserved peak if tokens are spread evenly.
  Bytes expected;  ///< Reserved peak with the expected load.
};

/// Reads --routing-imbalance.
///
/// Errors:  kInvalidArgument for a number out of range, and for a model without experts.
[[nodiscard]] Result<std::optional<double>> read_imbalance(const Arguments& arguments,
                                                           const ir::ModelSpec& model);

/// The answer to the option, or to the usual imbalance without it; nothing if no load depends on
/// the routing.
///
/// Errors:  those of `read_imbalance`; kInvalidArgument if the option is given for a plan whose
///          experts are not on several ranks or are padded to a capacity; those of
///          `cost::estimate`.
[[nodiscard]] Result<std::optional<RoutingAnswer>> ask_routing(const Arguments& arguments,
                                                               const Question& question,
                                                               UsualRouting usual);

/// The routing that needs the most memory.
struct WorstRouting {
  cost::WorstLoad load;
  Bytes bound;      ///< No routing allocates more at once.
  Bytes allocated;  ///< Allocated peak of the routing that sends all tokens to one rank.
  Bytes reserved;   ///< Reserved peak of the same.
  cost::Verdict verdict = cost::Verdict::kFits;  ///< Verdict on it.
};

/// The worst routing of the question's plan; nothing if its framework's lowering does not follow
/// loads of experts.
///
/// Model:   the order of a program's events does not depend on the routing, and no tensor shrinks
///          if the rank's experts get more tokens. So the live bytes of every moment, and their
///          peak, are greatest under the greatest load in all layers and micro-batches at once.
/// Errors:  those of `cost::estimate`.
[[nodiscard]] Result<std::optional<WorstRouting>> worst_routing(const Question& question);

}  // namespace headroom::cli
