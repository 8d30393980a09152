#pragma once

#include <cstdint>
#include <optional>

#include "costmodel/remedy_judge.h"

namespace headroom::cost {

/// What more GPUs lead to.
struct WiderRemedies {
  std::optional<Remedy> mending;    ///< The first that fits.
  std::optional<Remedy> short_one;  ///< Else the one with the smallest lack of memory.
  bool cut_short = false;           ///< The deadline ended the search.
};

/// A plan that trains the same on more GPUs.
///
/// Model:   powers of two within a node, then whole nodes, from `least_gpus` on, with the cheapest
///          combination of the framework's other changes (`combined_remedies`); frameworks with
///          pipelines double their stages instead. It ends where more GPUs save no more memory: the
///          parts that are not sharded are too large. Then frameworks that shard the layers
///          themselves are tried in the same way (`ir::Runtime::with_sharded_layers`), and then
///          adapters on 16-bit weights in place of quantised ones.
[[nodiscard]] WiderRemedies wider_remedies(const RemedyQuestion& question, std::int64_t least_gpus,
                                           Deadline deadline);

}  // namespace headroom::cost
