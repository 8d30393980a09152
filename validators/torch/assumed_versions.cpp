#include "validators/torch/assumed_versions.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace headroom::check {
namespace {

struct AssumedRelease {
  std::string_view package;
  std::string_view release;
};

/// Source: tests/measured/README.md, the releases of which rows were recorded.
constexpr std::array<AssumedRelease, 7> kAssumedReleases = {{{"torch", "2.11"},
                                                             {"transformers", "5.17"},
                                                             {"accelerate", "1.15"},
                                                             {"peft", "0.21"},
                                                             {"deepspeed", "0.19"},
                                                             {"bitsandbytes", "0.50"},
                                                             {"liger_kernel", "0.8"}}};

}  // namespace

bool PackageVersion::agrees() const {
  const bool same = used.starts_with(assumed);
  // "5.1" is not the release of "5.17.0".
  return assumed.empty() || (same && (used.size() == assumed.size() ||
                                      std::string_view("0123456789").find(used[assumed.size()]) ==
                                          std::string_view::npos));
}

std::vector<PackageVersion> compared_versions(
    const ir::ParallelPlan& plan, const std::vector<std::pair<std::string, std::string>>& used) {
  std::vector<PackageVersion> versions;
  for (const auto& [package, version] : used) {
    const auto found = std::ranges::find(kAssumedReleases, package, &AssumedRelease::package);
    std::string assumed(found == kAssumedReleases.end() ? "" : found->release);
    if (package == "transformers" && !plan.runtime_version.empty()) {
      assumed = plan.runtime_version;
    }
    versions.push_back({.package = package, .used = version, .assumed = std::move(assumed)});
  }
  return versions;
}

}  // namespace headroom::check
