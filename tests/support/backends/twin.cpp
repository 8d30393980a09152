#include "tests/support/backends/twin.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "validators/executor/cpu/values.h"

namespace headroom::test {
namespace {

/// Elements behind each tensor that keep their bytes.
constexpr std::int64_t kGuard = 64;
constexpr std::byte kGuardByte{0x5a};

std::int64_t size_of(std::int32_t type) {
  switch (type) {
    case HEADROOM_FP32:
    case HEADROOM_INT32:
      return 4;
    case HEADROOM_BF16:
    case HEADROOM_FP16:
      return 2;
    case HEADROOM_UINT8:
      return 1;
    default:
      return 8;
  }
}

/// A few units in the last place.
double tolerance_of(std::int32_t type) {
  switch (type) {
    case HEADROOM_BF16:
      return 1.0 / 100;
    case HEADROOM_FP16:
      return 1.0 / 700;
    case HEADROOM_FP32:
      return 2e-5;
    default:
      return 0;
  }
}

std::int64_t bytes_of(const Twins& twins) {
  return (twins.offset + twins.count + kGuard) * size_of(twins.type);
}

template <typename T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <typename T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void put_number(std::int32_t type, std::byte* to, double value) {
  switch (type) {
    case HEADROOM_INT32:
      put(to, static_cast<std::int32_t>(value));
      return;
    case HEADROOM_INT64:
      put(to, static_cast<std::int64_t>(value));
      return;
    case HEADROOM_UINT8:
      put(to, static_cast<std::uint8_t>(value));
      return;
    default:
      break;
  }
  const bool known = exec::cpu::with_type(type, [&](auto* element) {
    exec::cpu::Element<decltype(element)> stored{};
    exec::cpu::store(stored, value);
    put(to, stored);
  });
  if (!known) {
    throw std::runtime_error("a test asks for an element type that there is not");
  }
}

double number_at(std::int32_t type, const std::byte* from) {
  switch (type) {
    case HEADROOM_INT32:
      return get<std::int32_t>(from);
    case HEADROOM_INT64:
      return static_cast<double>(get<std::int64_t>(from));
    case HEADROOM_UINT8:
      return get<std::uint8_t>(from);
    default:
      break;
  }
  double number = 0;
  const bool known = exec::cpu::with_type(type, [&](auto* element) {
    number = exec::cpu::load(get<exec::cpu::Element<decltype(element)>>(from));
  });
  if (!known) {
    throw std::runtime_error("a test asks for an element type that there is not");
  }
  return number;
}

}  // namespace

Twin::Twin(const HeadroomDeviceTable& reference, const HeadroomDeviceTable& other,
           std::function<void(int)> before)
    : table_{&reference, &other}, before_(std::move(before)) {
  for (int side = 0; side < 2; ++side) {
    std::array<char, 512> message{};
    const HeadroomOpen how{.ordinal = 0, .reserved = 0, .workspace_bytes = 1 << 20};
    if (table_[side]->open(&how, &device_[side], message.data(), message.size()) != 0) {
      throw std::runtime_error(message.data());
    }
  }
  check(1, table_[1]->info(device_[1], &info_));
  can_compare_ = info_.can_compute != 0;
}

Twin::~Twin() {
  end();
  for (int side = 0; side < 2; ++side) {
    table_[side]->close(device_[side]);
  }
}

void Twin::check(int side, std::int32_t code) const {
  if (code != 0) {
    throw std::runtime_error(name_ + " on " + table_[side]->backend + ": " +
                             table_[side]->last_error(device_[side]));
  }
}

Twins Twin::allocate(std::int32_t type, std::int64_t count, std::int64_t offset) {
  Twins twins{.type = type, .count = count, .offset = offset};
  for (int side = 0; side < 2; ++side) {
    check(side, table_[side]->memory_allocate(device_[side], bytes_of(twins), &twins.memory[side]));
    if (twins.memory[side] == nullptr) {
      throw std::runtime_error("out of memory in a test");
    }
  }
  live_.push_back(twins);
  return twins;
}

void Twin::upload(const Twins& twins, const std::vector<std::byte>& bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  for (int side = 0; side < 2; ++side) {
    const HeadroomDeviceTable& table = *table_[side];
    void* host = nullptr;
    check(side, table.host_allocate(device_[side], size, &host));
    std::memcpy(host, bytes.data(), bytes.size());
    check(side,
          table.copy(device_[side], 0, twins.memory[side], host, size, HEADROOM_HOST_TO_DEVICE));
    check(side, table.stream_synchronize(device_[side], 0));
    check(side, table.host_free(device_[side], host));
  }
}

std::vector<std::byte> Twin::download(const Twins& twins, int side) {
  const HeadroomDeviceTable& table = *table_[side];
  const std::int64_t size = bytes_of(twins);
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  void* host = nullptr;
  check(side, table.host_allocate(device_[side], size, &host));
  check(side,
        table.copy(device_[side], 0, host, twins.memory[side], size, HEADROOM_DEVICE_TO_HOST));
  check(side, table.stream_synchronize(device_[side], 0));
  std::memcpy(bytes.data(), host, bytes.size());
  check(side, table.host_free(device_[side], host));
  return bytes;
}

Twins Twin::values(std::int32_t type, const std::vector<double>& values, std::int64_t offset) {
  const Twins twins = allocate(type, static_cast<std::int64_t>(values.size()), offset);
  std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_of(twins)), kGuardByte);
  for (std::size_t i = 0; i < values.size(); ++i) {
    put_number(type,
               bytes.data() +
                   (static_cast<std::size_t>(offset) + i) * static_cast<std::size_t>(size_of(type)),
               values[i]);
  }
  upload(twins, bytes);
  return twins;
}

Twins Twin::normal(std::int32_t type, std::int64_t count, double deviation, std::int64_t offset) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  for (double& number : numbers) {
    // Sums of uniform numbers are near enough.
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      sum += static_cast<double>(random_.between(-1000, 1000)) / 1000;
    }
    number = deviation * sum * std::sqrt(3.0 / 4);
  }
  return values(type, numbers, offset);
}

Twins Twin::integers(const std::vector<std::int32_t>& integers) {
  return values(HEADROOM_INT32, {integers.begin(), integers.end()});
}

Twins Twin::output(std::int32_t type, std::int64_t count, std::int64_t offset) {
  return values(type, std::vector<double>(static_cast<std::size_t>(count), 77), offset);
}

void Twin::run(const std::function<std::int32_t(const HeadroomDeviceTable&, HeadroomDevice*,
                                                const At&)>& call) {
  for (int side = 0; side < 2; ++side) {
    if (before_) {
      before_(side);
    }
    check(side, call(*table_[side], device_[side], [side](const Twins& twins) -> void* {
            return static_cast<std::byte*>(twins.memory[side]) + twins.offset * size_of(twins.type);
          }));
  }
}

std::vector<double> Twin::numbers(const Twins& twins, int side) {
  const std::vector<std::byte> bytes = download(twins, side);
  std::vector<double> result;
  for (std::int64_t i = 0; i < twins.count; ++i) {
    result.push_back(
        number_at(twins.type, bytes.data() + (twins.offset + i) * size_of(twins.type)));
  }
  return result;
}

void Twin::compare(const std::string& output, const Twins& twins, double factor) {
  Difference difference{.what = name_ + ": " + output};
  if (!can_compare_) {
    return;
  }
  const std::vector<double> reference = numbers(twins, 0);
  const std::vector<double> other = numbers(twins, 1);
  double largest = 0;
  for (const double value : reference) {
    largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
  }
  const double tolerance = factor_ * factor * tolerance_of(twins.type);
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double apart = std::abs(reference[i] - other[i]);
    if (apart == 0 || (std::isnan(reference[i]) && std::isnan(other[i]))) {
      continue;
    }
    const double tolerated = tolerance * (std::abs(reference[i]) + largest / 10);
    const double error = tolerated > 0 && !std::isnan(apart)
                             ? apart / tolerated
                             : std::numeric_limits<double>::infinity();
    difference.error = std::max(difference.error, error);
  }
  // The bytes around the output are as they were.
  const std::vector<std::byte> bytes = download(twins, 1);
  const std::int64_t element = size_of(twins.type);
  for (std::int64_t i = 0; i < bytes_of(twins); ++i) {
    const bool inside = i >= twins.offset * element && i < (twins.offset + twins.count) * element;
    if (!inside && bytes[static_cast<std::size_t>(i)] != kGuardByte) {
      difference.error = std::numeric_limits<double>::infinity();
      difference.what += ", written outside";
      break;
    }
  }
  differences_.push_back(difference);
}

void Twin::end() {
  for (const Twins& twins : live_) {
    for (int side = 0; side < 2; ++side) {
      table_[side]->memory_free(device_[side], twins.memory[side]);
    }
  }
  live_.clear();
}

void compare_all_functions(Twin& twin) {
  compare_elementwise(twin);
  compare_norms(twin);
  compare_attention(twin);
  compare_loss(twin);
  compare_experts(twin);
  compare_optimizer(twin);
  compare_products(twin);
}

}  // namespace headroom::test
