#pragma once

#include <cstdint>

#include "validators/executor/operators.h"

namespace headroom::exec {

/// The labels, sums and factors of the loss of a micro-batch.
struct LossSpec {
  Tensor labels;           ///< [1, T] int32; negative: no label.
  Tensor loss;             ///< [1, 1] STAT, to which the loss is added.
  std::int64_t first = 0;  ///< First token of this rank's part of the vocabulary.
  double factor = 1;       ///< One over the number of labels that are averaged over.
  double loss_scale = 1;   ///< Factor of all gradients.
};

/// Logits of all tokens at once, which are kept for backward, and their cross entropy. x [T, H],
/// weight [V, H] or this rank's rows of it.
void full_loss(Tape& tape, const LossSpec& spec, const Var& x, const Weight& weight);

/// The same in chunks of tokens, each with its backward at once: no more than one chunk of logits
/// exists, and the gradient of x and of the weight is ready when forward ends.
///
/// Model:   chunks of the next power of two of T / ceil(V / H) tokens.
/// Source:  Hsu et al. 2024, Liger Kernel, arXiv:2410.10989, section 3.2; linkedin/Liger-Kernel
///          src/liger_kernel/ops/fused_linear_cross_entropy.py (sizes of the chunks).
void chunked_loss(Tape& tape, const LossSpec& spec, const Var& x, const Weight& weight,
                  std::int64_t vocabulary);

}  // namespace headroom::exec
