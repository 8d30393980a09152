// What the dry run's own Python code asks of the stand-in.
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>

#include "validators/dryrun/standin/device.h"

namespace headroom::standin {
namespace {

/// [[what, times], ...]
std::string counts_json(const std::map<std::string, std::uint64_t>& counts) {
  std::string text = "[";
  for (const auto& [what, times] : counts) {
    text += (text.size() > 1 ? "," : "") + ("[" + json_string(what)) + "," + std::to_string(times) +
            "]";
  }
  return text + "]";
}

std::string state_json() {
  Locked gpu;
  std::uint64_t used = 0;
  std::uint64_t peak = 0;
  for (int at = 0; at < gpu->profile.devices; ++at) {
    used = std::max(used, gpu->memory.used(at));
    peak = std::max(peak, gpu->memory.peak(at));
  }
  std::ostringstream out;
  out << "{\"device_bytes\":" << used << ",\"device_peak\":" << peak
      << ",\"pinned_bytes\":" << gpu->host.pinned_bytes()
      << ",\"pinned_peak\":" << gpu->host.pinned_peak()
      << ",\"managed_bytes\":" << gpu->host.managed_bytes()
      << ",\"refused\":" << counts_json(gpu->refused)
      << ",\"guesses\":" << counts_json(gpu->guesses.all()) << "}";
  return out.str();
}

int write_text(const std::string& text, char* out, std::size_t capacity) {
  std::snprintf(out, capacity, "%s", text.c_str());
  return static_cast<int>(text.size());
}

}  // namespace
}  // namespace headroom::standin

using namespace headroom::standin;  // NOLINT: this file defines C functions

extern "C" {

/// JSON of what was asked of the device since the last call; returns its length, of which at most
/// `capacity` - 1 characters are written.
int headroom_gpu_work(char* out, std::size_t capacity) {
  Locked gpu;
  const int length = write_text(gpu->work.to_json(), out, capacity);
  gpu->work = {};
  return length;
}
/// JSON of memory, refused functions and guessed values since the start.
int headroom_gpu_state(char* out, std::size_t capacity) {
  return write_text(state_json(), out, capacity);
}
/// The next `times` counts of elements that kernels determine are `count`.
void headroom_gpu_next_counts(long long count, int times) {
  Locked gpu;
  gpu->next_count = count;
  gpu->next_counts = times;
}
/// The most bytes in use on one device since the last call, as nvidia-smi would show them.
unsigned long long headroom_gpu_take_peak() {
  Locked gpu;
  std::uint64_t peak = 0;
  for (int at = 0; at < gpu->profile.devices; ++at) {
    peak = std::max(peak, gpu->memory.take_peak(at));
  }
  return peak;
}
/// A kernel has written these values, as the observer knows, and they stay until it forgets them.
void headroom_gpu_state_values(const void* address, const void* bytes, std::size_t size) {
  Locked gpu;
  gpu->values.state(address, bytes, size);
}
void headroom_gpu_forget_values(const void* address, std::size_t size) {
  Locked gpu;
  gpu->values.forget(address, size);
}
/// Writes what is known of `size` bytes into `to`; 0: nothing is.
int headroom_gpu_known_values(const void* address, std::size_t size, void* to) {
  Locked gpu;
  return gpu->values.recall_counted(address, size, gpu->kernels, to) ? 1 : 0;
}
/// The next communicator that is split off has `ranks` ranks, and this process is `rank` of it.
void headroom_gpu_next_group(int ranks, int rank) {
  Locked gpu;
  gpu->next_group_ranks = ranks;
  gpu->next_group_rank = rank;
}
void headroom_gpu_next_count(long long count) {
  headroom_gpu_next_counts(count, 1);
}
}
