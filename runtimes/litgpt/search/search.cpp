#include "runtimes/litgpt/search/search.h"

#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

class LitgptSearch final : public FrameworkSearch {
 public:
  LitgptSearch() : FrameworkSearch("litgpt") {}

  [[nodiscard]] bool only_if_named() const override { return false; }

  /// LitGPT's 4-bit weights are those of Fabric, which prepares nothing.
  [[nodiscard]] bool begin(SpaceWalk& walk) const override {
    if (!FrameworkSearch::begin(walk)) {
      return false;
    }
    if (walk.plan.quant) {
      walk.plan.quant->prepare_kbit = false;
    }
    return true;
  }
};

}  // namespace

const FrameworkSearch& litgpt_search() {
  static const LitgptSearch search;
  return search;
}

}  // namespace headroom::plan
