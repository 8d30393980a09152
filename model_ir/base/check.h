#pragma once

#include <stdexcept>
#include <string>

namespace headroom {

/// A broken invariant: a bug in Headroom, never a fault of the input. Only `cli/main.cpp`, the
/// window's worker and tests catch it.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throws `InternalError` naming the place and the condition.
[[noreturn]] void fail_check(const char* condition, const char* file, int line);

}  // namespace headroom

/// Holds in release builds too; `condition` is evaluated exactly once.
#define HEADROOM_ASSERT(condition)                            \
  do {                                                        \
    if (!(condition)) {                                       \
      ::headroom::fail_check(#condition, __FILE__, __LINE__); \
    }                                                         \
  } while (false)
