// glibc's checked longjmp refuses to jump to another stack, which is what fibers do.
#undef _FORTIFY_SOURCE

#include "validators/cuda/emulation/block.h"

#include <setjmp.h>  // NOLINT: _setjmp is no part of <csetjmp>.
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "model_ir/base/check.h"

namespace headroom::cuda::emulation {
namespace {

constexpr int kWarpSize = 32;
constexpr std::size_t kStackBytes = std::size_t{256} * 1024;

/// A place where a number of threads wait for each other.
struct Meeting {
  int arrived = 0;
  std::uint64_t number = 0;  ///< Number of meetings that are over.
};

/// The tables that the lanes of a warp show. There are two, because a fast lane may show the next
/// thing before a slow one has looked at this one.
struct Warp {
  Meeting meeting;
  std::array<std::array<Shown, kWarpSize>, 2> tables{};
};

/// A place to go on at. Entering a fiber takes `swapcontext`, which asks the kernel for the signal
/// mask; switching afterwards does not. Sanitizers follow `swapcontext` alone.
class Place {
 public:
  /// Goes on at `to`, until somebody switches back to this one.
  void switch_to(Place& to) {
#if defined(__SANITIZE_ADDRESS__)
    swapcontext(&context_, &to.context_);
#else
    if (_setjmp(registers_) == 0) {
      if (to.is_new_) {
        to.is_new_ = false;
        setcontext(&to.context_);
      }
      _longjmp(to.registers_, 1);
    }
#endif
  }
  /// A function on a stack of its own.
  void begin(void (*function)(), std::byte* stack, std::size_t bytes) {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack;
    context_.uc_stack.ss_size = bytes;
    context_.uc_link = nullptr;
    makecontext(&context_, function, 0);
    is_new_ = true;
  }

 private:
  ucontext_t context_{};
  jmp_buf registers_{};
  bool is_new_ = false;
};

/// Shared memory begins at a multiple of 16 bytes, as on a device.
struct alignas(16) SharedLine {
  std::array<std::byte, 16> bytes;
};

struct Fiber {
  Place place;
  std::unique_ptr<std::byte[]> stack;
  Thread thread;
  const Meeting* waits_for = nullptr;
  std::uint64_t waits_until = 0;
  bool ended = false;
};

class Block {
 public:
  void run(const Launch& launch, const Dimensions& place, Order order,
           const std::function<void()>& body);
  [[nodiscard]] Fiber& current() { return *current_; }
  void wait(Meeting& meeting, int size);
  [[nodiscard]] Warp& warp() {
    return warps_[static_cast<std::size_t>(current_->thread.index / kWarpSize)];
  }
  void meet() { wait(meeting_, static_cast<int>(running_)); }
  void end_current() {
    current_->ended = true;
    current_->place.switch_to(scheduler_);
  }
  void run_body() const { (*body_)(); }

 private:
  void start(Fiber& fiber);
  /// Lets each thread of a warp go on to its next meeting; false: all of them wait or have ended.
  bool run_warp(std::size_t warp, Order order);

  std::vector<std::unique_ptr<Fiber>> fibers_;  ///< Kept from block to block, for their stacks.
  std::vector<Warp> warps_;
  std::vector<SharedLine> shared_;
  Meeting meeting_;
  Place scheduler_;
  Fiber* current_ = nullptr;
  std::size_t running_ = 0;
  std::size_t ended_ = 0;
  const std::function<void()>* body_ = nullptr;
};

thread_local Block* this_block = nullptr;

void enter() {
  this_block->run_body();
  this_block->end_current();
}

void Block::start(Fiber& fiber) {
  if (fiber.stack == nullptr) {
    fiber.stack = std::make_unique<std::byte[]>(kStackBytes);
  }
  fiber.place.begin(enter, fiber.stack.get(), kStackBytes);
  fiber.ended = false;
  fiber.waits_for = nullptr;
}

void Block::run(const Launch& launch, const Dimensions& place, Order order,
                const std::function<void()>& body) {
  const auto count = static_cast<std::size_t>(launch.threads);
  body_ = &body;
  running_ = count;
  ended_ = 0;
  meeting_ = {};
  warps_.assign((count + kWarpSize - 1) / kWarpSize, {});
  // Nobody may rely on what shared memory holds at first: here it is NaN.
  SharedLine line;
  line.bytes.fill(std::byte{0xff});
  shared_.assign(launch.shared_bytes / sizeof line + 1, line);
  while (fibers_.size() < count) {
    fibers_.push_back(std::make_unique<Fiber>());
  }
  for (std::size_t i = 0; i < count; ++i) {
    start(*fibers_[i]);
    fibers_[i]->thread = {.index = static_cast<int>(i),
                          .count = launch.threads,
                          .block = place,
                          .grid = launch.grid,
                          .launch_memory = shared_.front().bytes.data()};
  }
  // A warp runs ahead of the others as far as it can, so that what a missing barrier would let it
  // overwrite is overwritten.
  while (ended_ < count) {
    bool moved = false;
    for (std::size_t i = 0; i < warps_.size(); ++i) {
      const std::size_t warp = order == Order::kAscending ? i : warps_.size() - 1 - i;
      while (run_warp(warp, order)) {
        moved = true;
      }
    }
    HEADROOM_ASSERT(moved);  // Otherwise threads wait for others that have ended.
  }
}

bool Block::run_warp(std::size_t warp, Order order) {
  const std::size_t begin = warp * kWarpSize;
  const std::size_t end = std::min(begin + kWarpSize, running_);
  bool moved = false;
  for (std::size_t i = begin; i < end; ++i) {
    Fiber& fiber = *fibers_[order == Order::kAscending ? i : begin + end - 1 - i];
    if (fiber.ended ||
        (fiber.waits_for != nullptr && fiber.waits_for->number < fiber.waits_until)) {
      continue;
    }
    moved = true;
    current_ = &fiber;
    scheduler_.switch_to(fiber.place);
    ended_ += fiber.ended ? 1 : 0;
  }
  return moved;
}

void Block::wait(Meeting& meeting, int size) {
  const std::uint64_t until = meeting.number + 1;
  meeting.arrived += 1;
  if (meeting.arrived == size) {
    meeting.arrived = 0;
    meeting.number = until;
    return;
  }
  current_->waits_for = &meeting;
  current_->waits_until = until;
  current_->place.switch_to(scheduler_);
  current_->waits_for = nullptr;
}

Block& own_block() {
  thread_local Block block;
  this_block = &block;
  return block;
}

}  // namespace

const Thread& this_thread() {
  return this_block->current().thread;
}

void meet_block() {
  this_block->meet();
}

const std::array<Shown, 32>& exchange(const Shown& shown) {
  Warp& warp = this_block->warp();
  const Thread& thread = this_thread();
  std::array<Shown, kWarpSize>& table = warp.tables[warp.meeting.number % 2];
  table[static_cast<std::size_t>(thread.index % kWarpSize)] = shown;
  this_block->wait(warp.meeting, std::min(kWarpSize, thread.count));
  return table;
}

void run_grid(const Launch& launch, Order order, const std::function<void()>& body) {
  Block& block = own_block();
  for (std::int64_t z = 0; z < launch.grid.z; ++z) {
    for (std::int64_t y = 0; y < launch.grid.y; ++y) {
      for (std::int64_t x = 0; x < launch.grid.x; ++x) {
        block.run(launch, {.x = x, .y = y, .z = z}, order, body);
      }
    }
  }
}

}  // namespace headroom::cuda::emulation
