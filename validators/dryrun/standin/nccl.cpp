// NCCL: a communicator of any size with one process. Collectives succeed at once; where a buffer's
// contents are known, every other rank is taken to hold what this one holds.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "validators/dryrun/standin/device.h"

namespace headroom::standin {
namespace {

/// `ranks` is 0 where it is not known: ncclCommSplit does not say how many choose the same colour.
struct Communicator {
  int ranks;
  int rank;
};

/// Bytes of ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, half, float, double, bf16,
/// fp8.
constexpr std::array<std::size_t, 12> kTypeBytes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

std::size_t bytes_of(std::size_t count, int type) {
  const auto index = static_cast<std::size_t>(type);
  return count * (index < kTypeBytes.size() ? kTypeBytes[index] : 1);
}

int ranks_of(const void* communicator) {
  return communicator == nullptr ? 0 : static_cast<const Communicator*>(communicator)->ranks;
}

void count_collective(const char* operation, const void* communicator, std::uint64_t bytes) {
  Locked gpu;
  Work::Collective& done = gpu->work.collectives[{operation, ranks_of(communicator)}];
  ++done.calls;
  done.bytes += bytes;
  gpu->queue.launch();
}

/// What one rank sent is known in `to` as well: once for each of `times` ranks. 0 ranks: unknown.
void repeat_values(const void* from, void* to, std::size_t bytes, int times) {
  Locked gpu;
  if (times == 0) {
    gpu->values.forget(to, bytes);
    return;
  }
  const std::size_t all = bytes * static_cast<std::size_t>(times);
  std::vector<unsigned char> values(all <= Values::kLargest ? all : 0);
  if (values.empty() || !gpu->values.recall(from, bytes, gpu->kernels, values.data())) {
    if (from != to || times > 1) {
      gpu->values.forget(to, all);
    }
    return;
  }
  // One kernel later, so that what is merely untouched does not count.
  const bool counted = gpu->values.recall_counted(from, bytes, gpu->kernels + 1, values.data());
  for (std::size_t at = bytes; at < all; at += bytes) {
    std::memcpy(values.data() + at, values.data(), bytes);
  }
  gpu->values.receive(to, values.data(), all, gpu->kernels, counted);
}

template <class Number>
void multiply(std::vector<unsigned char>& values, int factor) {
  for (std::size_t at = 0; at + sizeof(Number) <= values.size(); at += sizeof(Number)) {
    Number number{};
    std::memcpy(&number, values.data() + at, sizeof number);
    number = static_cast<Number>(number * static_cast<Number>(factor));
    std::memcpy(values.data() + at, &number, sizeof number);
  }
}

/// Known values times the number of ranks; false: the type is none of those that count things.
bool sum_over_ranks(std::vector<unsigned char>& values, int type, int ranks) {
  constexpr int kInt32 = 2, kInt64 = 4, kFloat = 7, kDouble = 8;
  switch (type) {
    case kInt32:
      multiply<std::int32_t>(values, ranks);
      return true;
    case kInt64:
      multiply<std::int64_t>(values, ranks);
      return true;
    case kFloat:
      multiply<float>(values, ranks);
      return true;
    case kDouble:
      multiply<double>(values, ranks);
      return true;
    default:
      return false;
  }
}

/// The greatest, least and mean of equal values are the value, and their sum is a multiple of it;
/// nothing else is known.
void reduce_values(const void* from, void* to, std::size_t count, int type, int operation,
                   int ranks) {
  constexpr int kSum = 0, kMax = 2, kMin = 3, kMean = 4;
  Locked gpu;
  const std::size_t bytes = bytes_of(count, type);
  std::vector<unsigned char> values(bytes <= Values::kLargest ? bytes : 0);
  const bool known =
      !values.empty() && gpu->values.recall(from, bytes, gpu->kernels, values.data());
  const bool kept = operation == kMax || operation == kMin || operation == kMean;
  if (known && (kept || (operation == kSum && ranks > 0 && sum_over_ranks(values, type, ranks)))) {
    gpu->values.remember(to, values.data(), bytes, gpu->kernels);
  } else {
    gpu->values.forget(to, bytes);
  }
}

/// A message to or from a rank of a communicator.
struct Message {
  const void* communicator;
  const void* address;
  std::size_t bytes;
  int peer;
};

/// The sends and receives between ncclGroupStart and ncclGroupEnd. NCCL's groups are the thread's.
struct Group {
  int depth = 0;
  std::vector<Message> sent;
  std::vector<Message> received;
};
thread_local Group group;  // NOLINT: NCCL itself has this state

int rank_of(const void* communicator) {
  return communicator == nullptr ? 0 : static_cast<const Communicator*>(communicator)->rank;
}

/// Whether `next` continues the buffer of `message`, with as many bytes again.
bool follows(const Message& message, const Message& next, int times) {
  const auto end = message.bytes * static_cast<std::size_t>(times);
  return next.communicator == message.communicator && next.bytes == message.bytes &&
         next.address == static_cast<const char*>(message.address) + end;
}

/// Every other rank is taken to send what this rank sends to itself. If it sends itself nothing of
/// that size, what is received is unknown. Messages into adjacent parts of one buffer, one from
/// each rank, are remembered as one entry, because a download reads them together.
void exchange(Group done) {
  for (std::size_t at = 0; at < done.received.size();) {
    const Message& message = done.received[at];
    int times = 1;
    const int ranks = ranks_of(message.communicator);
    while (++at < done.received.size() && times < ranks &&
           follows(message, done.received[at], times)) {
      ++times;
    }
    const auto own =
        std::find_if(done.sent.begin(), done.sent.end(), [&message](const Message& each) {
          return each.communicator == message.communicator &&
                 each.peer == rank_of(each.communicator) && each.bytes == message.bytes;
        });
    void* const to = const_cast<void*>(message.address);
    if (own != done.sent.end()) {
      repeat_values(own->address, to, message.bytes, times);
      done.sent.erase(own);  // The next exchange of this size has a message of its own.
    } else {
      repeat_values(to, to, message.bytes * static_cast<std::size_t>(times), 0);
    }
  }
}

int make(void** communicator, int ranks, int rank) {
  *communicator = new Communicator{ranks, rank};
  return 0;
}

}  // namespace
}  // namespace headroom::standin

using namespace headroom::standin;  // NOLINT: this file defines C functions

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22800;  // 2.28.0, a release that PyTorch 2.11 is built for
  return 0;
}
int ncclGetUniqueId(UniqueId* id) {
  std::memset(id->bytes, 7, sizeof id->bytes);
  return 0;
}
int ncclCommInitRank(void** communicator, int ranks, UniqueId /*id*/, int rank) {
  return make(communicator, ranks, rank);
}
int ncclCommInitRankConfig(void** communicator, int ranks, UniqueId /*id*/, int rank,
                           const void* /*configuration*/) {
  return make(communicator, ranks, rank);
}
int ncclCommInitRankScalable(void** communicator, int ranks, int rank, int /*ids*/,
                             const UniqueId* /*id*/, const void* /*configuration*/) {
  return make(communicator, ranks, rank);
}
int ncclCommInitAll(void** communicators, int ranks, const int* /*devices*/) {
  for (int rank = 0; rank < ranks; ++rank) {
    make(&communicators[rank], ranks, rank);
  }
  return 0;
}
int ncclCommSplit(void* /*communicator*/, int colour, int /*key*/, void** part,
                  const void* /*configuration*/) {
  constexpr int kNoColour = -1;
  if (colour == kNoColour) {
    *part = nullptr;
    return 0;
  }
  Locked gpu;
  return make(part, gpu->next_group_ranks, gpu->next_group_rank);
}
int ncclCommRegister(void* /*communicator*/, void* /*buffer*/, std::size_t /*bytes*/,
                     void** handle) {
  *handle = new_handle();
  return 0;
}
int ncclCommWindowRegister(void* /*communicator*/, void* /*buffer*/, std::size_t /*bytes*/,
                           void** window, int /*flags*/) {
  *window = new_handle();
  return 0;
}
int ncclCommDestroy(void* communicator) {
  delete static_cast<Communicator*>(communicator);
  return 0;
}
int ncclCommAbort(void* communicator) {
  return ncclCommDestroy(communicator);
}
int ncclCommGetAsyncError(void* /*communicator*/, int* error) {
  *error = 0;
  return 0;
}
int ncclCommCount(const void* communicator, int* count) {
  *count = ranks_of(communicator);
  return 0;
}
int ncclCommUserRank(const void* communicator, int* rank) {
  *rank = static_cast<const Communicator*>(communicator)->rank;
  return 0;
}
int ncclCommCuDevice(const void* /*communicator*/, int* current) {
  *current = current_device();
  return 0;
}
const char* ncclGetErrorString(int status) {
  return status == 0 ? "no error" : "not supported";
}
const char* ncclGetLastError(const void* /*communicator*/) {
  return "";
}
int ncclMemAlloc(void** address, std::size_t bytes) {
  constexpr int kUnhandledCudaError = 1;
  Locked gpu;
  *address = gpu->memory.allocate(bytes, current_device());
  return *address == nullptr ? kUnhandledCudaError : 0;
}
int ncclMemFree(void* address) {
  Locked gpu;
  gpu->memory.release(address);
  return 0;
}
int ncclRedOpCreatePreMulSum(int* operation, void* /*scalar*/, int /*type*/, int /*residence*/,
                             void* /*communicator*/) {
  *operation = 5;  // the first number behind the built-in operations
  return 0;
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int operation,
                  void* communicator, Stream /*stream*/) {
  count_collective("all_reduce", communicator, bytes_of(count, type));
  reduce_values(from, to, count, type, operation, ranks_of(communicator));
  return 0;
}
int ncclAllGather(const void* from, void* to, std::size_t count, int type, void* communicator,
                  Stream /*stream*/) {
  const int ranks = ranks_of(communicator);
  const std::size_t bytes = bytes_of(count, type);
  count_collective("all_gather", communicator, bytes * static_cast<std::size_t>(ranks));
  repeat_values(from, to, bytes, ranks);
  return 0;
}
int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int operation,
                      void* communicator, Stream /*stream*/) {
  const std::size_t bytes = bytes_of(count, type);
  count_collective("reduce_scatter", communicator,
                   bytes * static_cast<std::size_t>(ranks_of(communicator)));
  reduce_values(from, to, count, type, operation, ranks_of(communicator));
  return 0;
}
int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int /*root*/,
                  void* communicator, Stream /*stream*/) {
  count_collective("broadcast", communicator, bytes_of(count, type));
  repeat_values(from, to, bytes_of(count, type), 1);
  return 0;
}
int ncclBcast(void* buffer, std::size_t count, int type, int root, void* communicator,
              Stream stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}
int ncclReduce(const void* from, void* to, std::size_t count, int type, int operation, int /*root*/,
               void* communicator, Stream /*stream*/) {
  count_collective("reduce", communicator, bytes_of(count, type));
  reduce_values(from, to, count, type, operation, ranks_of(communicator));
  return 0;
}
int ncclAlltoAll(const void* from, void* to, std::size_t count, int type, void* communicator,
                 Stream /*stream*/) {
  const std::size_t bytes = bytes_of(count, type);
  const int ranks = ranks_of(communicator);
  count_collective("all_to_all", communicator, bytes * static_cast<std::size_t>(ranks));
  const auto own = bytes * static_cast<std::size_t>(rank_of(communicator));
  repeat_values(static_cast<const char*>(from) + own, to, bytes, ranks);
  return 0;
}
int ncclGroupStart() {
  ++group.depth;
  return 0;
}
int ncclGroupEnd() {
  if (group.depth > 0 && --group.depth == 0) {
    exchange(std::exchange(group, {}));
  }
  return 0;
}
int ncclSend(const void* from, std::size_t count, int type, int peer, void* communicator,
             Stream /*stream*/) {
  count_collective("send", communicator, bytes_of(count, type));
  if (group.depth > 0) {
    group.sent.push_back({communicator, from, bytes_of(count, type), peer});
  }
  return 0;
}
int ncclRecv(void* to, std::size_t count, int type, int peer, void* communicator,
             Stream /*stream*/) {
  count_collective("recv", communicator, bytes_of(count, type));
  const Message message{communicator, to, bytes_of(count, type), peer};
  if (group.depth > 0) {
    group.received.push_back(message);
  } else {
    exchange({.depth = 0, .sent = {}, .received = {message}});
  }
  return 0;
}
}
