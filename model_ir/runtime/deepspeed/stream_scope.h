#pragma once

#include "model_ir/runtime/torch/eager.h"

namespace headroom::ir::deepspeed {

/// Makes a stream the current one for a scope.
class StreamScope {
 public:
  StreamScope(torch::Eager& eager, StreamId stream)
      : eager_(eager), before_(eager.exchange_stream(stream)) {}
  ~StreamScope() { eager_.exchange_stream(before_); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  torch::Eager& eager_;
  StreamId before_;
};

}  // namespace headroom::ir::deepspeed
