#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "validators/executor/context.h"

namespace headroom::exec {

/// Copies between device and page-locked host memory on a stream of their own, in order. The
/// compute stream waits only where it is told to.
class CopyStream {
 public:
  explicit CopyStream(Context& context);
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  /// Starts a copy to `to`, which the compute stream may have used until now. The result stands for
  /// its end.
  [[nodiscard]] HeadroomEvent upload(void* to, const std::byte* host, std::int64_t bytes);
  /// Starts a copy of what the compute stream has computed until now.
  [[nodiscard]] HeadroomEvent download(std::byte* host, const void* from, std::int64_t bytes);
  /// The same; `from` lives until the compute stream has waited for the copy, which happens when a
  /// few more downloads have begun.
  void download(std::byte* host, const Tensor& from);
  /// The compute stream waits for the end of all downloads; what they have kept is freed.
  void finish();

  /// The compute stream waits for the event, which is then used again.
  void wait(HeadroomEvent event);

 private:
  struct Pending {
    Tensor tensor;
    HeadroomEvent end = 0;
  };
  [[nodiscard]] HeadroomEvent event();
  void follow_compute();
  void drop_oldest();

  Context& context_;
  HeadroomStream stream_ = 0;
  std::vector<HeadroomEvent> unused_;
  std::deque<Pending> pending_;
};

}  // namespace headroom::exec
