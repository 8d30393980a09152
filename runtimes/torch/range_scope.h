#pragma once

#include <cstdint>
#include <string_view>

#include "model_ir/plan/work_range.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::torch {

/// Gives a name to the work that runs during its lifetime (`plan/work_range.h`). The site is
/// unchanged.
class RangeScope {
 public:
  RangeScope(Eager& eager, std::string_view name, std::int32_t chunk = 0) : eager_(eager) {
    mark(name, chunk);
  }
  ~RangeScope() { mark(kRangeEnd, 0); }
  RangeScope(const RangeScope&) = delete;
  RangeScope& operator=(const RangeScope&) = delete;

 private:
  void mark(std::string_view name, std::int32_t chunk) {
    const std::uint16_t operation = eager_.operation();
    const std::int32_t layer = eager_.layer();
    eager_.set_site(name, chunk);
    static_cast<void>(eager_.record_mark(0));
    eager_.set_site(operation, layer);
  }

  Eager& eager_;
};

}  // namespace headroom::ir::torch
