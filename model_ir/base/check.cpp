#include "model_ir/base/check.h"

#include <algorithm>
#include <string_view>

namespace headroom {
namespace {

/// A source as the repository names it: the folder of the build is nobody's business.
std::string_view in_repository(std::string_view file) {
  constexpr std::string_view kThis = "model_ir/base/check.cpp";
  constexpr std::string_view kHere = __FILE__;
  const std::string_view root =
      kHere.substr(0, kHere.size() - std::min(kHere.size(), kThis.size()));
  return file.starts_with(root) ? file.substr(root.size()) : file;
}

}  // namespace

void fail_check(const char* condition, const char* file, int line) {
  throw InternalError(std::string(in_repository(file)) + ":" + std::to_string(line) +
                      ": invariant does not hold: " + condition);
}

}  // namespace headroom
