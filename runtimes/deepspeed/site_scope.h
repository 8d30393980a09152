#pragma once

#include <cstdint>

#include "runtimes/torch/eager.h"

namespace headroom::ir::deepspeed {

/// Saves the current operator and layer while DeepSpeed's own work sets others, then restores them.
class SiteScope {
 public:
  explicit SiteScope(torch::Eager& eager)
      : eager_(eager), operation_(eager.operation()), layer_(eager.layer()) {}
  ~SiteScope() { eager_.set_site(operation_, layer_); }
  SiteScope(const SiteScope&) = delete;
  SiteScope& operator=(const SiteScope&) = delete;

 private:
  torch::Eager& eager_;
  std::uint16_t operation_;
  std::int32_t layer_;
};

}  // namespace headroom::ir::deepspeed
