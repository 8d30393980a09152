#include "model_ir/plan/host_term.h"

#include <algorithm>
#include <bit>

namespace headroom::ir {

std::string_view name_of(HostUse use) {
  switch (use) {
    case HostUse::kProcess:
      return "process and CUDA context";
    case HostUse::kParameters:
      return "parameters";
    case HostUse::kMasterParameters:
      return "master parameters";
    case HostUse::kOptimizerStates:
      return "optimizer states";
    case HostUse::kGradients:
      return "gradients";
    case HostUse::kActivations:
      return "activations";
    case HostUse::kStaging:
      return "staging buffers";
    case HostUse::kLoading:
      return "model while it loads";
    case HostUse::kSaving:
      return "checkpoint copies";
    case HostUse::kDataLoaders:
      return "data loaders";
    case HostUse::kPageCache:
      return "page cache";
  }
  return "?";
}

std::string_view name_of(HostSpan span) {
  switch (span) {
    case HostSpan::kWholeRun:
      return "the whole run";
    case HostSpan::kLoading:
      return "loading";
    case HostSpan::kResuming:
      return "resuming";
    case HostSpan::kTraining:
      return "training";
    case HostSpan::kSaving:
      return "saving a checkpoint";
  }
  return "?";
}

std::int64_t pinned_block(std::int64_t bytes) {
  return bytes <= 0 ? 0
                    : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)));
}

void add_to(std::vector<HostTerm>& terms, const HostTerm& kind, HostPages pages,
            std::int64_t bytes) {
  if (bytes == 0) {
    return;
  }
  const bool pinned = pages != HostPages::kPageable;
  auto same = std::ranges::find_if(terms, [&](const HostTerm& term) {
    return term.use == kind.use && term.span == kind.span && term.pinned == pinned &&
           term.once == kind.once;
  });
  if (same == terms.end()) {
    same = terms.insert(terms.end(), kind);
    same->pinned = pinned;
  }
  const std::int64_t size = bytes < 0 ? -bytes : bytes;
  const Bytes block{pages == HostPages::kPinnedBlock ? pinned_block(size) : size};
  same->requested += Bytes{bytes};
  same->bytes += bytes < 0 ? -block : block;
}

}  // namespace headroom::ir
