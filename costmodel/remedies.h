#pragma once

#include "costmodel/remedy.h"

namespace headroom::cost {

/// Looks for the cheapest changes that make `found` fit.
///
/// Model:   single changes of the framework, cheapest first. Unless one of them costs next to
///          nothing, also the cheapest combination for each kind of training (`combined_remedies`).
///          If no plan on the question's GPUs fits, more of them (`wider_remedy`).
///          Plans that `memory_floor` rules out are not replayed; plans that the runtime refuses
///          are left out.
/// Requires that `found` is the estimate of the question's plan, with its time if there is a
/// machine. Deterministic within the time limit.
[[nodiscard]] Remedies find_remedies(const RemedyQuestion& question, const StepEstimate& found);

}  // namespace headroom::cost
