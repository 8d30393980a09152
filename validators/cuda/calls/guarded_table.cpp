#include "validators/cuda/calls/guarded_table.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "validators/cuda/calls/launch.h"

namespace headroom::cuda {
namespace {

// Functions that take an opened device and return a code.
#define HEADROOM_DEVICE_CALLS(X) \
  X(info)                        \
  X(memory_info)                 \
  X(memory_allocate)             \
  X(memory_free)                 \
  X(host_allocate)               \
  X(host_free)                   \
  X(copy)                        \
  X(copy_rows)                   \
  X(clear)                       \
  X(stream_create)               \
  X(stream_synchronize)          \
  X(event_create)                \
  X(event_destroy)               \
  X(event_record)                \
  X(event_wait)                  \
  X(event_seconds)               \
  X(gemm)                        \
  X(gemm_grouped)                \
  X(largest_magnitude)           \
  X(quantise)                    \
  X(fill)                        \
  X(random_normal)               \
  X(random_tokens)               \
  X(cast)                        \
  X(add)                         \
  X(accumulate)                  \
  X(scale)                       \
  X(add_bias)                    \
  X(column_sum)                  \
  X(activation)                  \
  X(activation_backward)         \
  X(gated)                       \
  X(gated_backward)              \
  X(embedding)                   \
  X(embedding_backward)          \
  X(add_positions)               \
  X(add_positions_backward)      \
  X(norm)                        \
  X(norm_backward)               \
  X(rope_table)                  \
  X(rope)                        \
  X(attention)                   \
  X(attention_backward)          \
  X(causal_softmax)              \
  X(softmax_backward)            \
  X(logit_statistics)            \
  X(rescale_sums)                \
  X(cross_entropy_loss)          \
  X(cross_entropy_backward)      \
  X(route)                       \
  X(route_backward)              \
  X(sort_by_expert)              \
  X(gather_rows)                 \
  X(gather_rows_backward)        \
  X(combine_rows)                \
  X(combine_rows_backward)       \
  X(square_sum)                  \
  X(gradient_factor)             \
  X(adamw)                       \
  X(adamw_8bit)

constexpr const char* kSentence =
    "the device library has no host memory left, or a fault of its own";

HeadroomDeviceTable guarded_functions;

template <typename Function>
struct Guard;

template <typename... P>
struct Guard<std::int32_t (*)(HeadroomDevice*, P...)> {
  template <auto kMember>
  static std::int32_t call(HeadroomDevice* device, P... arguments) noexcept {
    try {
      return (guarded_functions.*kMember)(device, arguments...);
    } catch (...) {
      return report(device);
    }
  }

  static std::int32_t report(HeadroomDevice* device) noexcept {
    try {
      return fail(device, kSentence);
    } catch (...) {
      return 1;  // There is no memory for the sentence.
    }
  }
};

std::int32_t guarded_open(const HeadroomOpen* how, HeadroomDevice** device, char* message,
                          std::int64_t message_size) noexcept {
  try {
    return guarded_functions.open(how, device, message, message_size);
  } catch (...) {
    *device = nullptr;
    std::snprintf(message, static_cast<std::size_t>(message_size), "%s", kSentence);
    return 1;
  }
}

void guarded_close(HeadroomDevice* device) noexcept {
  try {
    guarded_functions.close(device);
  } catch (...) {  // NOLINT(bugprone-empty-catch): nobody can be told.
  }
}

// A function that is missing in the list would make this differ.
#define HEADROOM_COUNT(name) +1
constexpr std::size_t kOthers = 3;  // open, close, last_error
static_assert(sizeof(HeadroomDeviceTable) ==
              2 * sizeof(std::int32_t) + sizeof(const char*) +
                  sizeof(void (*)()) * (kOthers HEADROOM_DEVICE_CALLS(HEADROOM_COUNT)));
#undef HEADROOM_COUNT

}  // namespace

HeadroomDeviceTable guarded_table(const HeadroomDeviceTable& functions) {
  guarded_functions = functions;
  HeadroomDeviceTable table = functions;  // `last_error` returns text that is there.
  table.open = guarded_open;
  table.close = guarded_close;
#define HEADROOM_GUARD(name) \
  table.name = Guard<decltype(table.name)>::call<&HeadroomDeviceTable::name>;
  HEADROOM_DEVICE_CALLS(HEADROOM_GUARD)
#undef HEADROOM_GUARD
  return table;
}

#undef HEADROOM_DEVICE_CALLS

}  // namespace headroom::cuda
