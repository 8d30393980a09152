#include "runtimes/torch/collective.h"

#include "runtimes/torch/work_recorder.h"

namespace headroom::ir::torch {

std::uint32_t start_collective(Eager& eager, const CollectiveShape& shape,
                               std::string_view purpose) {
  const StreamId stream = eager.recorder().communicator(shape.group, purpose);
  eager.wait_stream(stream, eager.stream());
  const StreamId before = eager.exchange_stream(stream);
  eager.run(shape);
  eager.exchange_stream(before);
  return eager.record_mark(stream);
}

void finish_collective(Eager& eager, const CollectiveShape& shape, std::string_view purpose) {
  eager.wait_mark(eager.stream(), start_collective(eager, shape, purpose));
}

}  // namespace headroom::ir::torch
