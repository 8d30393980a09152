#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "validators/dryrun/standin/cuda_abi.h"
#include "validators/dryrun/standin/device_memory.h"
#include "validators/dryrun/standin/host_memory.h"
#include "validators/dryrun/standin/profile.h"
#include "validators/dryrun/standin/queue.h"
#include "validators/dryrun/standin/values.h"
#include "validators/dryrun/standin/work.h"

namespace headroom::standin {

/// All state of the stand-in in this process: every entry point of every library ends here.
/// Entry points lock `mutex` before they touch the rest.
struct Device {
  Device() = default;

  std::recursive_mutex mutex;
  Profile profile = profile_from_environment();
  DeviceMemory memory{profile};
  HostMemory host;
  Values values;
  Guesses guesses;
  Queue queue{profile.lag, profile.launch_microseconds};
  Work work;
  std::uint64_t kernels = 0;  ///< Launched since the start.
  std::map<std::string, std::uint64_t> refused;
  /// The count that the next downloads of 4 or 8 bytes are known to be, and how many of them.
  std::int64_t next_count = 0;
  int next_counts = 0;
  /// Size of the group that a split of a communicator leads to, and this process's rank in it; 0:
  /// not known.
  int next_group_ranks = 0;
  int next_group_rank = 0;
  /// What the launched kernel says about the next download of a truth value.
  std::optional<bool> next_truth;
};

/// The one device of the process, made at the first call and never destroyed: libraries call it
/// until the process is gone.
Device& device();

/// Locks the device for one entry point: `Locked gpu; gpu->memory...`.
class Locked {
 public:
  Locked() : lock_(device().mutex) {}
  Device* operator->() const { return &device(); }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

/// The device that the calling thread works on, as cudaSetDevice chose it.
int& current_device();

/// A handle that nothing else has: of a stream, a graph, a library's context.
void* new_handle();

/// Copies as the device would: contents are moved only where they are known and small.
void copy_memory(void* to, const void* from, std::size_t bytes);
void fill_memory(void* at, int byte, std::size_t bytes);

/// Says once per function on stderr that the stand-in does not have it, and returns `status`.
Status refuse(const char* function, Status status);

}  // namespace headroom::standin
