#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "validators/dryrun/standin/fat_binary.h"

namespace headroom::standin {
namespace {

template <typename Number>
void put(std::vector<unsigned char>& bytes, std::size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

/// A container with one image of `payload` bytes for each architecture.
std::vector<unsigned char> container(const std::vector<std::uint32_t>& architectures) {
  constexpr std::size_t kHeader = 16;
  constexpr std::size_t kEntry = 64;
  constexpr std::size_t kPayload = 40;
  std::vector<unsigned char> bytes(kHeader + architectures.size() * (kEntry + kPayload));
  put<std::uint32_t>(bytes, 0, 0xba55ed50);
  put<std::uint16_t>(bytes, 6, kHeader);
  put<std::uint64_t>(bytes, 8, bytes.size() - kHeader);
  std::size_t at = kHeader;
  for (const std::uint32_t architecture : architectures) {
    put<std::uint32_t>(bytes, at + 4, kEntry);
    put<std::uint64_t>(bytes, at + 8, kPayload);
    put<std::uint32_t>(bytes, at + 28, architecture);
    at += kEntry + kPayload;
  }
  return bytes;
}

/// The wrapper that the compiler puts beside the container: __cudaRegisterFatBinary gets its
/// address.
struct Wrapper {
  std::uint32_t magic = 0x466243b1;
  std::uint32_t version = 1;
  const void* data = nullptr;
};

/// They lie in this program, as those of a library lie in it.
Wrapper wrapper;
int kernel = 0;

}  // namespace

TEST_CASE("fat binary: the architectures of its images are read from their headers") {
  CHECK(architectures_in(container({75, 80, 86}).data()) == std::vector<int>{75, 80, 86});
  CHECK(architectures_in(container({}).data()).empty());
  std::vector<unsigned char> other = container({90});
  other[0] = 0;
  CHECK(architectures_in(other.data()).empty());
  CHECK(architectures_in(nullptr).empty());
}

TEST_CASE("fat binary: an entry that claims to be longer than the container ends the reading") {
  std::vector<unsigned char> bytes = container({80, 90});
  put<std::uint64_t>(bytes, 16 + 8, std::uint64_t{1} << 60);
  CHECK(architectures_in(bytes.data()) == std::vector<int>{80});
}

TEST_CASE("fat binary: a kernel runs in the newest image that the device can run") {
  CHECK(image_for(&kernel, 89) == 89);  // nothing is registered yet
  std::vector<unsigned char> bytes = container({75, 80, 86, 90});
  wrapper.data = bytes.data();
  register_fat_binary(&wrapper);
  std::ranges::fill(bytes, 0);  // What was registered is not read again.
  CHECK(image_for(&kernel, 89) == 86);
  CHECK(image_for(&kernel, 90) == 90);
  CHECK(image_for(&kernel, 120) == 90);
  CHECK(image_for(&kernel, 70) == 70);  // none fits
  unregister_fat_binary(&wrapper);
  CHECK(image_for(&kernel, 89) == 89);
}

}  // namespace headroom::standin
