#include <algorithm>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cli/app.h"
#include "cli/error_json.h"

namespace {

/// People read the message on standard error; what is asked for in JSON gets a document.
int fail(headroom::cli::ExitCode code, bool json, const std::string& message,
         std::string_view fix) {
  if (json) {
    std::cout << headroom::cli::failure_json(code, message, fix) << std::flush;
  }
  std::cerr << "error: " << message << (fix.empty() ? "" : "\n  fix: ") << fix << "\n";
  return static_cast<int>(code);
}

}  // namespace

int main(int count, char** arguments) {
  using headroom::cli::ExitCode;
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> given(arguments + (count > 0 ? 1 : 0), arguments + count);
  // What stands behind `--` belongs to the program that `dryrun` starts.
  const auto own = std::find(given.begin(), given.end(), "--");
  const bool json = std::find(given.begin(), own, "--json") != own;
  try {
    const ExitCode code = headroom::cli::run(given, std::cout, std::cerr);
    std::cout.flush();
    if (!std::cout) {
      return fail(ExitCode::kEnvironment, false, "standard output: cannot be written", {});
    }
    return static_cast<int>(code);
  } catch (const std::bad_alloc&) {
    return fail(ExitCode::kEnvironment, json, "out of host memory", {});
  } catch (const std::exception& fault) {
    return fail(ExitCode::kBug, json, std::string("a bug in headroom: ") + fault.what(),
                "please report it with the command line that shows it");
  }
}
