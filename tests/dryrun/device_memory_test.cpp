#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "validators/dryrun/standin/device_memory.h"
#include "validators/dryrun/standin/host_memory.h"
#include "validators/dryrun/standin/profile.h"

namespace headroom::standin {
namespace {

constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;

Profile profile_of(std::uint64_t total, std::uint64_t context) {
  Profile profile;
  profile.total_bytes = total;
  profile.context_bytes = context;
  profile.devices = 2;
  return profile;
}

}  // namespace

TEST_CASE("stand-in GPU: memory is counted in pages of 2 MiB and small requests share them") {
  DeviceMemory memory(profile_of(100 * kMebi, 10 * kMebi));
  CHECK(memory.used(0) == 10 * kMebi);
  CHECK(memory.allocate(3 * kMebi, 0) != nullptr);
  CHECK(memory.used(0) == 14 * kMebi);
  void* first = memory.allocate(512, 0);
  void* second = memory.allocate(512 * 1024, 0);
  CHECK(memory.used(0) == 16 * kMebi);
  CHECK(memory.used(1) == 10 * kMebi);
  CHECK(memory.release(first).has_value());
  CHECK(memory.release(second).has_value());
  CHECK(memory.used(0) == 14 * kMebi);
  CHECK(memory.peak(0) == 16 * kMebi);
  CHECK(memory.free(0) == 86 * kMebi);
}

TEST_CASE("stand-in GPU: what does not fit is refused and changes nothing") {
  DeviceMemory memory(profile_of(100 * kMebi, 10 * kMebi));
  void* most = memory.allocate(90 * kMebi, 0);
  REQUIRE(most != nullptr);
  CHECK(memory.allocate(1, 0) == nullptr);
  CHECK(memory.allocate(std::size_t{1} << 62, 1) == nullptr);
  CHECK(memory.used(0) == 100 * kMebi);
  CHECK_FALSE(memory.take(1, 0));
  CHECK(memory.release(most) == DeviceMemory::Allocation{most, 90 * kMebi, 0});
  CHECK_FALSE(memory.release(most).has_value());
  CHECK(memory.used(0) == 10 * kMebi);
}

TEST_CASE("stand-in GPU: an address belongs to the allocation that holds it") {
  DeviceMemory memory(profile_of(100 * kMebi, 0));
  auto* const begin = static_cast<char*>(memory.allocate(4 * kMebi, 1));
  CHECK(memory.owns(begin));
  CHECK(memory.find(begin + 4 * kMebi - 1)->address == begin);
  CHECK(memory.find(begin + 4 * kMebi - 1)->device == 1);
  CHECK_FALSE(memory.find(begin + 4 * kMebi).has_value());
  int outside = 0;
  CHECK_FALSE(memory.owns(&outside));
}

TEST_CASE("stand-in GPU: a mapping is found, and is no allocation that can be given back") {
  DeviceMemory memory(profile_of(100 * kMebi, 0));
  void* address = memory.reserve(8 * kMebi);
  REQUIRE(memory.take(4 * kMebi, 0));
  memory.map(address, 4 * kMebi, 0);
  CHECK(memory.find(address).has_value());
  CHECK_FALSE(memory.release(address).has_value());
  CHECK(memory.used(0) == 4 * kMebi);
  memory.unmap(address);
  memory.give(4 * kMebi, 0);
  CHECK_FALSE(memory.find(address).has_value());
  CHECK(memory.used(0) == 0);
}

TEST_CASE("stand-in GPU: addresses that were given back are joined, so that they never run out") {
  DeviceMemory memory(profile_of(1024 * kMebi, 0));
  constexpr std::size_t kTebi = std::size_t{1} << 40;
  std::vector<char*> pieces;
  while (auto* const piece = static_cast<char*>(memory.reserve(kTebi / 8))) {
    pieces.push_back(piece);
  }
  REQUIRE(pieces.size() > 1);
  CHECK(memory.reserve(kTebi / 4) == nullptr);
  // In this order, each piece joins the one after it, the one before it, or both.
  for (std::size_t first = 0; first < 2; ++first) {
    for (std::size_t at = first; at < pieces.size(); at += 2) {
      memory.unreserve(pieces[at], kTebi / 8);
    }
  }
  CHECK(memory.reserve(pieces.size() * (kTebi / 8)) == pieces.front());
}

TEST_CASE("stand-in GPU: a peak is taken once, and can be set to what is in use") {
  DeviceMemory memory(profile_of(100 * kMebi, 10 * kMebi));
  memory.release(memory.allocate(40 * kMebi, 0));
  CHECK(memory.take_peak(0) == 50 * kMebi);
  CHECK(memory.take_peak(0) == 10 * kMebi);
  CHECK(memory.peak(0) == 50 * kMebi);
  memory.reset_peak(0);
  CHECK(memory.peak(0) == 10 * kMebi);
}

TEST_CASE("stand-in GPU: random allocations never overlap and end where they began") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  DeviceMemory memory(profile_of(4096 * kMebi, 0));
  std::vector<DeviceMemory::Allocation> live;
  for (int step = 0; step < 2'000; ++step) {
    if (live.empty() || random() % 3 != 0) {
      const std::size_t bytes = 1 + random() % (random() % 2 == 0 ? 4096 : 64 * kMebi);
      const int device = static_cast<int>(random() % 2);
      if (void* address = memory.allocate(bytes, device)) {
        REQUIRE(memory.find(address) == DeviceMemory::Allocation{address, bytes, device});
        live.push_back({address, bytes, device});
      }
    } else {
      const std::size_t chosen = random() % live.size();
      REQUIRE(memory.release(live[chosen].address) == live[chosen]);
      live[chosen] = live.back();
      live.pop_back();
    }
    for (const DeviceMemory::Allocation& one : live) {
      REQUIRE(memory.find(static_cast<char*>(one.address) + one.bytes - 1) == one);
    }
  }
  for (const DeviceMemory::Allocation& one : live) {
    memory.release(one.address);
  }
  CHECK(memory.used(0) == 0);
  CHECK(memory.used(1) == 0);
}

TEST_CASE("stand-in GPU: pinned memory is known by its kind until it is given back") {
  HostMemory host;
  auto* const pinned = static_cast<char*>(host.allocate(10'000, HostMemory::Kind::kPinned));
  REQUIRE(pinned != nullptr);
  CHECK(host.kind(pinned + 9'999) == HostMemory::Kind::kPinned);
  CHECK(host.kind(pinned + 10'000) == HostMemory::Kind::kNone);
  char own[16] = {};
  CHECK(host.enrol(own, sizeof own));
  CHECK_FALSE(host.enrol(own, sizeof own));
  CHECK(host.kind(own + 15) == HostMemory::Kind::kRegistered);
  void* managed = host.allocate(5'000, HostMemory::Kind::kManaged);
  CHECK(host.pinned_bytes() == 10'016);
  CHECK(host.managed_bytes() == 5'000);
  CHECK_FALSE(host.release(own));
  CHECK(host.withdraw(own));
  CHECK_FALSE(host.withdraw(pinned));
  CHECK(host.release(pinned));
  CHECK(host.release(managed));
  CHECK_FALSE(host.release(pinned));
  CHECK(host.pinned_bytes() == 0);
  CHECK(host.pinned_peak() == 10'016);
}

TEST_CASE("stand-in GPU: cleared host pages read as zero to their last byte") {
  constexpr std::size_t kBytes = 40'000;
  HostMemory host;
  auto* const memory = static_cast<char*>(host.allocate(kBytes, HostMemory::Kind::kPinned));
  for (std::size_t at = 0; at < kBytes; ++at) {
    memory[at] = 'x';
  }
  clear_host_pages(memory + 100, kBytes - 200);
  CHECK(memory[99] == 'x');
  CHECK(memory[kBytes - 100] == 'x');
  bool clear = true;
  for (std::size_t at = 100; at < kBytes - 100; ++at) {
    clear = clear && memory[at] == 0;
  }
  CHECK(clear);
  host.release(memory);
}

}  // namespace headroom::standin
