#pragma once

#include <string>

#include "runtimes/torch/eager.h"

namespace headroom::ir::torch {

/// Marks the events of a scope as one phase.
class PhaseScope {
 public:
  PhaseScope(Eager& eager, const std::string& name) : eager_(eager) { eager_.begin_phase(name); }
  ~PhaseScope() { eager_.end_phase(); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Eager& eager_;
};

}  // namespace headroom::ir::torch
