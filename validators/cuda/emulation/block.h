#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

/// Runs the threads of one block of a kernel on the host, one after the other: each goes on until
/// it meets others. So a kernel's body, compiled for the host, computes what it computes on a GPU,
/// barriers and exchanges within warps included.
namespace headroom::cuda::emulation {

struct Dimensions {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t z = 1;
};

/// The order in which threads run between two meetings. A kernel without a race computes the same
/// bits in both.
enum class Order { kAscending, kDescending };

/// A kernel's own indices, sizes and launch memory.
struct Thread {
  int index = 0;
  int count = 0;
  Dimensions block;
  Dimensions grid;
  std::byte* launch_memory = nullptr;
};
[[nodiscard]] const Thread& this_thread();

/// All threads of the block meet.
void meet_block();

/// The words that a lane shows the others of its warp.
using Shown = std::array<std::uint32_t, 8>;
/// Every lane of the warp shows something and sees what all have shown.
[[nodiscard]] const std::array<Shown, 32>& exchange(const Shown& shown);

/// The sizes of a launch.
struct Launch {
  Dimensions grid;
  int threads = 0;
  std::size_t shared_bytes = 0;
};

/// Runs all blocks. Threads of different launches may call it at the same time.
///
/// Fails (HEADROOM_ASSERT) if some threads of a block end while others wait for them.
void run_grid(const Launch& launch, Order order, const std::function<void()>& body);

}  // namespace headroom::cuda::emulation
