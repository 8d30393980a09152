#pragma once

#include <cstdint>
#include <string_view>

#include "model_ir/plan/host_term.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

/// Parts of the host's memory that several frameworks have in common. `source` must live as long as
/// the program.
namespace headroom::ir {

/// `workers` processes that prepare the batches of a rank.
///
/// Model:   434 MiB each, with all pages that they share with their parent.
/// Source:  measured with torch 2.11: a forked worker shares 424 MiB with its parent and has 10 MiB
///          of its own.
[[nodiscard]] HostTerm data_loaders(std::int64_t workers, std::string_view source);

/// A checkpoint with 16-bit weights whose file is mapped into memory while the model is loaded:
/// pages that the kernel may drop.
[[nodiscard]] HostTerm mapped_checkpoint(const ModelSpec& model, std::string_view source);

/// Tensors of a parameter's size that an optimizer keeps for it.
///
/// Model:   AdamW two, SGD with momentum, Lion and Muon one; the rows and columns of Adafactor
/// count
///          as none.
[[nodiscard]] std::int64_t state_count(const OptimizerPlan& optimizer);

}  // namespace headroom::ir
