#include "runtimes/interface/settle.h"

#include <algorithm>
#include <array>

namespace headroom::ir {
namespace {

constexpr std::array kTorchPrecisions = {Precision::kBf16,         Precision::kBf16AutocastBf16,
                                         Precision::kAutocastBf16, Precision::kAutocastFp16,
                                         Precision::kFp16,         Precision::kFp32};
constexpr std::array kMasterPrecisions = {Precision::kBf16Master, Precision::kFp16Master,
                                          Precision::kFp32};
constexpr std::array kStoredPrecisions = {Precision::kFp32, Precision::kBf16};

bool is_fp16(Precision precision) {
  return precision == Precision::kFp16 || precision == Precision::kAutocastFp16 ||
         precision == Precision::kFp16Master;
}

}  // namespace

std::span<const Precision> torch_precisions() {
  return kTorchPrecisions;
}

std::span<const Precision> master_precisions() {
  return kMasterPrecisions;
}

std::span<const Precision> stored_precisions() {
  return kStoredPrecisions;
}

Precision with_masters(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return Precision::kBf16Master;
    case Precision::kFp16:
      return Precision::kFp16Master;
    case Precision::kFp32:
    case Precision::kAutocastBf16:
    case Precision::kAutocastFp16:
    case Precision::kBf16AutocastBf16:
    case Precision::kBf16Master:
    case Precision::kFp16Master:
      break;
  }
  return precision;
}

Precision nearest_precision(Precision precision, std::span<const Precision> offered) {
  const std::array<Precision, 5> wanted =
      is_fp16(precision) ? std::array{precision, Precision::kFp16Master, Precision::kFp16,
                                      Precision::kBf16Master, Precision::kBf16}
                         : std::array{precision, Precision::kBf16Master, Precision::kBf16,
                                      Precision::kFp32, Precision::kFp32};
  for (const Precision one : wanted) {
    if (std::ranges::find(offered, one) != offered.end()) {
      return one;
    }
  }
  return offered.front();
}

}  // namespace headroom::ir
