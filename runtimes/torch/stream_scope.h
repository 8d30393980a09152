#pragma once

#include "runtimes/torch/eager.h"

namespace headroom::ir::torch {

/// Makes a stream the current one for a scope.
class StreamScope {
 public:
  StreamScope(Eager& eager, StreamId stream)
      : eager_(eager), before_(eager.exchange_stream(stream)) {}
  ~StreamScope() { eager_.exchange_stream(before_); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Eager& eager_;
  StreamId before_;
};

}  // namespace headroom::ir::torch
