#pragma once

#include "planner/space/framework_search.h"

namespace headroom::plan {

/// Adds how a framework is searched to `framework_searches` during its lifetime, for tests and for
/// programs that link the libraries and add a framework (`ir::RegisteredRuntime`). Must not be
/// created or destroyed while another thread searches.
class RegisteredSearch {
 public:
  /// `search` is that of a framework without one among those that ship; it outlives this object.
  explicit RegisteredSearch(const FrameworkSearch& search);
  ~RegisteredSearch();
  RegisteredSearch(const RegisteredSearch&) = delete;
  RegisteredSearch& operator=(const RegisteredSearch&) = delete;

 private:
  const FrameworkSearch* search_;
};

}  // namespace headroom::plan
