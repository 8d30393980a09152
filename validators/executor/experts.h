#pragma once

#include <cstdint>

#include "validators/executor/operators.h"

namespace headroom::exec {

/// A mixture of experts: parameters of one layer on this rank.
struct ExpertWeights {
  Weight router;  ///< [E, H]
  Weight gate;    ///< [E * F, H]
  Weight up;      ///< [E * F, H]
  Weight down;    ///< [E * H, F]
};
struct ExpertSpec {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  bool normalise = false;
  HeadroomActivation activation = HEADROOM_SILU;
};

/// Every token goes to its `top_k` experts; no token is dropped.
///
/// Model:   the T * k choices are sorted by expert, so that all tensors have T * k rows however the
///          tokens are distributed; only the sizes of the experts' products depend on the router.
///          The sizes are read back to the host before the products, in forward.
/// Source:  Gale et al. 2023, MegaBlocks, arXiv:2211.15841 (dropless experts); Jiang et al. 2024,
///          Mixtral, arXiv:2401.04088, section 2.1 (weights of the router).
[[nodiscard]] Var experts(Tape& tape, const ExpertSpec& spec, const ExpertWeights& weights,
                          const Var& x);

}  // namespace headroom::exec
