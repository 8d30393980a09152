#include "model_ir/base/check.h"

namespace headroom {

void fail_check(const char* condition, const char* file, int line) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) +
                      ": invariant does not hold: " + condition);
}

}  // namespace headroom
