#pragma once

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

namespace headroom::bench {

/// Counts the instructions of this thread in user mode. Many virtual machines have no counter; then
/// there is nothing to read, and `valgrind --tool=callgrind` counts instead.
class InstructionCounter {
 public:
  InstructionCounter() {
    perf_event_attr what{};
    what.type = PERF_TYPE_HARDWARE;
    what.size = sizeof(what);
    what.config = PERF_COUNT_HW_INSTRUCTIONS;
    what.exclude_kernel = 1;
    what.exclude_hv = 1;
    file_ = static_cast<int>(syscall(SYS_perf_event_open, &what, 0, -1, -1, 0));
  }
  ~InstructionCounter() {
    if (file_ >= 0) {
      close(file_);
    }
  }
  InstructionCounter(const InstructionCounter&) = delete;
  InstructionCounter& operator=(const InstructionCounter&) = delete;

  [[nodiscard]] std::optional<std::int64_t> read() const {
    std::int64_t count = 0;
    const bool whole = file_ >= 0 && ::read(file_, &count, sizeof(count)) == sizeof(count);
    return whole ? std::optional(count) : std::nullopt;
  }

 private:
  int file_ = -1;
};

}  // namespace headroom::bench
