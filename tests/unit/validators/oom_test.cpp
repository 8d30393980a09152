#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "validators/oom/account.h"
#include "validators/oom/message.h"

namespace headroom::check {
namespace {

// Texts of c10/cuda/CUDACachingAllocator.cpp by release, with figures as users posted them.
constexpr std::string_view kRelease113 =
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.55 GiB (GPU 1; 23.69 "
    "GiB total capacity; 12.58 GiB already allocated; 10.38 GiB free; 12.60 GiB reserved in total "
    "by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
    "fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";
constexpr std::string_view kRelease21 =
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a "
    "total "
    "capacty of 23.69 GiB of which 7.11 GiB is free. Process 2006998 has 256.00 MiB memory in use. "
    "Including non-PyTorch memory, this process has 16.31 GiB memory in use. Of the allocated "
    "memory 16.01 GiB is allocated by PyTorch, and 7.47 MiB is reserved by PyTorch but "
    "unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to "
    "avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";
constexpr std::string_view kRelease25 =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.15 GiB. GPU 0 has a total "
    "capacity of 39.56 GiB of which 2.80 GiB is free. Including non-PyTorch memory, this process "
    "has 36.61 GiB memory in use. 38.00 GiB allowed; Of the allocated memory 31.66 GiB is "
    "allocated "
    "by PyTorch, with 118.00 MiB allocated in private pools (e.g., CUDA Graphs), and 4.11 GiB is "
    "reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
    "for Memory Management  "
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";

OutOfMemoryMessage only(std::string_view text) {
  const std::vector<OutOfMemoryMessage> messages = read_out_of_memory(text);
  REQUIRE(messages.size() == 1);
  return messages.front();
}

Bytes gib(double value) {
  return Bytes{static_cast<std::int64_t>(value * kGiB + 0.5)};
}
Bytes mib(double value) {
  return Bytes{static_cast<std::int64_t>(value * kMiB + 0.5)};
}

}  // namespace

TEST_CASE("out-of-memory message: the form of PyTorch 1.13 and 2.0") {
  const OutOfMemoryMessage message = only(kRelease113);
  CHECK(message.kind == "CUDA");
  CHECK(message.gpu == 1);
  CHECK(message.asked.bytes == gib(12.55));
  CHECK(message.asked.holds(gib(12.554)));
  CHECK_FALSE(message.asked.holds(gib(12.56)));
  CHECK(message.capacity->bytes == gib(23.69));
  CHECK(message.allocated->bytes == gib(12.58));
  CHECK(message.free->bytes == gib(10.38));
  CHECK(message.reserved->bytes == gib(12.60));
  CHECK(message.unallocated->bytes == gib(12.60) - gib(12.58));
  CHECK(message.hint == MessageHint::kMaxSplitSize);
  CHECK_FALSE(message.process);
}

TEST_CASE("out-of-memory message: the form of PyTorch 2.1, with another process") {
  const OutOfMemoryMessage message = only(kRelease21);
  CHECK(message.capacity->bytes == gib(23.69));
  CHECK(message.free->bytes == gib(7.11));
  CHECK(message.process->bytes == gib(16.31));
  CHECK(message.unallocated->bytes == mib(7.47));
  REQUIRE(message.others.size() == 1);
  CHECK(message.others[0].number == "2006998");
  CHECK(message.others[0].used.bytes == mib(256));
  CHECK(message.reserved->bytes == gib(16.01) + mib(7.47));
}

TEST_CASE("out-of-memory message: the form since PyTorch 2.2, with a limit and private pools") {
  const OutOfMemoryMessage message = only(kRelease25);
  CHECK(message.allowed->bytes == gib(38));
  CHECK(message.private_pools->bytes == mib(118));
  CHECK(message.allocated->bytes == gib(31.66));
  CHECK(message.unallocated->bytes == gib(4.11));
  CHECK(message.hint == MessageHint::kExpandableSegments);
  CHECK(message.others.empty());
}

TEST_CASE(
    "out-of-memory message: builds for AMD's and Intel's GPUs, and messages without figures") {
  CHECK(only("HIP out of memory. Tried to allocate 512 bytes. GPU 3 has a total capacity of 191.98 "
             "GiB of which 0 bytes is free.")
            .asked.bytes == Bytes{512});
  CHECK(only("XPU out of memory. Tried to allocate 1.00 GiB.").kind == "XPU");
  CHECK_FALSE(only("CUDA out of memory. Tried to allocate 2.00 MiB").capacity);
  CHECK(read_out_of_memory("RuntimeError: CUDA error: out of memory").empty());
  CHECK(read_out_of_memory("CUDA out of memory. Tried to allocate xxx MiB (GPU 0; ...").empty());
}

TEST_CASE("out-of-memory message: broken into lines, in colours and frames") {
  std::string wrapped;
  std::size_t column = 0;
  for (const char c : kRelease25) {
    wrapped += c == ' ' && column > 60 ? "  \033[31m│\033[0m\n│ " : std::string(1, c);
    column = c == ' ' && column > 60 ? 0 : column + 1;
  }
  const OutOfMemoryMessage message = only("│ Traceback\n│ " + wrapped);
  CHECK(message.allocated->bytes == gib(31.66));
  CHECK(message.unallocated->bytes == gib(4.11));
  CHECK(message.allowed->bytes == gib(38));
}

TEST_CASE("out-of-memory message: ranks that print at once are told apart") {
  // Each rank's message is cut into pieces, which take turns.
  std::string first(kRelease21);
  std::string second(kRelease25);
  std::string log = "[rank0]: Traceback (most recent call last):\n";
  while (!first.empty() || !second.empty()) {
    for (auto [text, prefix] : {std::pair(&first, "[rank0]:"), std::pair(&second, "[rank1]:")}) {
      const std::size_t cut = std::min(text->find(' ', 70), text->size());
      log += text->empty() ? "" : prefix + (" " + text->substr(0, cut)) + "\n";
      *text = cut < text->size() ? text->substr(cut + 1) : "";
    }
  }
  const std::vector<OutOfMemoryMessage> messages = read_out_of_memory(log);
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].rank == "rank0");
  CHECK(messages[0].allocated->bytes == gib(16.01));
  CHECK(messages[0].others.size() == 1);
  CHECK(messages[1].rank == "rank1");
  CHECK(messages[1].allocated->bytes == gib(31.66));
  CHECK(messages[1].others.empty());
}

TEST_CASE("out-of-memory message: prefixes of launchers") {
  for (const auto& [prefix, rank] : std::vector<std::pair<std::string, std::string>>{
           {"[default3]:", "default3"},
           {"3: ", "3"},
           {"worker-1: ", "worker-1"},
           {"2024-01-31 12:00:01,123 [rank7]: ", "rank7"},
           {"2021-12-08T01:25:15.38Z ", ""},
           {"(Trainer pid=12, ip=10.0.0.3) ", "Trainer pid=12, ip=10.0.0.3"}}) {
    CAPTURE(prefix);
    const OutOfMemoryMessage message = only(prefix + std::string(kRelease21));
    CHECK(message.rank == rank);
    CHECK(message.allocated->bytes == gib(16.01));
  }
}

TEST_CASE("out-of-memory message: lines without a prefix go on with a message that began lately") {
  const std::string begin =
      "[rank3]: CUDA out of memory.\n[rank3]: Tried to allocate 1.00 GiB. GPU 0 has a total\n";
  const std::string rest = "capacity of 10.00 GiB of which\n2.00 GiB is free.\n";
  const OutOfMemoryMessage near = only(begin + "\n\n  \n" + rest);
  CHECK(near.rank == "rank3");
  CHECK(near.capacity->bytes == gib(10));
  CHECK(near.free->bytes == gib(2));

  const OutOfMemoryMessage far = only(begin + "[rank3]: " + std::string(6'000, 'x') + "\n" + rest);
  CHECK(far.rank == "rank3");
  CHECK_FALSE(far.capacity);

  const std::string again = begin + "[rank3]: " + std::string(6'000, 'x') + "\n" + begin + rest;
  const std::vector<OutOfMemoryMessage> twice = read_out_of_memory(again);
  REQUIRE(twice.size() == 2);
  CHECK_FALSE(twice[0].free);
  CHECK(twice[1].free->bytes == gib(2));
}

TEST_CASE("out-of-memory message: a log of very many short or empty lines is read") {
  // Reading the last 4,000 characters again at each of these lines takes many times as long.
  std::string log = "[rank3]: " + std::string(6'000, 'x') + "\n";
  log += std::string(std::size_t{8} << 20U, '\n');
  for (int line = 0; line < 2'000'000; ++line) {
    log += "x\n";
  }
  CHECK(only(log + std::string(kRelease25)).allocated->bytes == gib(31.66));
}

TEST_CASE("out-of-memory message: names of backends and ranks are not longer than real ones") {
  const std::string long_word(10'000, 'a');
  const std::string message = " out of memory. Tried to allocate 1.00 GiB.";
  CHECK(only(long_word + message).kind == std::string(16, 'a'));
  CHECK(only(std::string(16, 'a') + message).kind == std::string(16, 'a'));
  CHECK(only(long_word + "1: CUDA" + message).rank.empty());
  CHECK(only("[" + long_word + "rank1]: CUDA" + message).rank.empty());
  const std::string host = std::string(79, 'a') + "1";
  CHECK(only(host + ": CUDA" + message).rank == host);
  CHECK(only("a" + host + ": CUDA" + message).rank.empty());
}

TEST_CASE("out-of-memory message: who holds the memory, and what follows") {
  const OutOfMemoryMessage fragmented = only(
      "CUDA out of memory. Tried to allocate 3.15 GiB. GPU 0 has a total capacity of 39.56 GiB of "
      "which 2.80 GiB is free. Including non-PyTorch memory, this process has 36.61 GiB memory in "
      "use. Of the allocated memory 31.66 GiB is allocated by PyTorch, and 4.11 GiB is reserved by "
      "PyTorch but unallocated.");
  const OomAccount account = account_of(fragmented);
  CHECK(account.outside_pytorch == gib(36.61) - gib(31.66) - gib(4.11));
  CHECK(account.other_processes == Bytes{0});
  CHECK(account.missing == gib(3.15) - gib(2.80));
  CHECK(account.contradictions.empty());
  CHECK(causes_of(fragmented, account) == std::vector{OomCause::kFragmentation});

  const OutOfMemoryMessage shared = only(
      "CUDA out of memory. Tried to allocate 298.00 MiB. GPU 0 has a total capacity of 44.39 GiB "
      "of "
      "which 12.06 MiB is free. Process 6324 has 8.06 GiB memory in use. Including non-PyTorch "
      "memory, this process has 36.30 GiB memory in use. Of the allocated memory 36.00 GiB is "
      "allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated.");
  CHECK(causes_of(shared, account_of(shared)) == std::vector{OomCause::kOtherProcesses});
  CHECK(account_of(shared).other_processes == gib(8.06));

  const OutOfMemoryMessage large = only(kRelease113);
  CHECK(causes_of(large, account_of(large)) == std::vector{OomCause::kNotEnough});
  const OutOfMemoryMessage limited = only(kRelease25);
  CHECK(causes_of(limited, account_of(limited)).front() == OomCause::kLimit);
  const OutOfMemoryMessage huge = only(
      "CUDA out of memory. Tried to allocate 222.41 GiB (GPU 0; 23.56 GiB total capacity; 583.94 "
      "MiB already allocated; 22.66 GiB free; 612.00 MiB reserved in total by PyTorch)");
  CHECK(causes_of(huge, account_of(huge)) == std::vector{OomCause::kLargerThanGpu});
}

TEST_CASE("out-of-memory message: the slack of a full GPU is not fragmentation") {
  const auto causes = [](const std::string& asked, const std::string& unallocated) {
    const OutOfMemoryMessage message =
        only("CUDA out of memory. Tried to allocate " + asked +
             ". GPU 0 has a total capacity of 15.90 GiB of which 11.75 MiB is free. Including "
             "non-PyTorch memory, this process has 15.88 GiB memory in use. Of the allocated "
             "memory 14.00 GiB is allocated by PyTorch, and " +
             unallocated + " is reserved by PyTorch but unallocated.");
    return causes_of(message, account_of(message));
  };
  // 14.00 GiB * 1 / 19 is 754.5 MiB: then a twentieth of what is reserved is unallocated.
  CHECK(causes("20.00 MiB", "307.00 MiB") == std::vector{OomCause::kNotEnough});
  CHECK(causes("20.00 MiB", "754.00 MiB") == std::vector{OomCause::kNotEnough});
  CHECK(causes("20.00 MiB", "755.00 MiB") == std::vector{OomCause::kFragmentation});
  CHECK(causes("1.00 GiB", "1.00 GiB") == std::vector{OomCause::kFragmentation});
  // Free memory serves a part of the request.
  CHECK(causes("1.00 GiB", "1013.00 MiB") == std::vector{OomCause::kFragmentation});
  CHECK(causes("1.00 GiB", "1012.00 MiB") == std::vector{OomCause::kNotEnough});
}

TEST_CASE("out-of-memory message: failures outside of PyTorch's allocator are known") {
  CHECK(outside_allocation_failure("RuntimeError: CUDA error: out of memory\nCompile with") ==
        "CUDA error: out of memory");
  CHECK(outside_allocation_failure("x\nCUBLAS_STATUS_ALLOC_FAILED\nCUDA error: out of memory") ==
        "CUBLAS_STATUS_ALLOC_FAILED");
  CHECK(outside_allocation_failure("[1] NCCL WARN Cuda failure 2 'out of memory'") ==
        "Cuda failure 2 'out of memory'");
  CHECK(outside_allocation_failure("Killed").empty());
}

TEST_CASE("out-of-memory message: inside a container, the only process is this one") {
  const OutOfMemoryMessage message = only(
      "CUDA out of memory. Tried to allocate 14.00 MiB. GPU 0 has a total capacity of 22.30 GiB of "
      "which 4.69 MiB is free. Process 860120 has 22.29 GiB memory in use. Of the allocated memory "
      "21.92 GiB is allocated by PyTorch, with 22.00 MiB allocated in private pools (e.g., CUDA "
      "Graphs), and 16.47 MiB is reserved by PyTorch but unallocated.");
  const OomAccount account = account_of(message);
  REQUIRE(account.assumed_self);
  CHECK(account.assumed_self->number == "860120");
  CHECK(account.other_processes == Bytes{0});
  CHECK(account.outside_pytorch == gib(22.29) - gib(21.92) - mib(16.47));
}

TEST_CASE("out-of-memory message: inside a container, one of several processes is this one") {
  // 12.40 GiB + 200 MiB of PyTorch + 0.47 GiB of context = 13.07 GiB, the second process.
  const std::string begin =
      "CUDA out of memory. Tried to allocate 734.00 MiB. GPU 0 has a total capacity of 23.64 GiB "
      "of which 580.00 MiB is free. ";
  const std::string other = "Process 1234 has 9.99 GiB memory in use. ";
  const std::string self = "Process 99 has 13.07 GiB memory in use. ";
  const std::string rest =
      "Of the allocated memory 12.40 GiB is allocated by PyTorch, and 200.00 MiB is reserved by "
      "PyTorch but unallocated.";
  for (const std::string& processes : {other + self, self + other}) {
    const OutOfMemoryMessage message = only(begin + processes + rest);
    const OomAccount account = account_of(message);
    REQUIRE(account.assumed_self);
    CHECK(account.assumed_self->number == "99");
    CHECK(account.other_processes == gib(9.99));
    CHECK(account.outside_pytorch == gib(13.07) - gib(12.40) - mib(200));
    CHECK(account.contradictions.empty());
    CHECK(causes_of(message, account).front() == OomCause::kOtherProcesses);
  }
  // The larger process is another one if a smaller one, too, holds what PyTorch reserved.
  const std::string small =
      "Of the allocated memory 9.40 GiB is allocated by PyTorch, and 100.00 MiB is reserved by "
      "PyTorch but unallocated.";
  const OutOfMemoryMessage smaller = only(begin + self + other + small);
  REQUIRE(account_of(smaller).assumed_self);
  CHECK(account_of(smaller).assumed_self->number == "1234");
  CHECK(account_of(smaller).other_processes == gib(13.07));
  // Both are others if PyTorch's memory fits beside them: the driver does not list this process.
  const OutOfMemoryMessage beside =
      only(begin + "Process 1 has 8.00 GiB memory in use. Process 2 has 5.00 GiB memory in use. " +
           "Of the allocated memory 4.00 GiB is allocated by PyTorch, and 0 bytes is reserved by "
           "PyTorch but unallocated.");
  CHECK_FALSE(account_of(beside).assumed_self);
  CHECK(account_of(beside).other_processes == gib(13));
}

TEST_CASE("out-of-memory message: sums that do not add up are named") {
  const OutOfMemoryMessage message = only(
      "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 10.00 GiB of "
      "which 3.00 GiB is free. Including non-PyTorch memory, this process has 8.00 GiB memory in "
      "use. Of the allocated memory 9.00 GiB is allocated by PyTorch, and 0 bytes is reserved by "
      "PyTorch but unallocated.");
  CHECK(account_of(message).contradictions.size() == 2);
  CHECK(causes_of(message, account_of(message)) == std::vector{OomCause::kFreeButRefused});
}

}  // namespace headroom::check
