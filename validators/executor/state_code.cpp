#include "validators/executor/state_code.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace headroom::exec {
namespace {

constexpr std::size_t kBytes = 256;
constexpr int kExponents = 7;

/// Adds the middles of `count` equal parts of [0.1, 1], times `scale`.
void add_fractions(std::vector<double>& numbers, std::size_t count, double scale) {
  const double width = 0.9 / static_cast<double>(count);
  for (std::size_t part = 0; part < count; ++part) {
    numbers.push_back(scale * (0.1 + width * (static_cast<double>(part) + 0.5)));
  }
}

std::vector<float> dynamic_code(bool is_signed) {
  std::vector<double> numbers;
  for (int exponent = 0; exponent < kExponents; ++exponent) {
    const std::size_t count = std::size_t{1} << (is_signed ? exponent : exponent + 1);
    add_fractions(numbers, count, std::pow(10.0, exponent - kExponents + 1));
  }
  if (is_signed) {
    const std::vector<double> positive = numbers;
    for (const double number : positive) {
      numbers.push_back(-number);
    }
  }
  numbers.push_back(0);
  numbers.push_back(1);
  // The largest number is repeated until there are 256.
  numbers.resize(kBytes, 1);
  std::ranges::sort(numbers);
  std::vector<float> code;
  for (const double number : numbers) {
    code.push_back(static_cast<float>(number));
  }
  return code;
}

}  // namespace

std::vector<float> signed_state_code() {
  return dynamic_code(true);
}

std::vector<float> unsigned_state_code() {
  return dynamic_code(false);
}

}  // namespace headroom::exec
