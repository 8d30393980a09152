#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "cli/app.h"
#include "model_ir/base/check.h"

namespace {

int bug(const char* what) {
  std::cerr << "error: a bug in headroom: " << what
            << "\n  fix: please report it with the command line that shows it\n";
  return static_cast<int>(headroom::cli::ExitCode::kBug);
}

}  // namespace

int main(int count, char** arguments) {
  std::ios::sync_with_stdio(false);
  try {
    const std::vector<std::string> given(arguments + (count > 0 ? 1 : 0), arguments + count);
    const headroom::cli::ExitCode code = headroom::cli::run(given, std::cout, std::cerr);
    std::cout.flush();
    if (!std::cout) {
      std::cerr << "error: standard output: cannot be written\n";
      return static_cast<int>(headroom::cli::ExitCode::kEnvironment);
    }
    return static_cast<int>(code);
  } catch (const std::bad_alloc&) {
    std::cerr << "error: out of host memory\n";
    return static_cast<int>(headroom::cli::ExitCode::kEnvironment);
  } catch (const std::exception& fault) {
    return bug(fault.what());
  }
}
