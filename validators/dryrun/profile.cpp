#include "validators/dryrun/profile.h"

namespace headroom::check {

Result<DryRunDevice> profile_of(const cost::DeviceSpec& device, Bytes budget,
                                const DryRunWorld& world) {
  if (device.vendor != "nvidia" || device.traits.compute_major == 0) {
    return Error::invalid_argument("gpu", device.name + ", a GPU of " + device.vendor,
                                   "a GPU of NVIDIA: the dry run stands in for CUDA's libraries",
                                   "headroom fit predicts the memory of a run on " + device.name);
  }
  constexpr int kTens = 10;
  DryRunDevice profile{
      .name = device.name,
      .product = device.product,
      .total = budget > Bytes{0} ? budget : device.total,
      .budget = budget > Bytes{0},
      .outside = {},
      .terms = cost::process_terms(device, world.ranks),
      .capability = kTens * device.traits.compute_major + device.traits.compute_minor,
      .multiprocessors = device.traits.multiprocessors,
      .per_node = device.host ? device.host->devices : 8};
  profile.outside = cost::total_of(profile.terms);
  if (profile.outside >= profile.total) {
    return Error::invalid_argument(
        "budget", to_text(profile.total),
        "more than the " + to_text(profile.outside) + " that CUDA takes outside of PyTorch");
  }
  return profile;
}

}  // namespace headroom::check
