#include "validators/dryrun/standin/device_attributes.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace headroom::standin {
namespace {

// Figures of one board that decide no memory; every profile has these of an H100 SXM.
constexpr int kClockKilohertz = 1'980'000;
constexpr int kMemoryClockKilohertz = 2'619'000;
constexpr int kBusBits = 5120;
constexpr int kLevel2CacheBytes = 50 << 20;

/// One field of struct cudaDeviceProp: where it lies in CUDA 12 and in CUDA 13 (-1: not there).
/// Source: offsetof in driver_types.h of CUDA 12.8 and 13.0.
struct PropertyField {
  int attribute;  ///< Whose value it takes.
  int offset12;
  int offset13;
  int bytes;
};

constexpr std::array<PropertyField, 40> kFields = {{
    {8, 296, 296, 8},  {12, 304, 304, 4},  {10, 308, 308, 4},  {11, 312, 312, 8},
    {1, 320, 320, 4},  {2, 324, 324, 4},   {3, 328, 328, 4},   {4, 332, 332, 4},
    {5, 336, 336, 4},  {6, 340, 340, 4},   {7, 344, 344, 4},   {13, 348, -1, 4},
    {9, 352, 352, 8},  {75, 360, 360, 4},  {76, 364, 364, 4},  {14, 368, 368, 8},
    {16, 388, 384, 4}, {19, 400, 392, 4},  {31, 576, 560, 4},  {32, 580, 564, 4},
    {33, 584, 568, 4}, {34, 588, 572, 4},  {40, 600, 584, 4},  {41, 604, 588, 4},
    {36, 608, -1, 4},  {37, 612, 592, 4},  {38, 616, 596, 4},  {39, 624, 604, 4},
    {78, 628, 608, 4}, {79, 632, 612, 4},  {80, 636, 616, 4},  {81, 640, 624, 8},
    {82, 648, 632, 4}, {83, 652, 636, 4},  {89, 676, 656, 4},  {95, 688, 668, 4},
    {97, 696, 672, 8}, {106, 712, 688, 4}, {111, 720, 696, 8}, {115, 744, 720, 4},
}};
constexpr std::size_t kSize12 = 1032;
constexpr std::size_t kSize13 = 1008;
constexpr std::size_t kNameBytes = 256;
constexpr std::size_t kUuidOffset = 256;
constexpr std::size_t kTotalOffset = 288;
constexpr int kClusterOffset12 = 772;
constexpr int kClusterOffset13 = 748;

/// Attributes that limit a launch; -1: another attribute.
int launch_limit(const Profile& profile, int attribute) {
  switch (attribute) {
    case 1:  // threads of a block, and of its first two dimensions
    case 2:
    case 3:
      return 1024;
    case 4:
      return 64;
    case 5:
      return 2147483647;
    case 6:
    case 7:
      return 65535;
    case 8:
      return 49152;
    case 9:
      return 65536;
    case 10:
      return 32;
    case 11:
      return 2147483647;
    case 12:
    case 82:
      return 65536;
    case 39:
      return profile.threads_per_multiprocessor();
    case 81:
      return static_cast<int>(profile.shared_bytes_per_multiprocessor());
    case 97:
      return static_cast<int>(profile.shared_bytes_per_block_optin());
    case 106:
      return profile.blocks_per_multiprocessor();
    case 111:
      return profile.capability_major >= 8 ? 1024 : 0;
    default:
      return -1;
  }
}

/// Attributes of the board; -1: another attribute.
int board_figure(const Profile& profile, int attribute, int of) {
  switch (attribute) {
    case 13:
      return kClockKilohertz;
    case 14:
      return 512;
    case 16:
      return profile.multiprocessors;
    case 33:
      return of + 1;
    case 36:
      return kMemoryClockKilohertz;
    case 37:
      return kBusBits;
    case 38:
      return kLevel2CacheBytes;
    case 40:
      return 3;
    case 75:
      return profile.capability_major;
    case 76:
      return profile.capability_minor;
    default:
      return -1;
  }
}

/// Attributes that are 1: mapped host memory, concurrent kernels, error correction, unified
/// addresses, stream priorities, caches, managed memory, preemption, cooperative launches, virtual
/// memory management, memory pools, registered host memory.
constexpr std::array<int, 20> kAlways = {15, 19, 31, 32, 41, 78, 79,  80,  83,  89,
                                         90, 91, 95, 96, 98, 99, 102, 103, 115, 125};
constexpr int kClusterLaunch = 120;
constexpr int kTensorMap = 127;

}  // namespace

int device_attribute(const Profile& profile, int attribute, int of) {
  if (const int limit = launch_limit(profile, attribute); limit >= 0) {
    return limit;
  }
  if (const int figure = board_figure(profile, attribute, of); figure >= 0) {
    return figure;
  }
  if (attribute == kClusterLaunch || attribute == kTensorMap) {
    return profile.capability_major >= 9 ? 1 : 0;
  }
  for (const int always : kAlways) {
    if (always == attribute) {
      return 1;
    }
  }
  return 0;
}

void fill_properties(const Profile& profile, int major, int of, void* properties) {
  char* at = static_cast<char*>(properties);
  std::memset(at, 0, major >= 13 ? kSize13 : kSize12);
  std::snprintf(at, kNameBytes, "%s", profile.name.c_str());
  at[kUuidOffset + 15] = static_cast<char>(of + 1);
  std::memcpy(at + kTotalOffset, &profile.total_bytes, sizeof profile.total_bytes);
  for (const PropertyField& field : kFields) {
    const int offset = major >= 13 ? field.offset13 : field.offset12;
    const std::int64_t value = device_attribute(profile, field.attribute, of);
    if (offset >= 0) {
      std::memcpy(at + offset, &value, static_cast<std::size_t>(field.bytes));
    }
  }
  const int cluster = device_attribute(profile, kClusterLaunch, of);
  std::memcpy(at + (major >= 13 ? kClusterOffset13 : kClusterOffset12), &cluster, sizeof cluster);
}

}  // namespace headroom::standin
