#include "validators/dryrun/standin/profile.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>

namespace headroom::standin {
namespace {

/// One row of the programming guide's table. A capability that is not listed takes the last row
/// that is not above it.
struct CapabilityLimits {
  int capability;  ///< Times ten.
  int threads;
  int blocks;
  std::size_t shared_kib;
};

constexpr std::array<CapabilityLimits, 11> kLimits = {{{50, 2048, 32, 64},
                                                       {60, 2048, 32, 64},
                                                       {70, 2048, 32, 96},
                                                       {75, 1024, 16, 64},
                                                       {80, 2048, 32, 164},
                                                       {86, 1536, 16, 100},
                                                       {87, 1536, 16, 164},
                                                       {89, 1536, 24, 100},
                                                       {90, 2048, 32, 228},
                                                       {100, 2048, 32, 228},
                                                       {120, 1536, 24, 100}}};

const CapabilityLimits& limits_of(const Profile& profile) {
  const int capability = 10 * profile.capability_major + profile.capability_minor;
  const CapabilityLimits* found = kLimits.data();
  for (const CapabilityLimits& row : kLimits) {
    if (row.capability <= capability) {
      found = &row;
    }
  }
  return *found;
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

int Profile::threads_per_multiprocessor() const {
  return limits_of(*this).threads;
}

int Profile::blocks_per_multiprocessor() const {
  return limits_of(*this).blocks;
}

std::size_t Profile::shared_bytes_per_multiprocessor() const {
  return limits_of(*this).shared_kib * 1024;
}

int Profile::compiled_capability() const {
  constexpr std::array<int, 7> kCompiled = {70, 75, 80, 86, 90, 100, 120};
  const int own = 10 * capability_major + capability_minor;
  const auto* const newer = std::ranges::upper_bound(kCompiled, own);
  return newer == kCompiled.begin() ? own : *std::prev(newer);
}

std::size_t Profile::shared_bytes_per_block_optin() const {
  return shared_bytes_per_multiprocessor() - (capability_major >= 8 ? 1024 : 0);
}

Profile profile_from_environment() {
  Profile profile;
  profile.total_bytes = number("HEADROOM_GPU_BYTES", profile.total_bytes);
  profile.context_bytes = number("HEADROOM_GPU_CONTEXT", profile.context_bytes);
  const std::uint64_t capability = number("HEADROOM_GPU_CC", 90);
  profile.capability_major = static_cast<int>(capability / 10);
  profile.capability_minor = static_cast<int>(capability % 10);
  profile.multiprocessors = static_cast<int>(number("HEADROOM_GPU_SMS", 132));
  profile.devices =
      static_cast<int>(std::clamp<std::uint64_t>(number("HEADROOM_GPU_COUNT", 1), 1, kMostDevices));
  profile.lag = number("HEADROOM_GPU_LAG", 0);
  profile.launch_microseconds = number("HEADROOM_GPU_LAUNCH_MICROSECONDS", 0);
  if (const char* name = std::getenv("HEADROOM_GPU_NAME"); name != nullptr && *name != '\0') {
    profile.name = name;
  }
  return profile;
}

}  // namespace headroom::standin
