#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "validators/dryrun/standin/device_attributes.h"
#include "validators/dryrun/standin/profile.h"
#include "validators/dryrun/standin/queue.h"
#include "validators/dryrun/standin/values.h"
#include "validators/dryrun/standin/work.h"

namespace headroom::standin {
namespace {

/// An address on the device; nothing is read there.
const void* at(std::uintptr_t number) {
  return reinterpret_cast<const void*>(number);
}

}  // namespace

TEST_CASE("stand-in GPU: an upload comes back as a whole at any time") {
  Values values;
  const std::array<std::int64_t, 3> sent = {5, 6, 7};
  values.remember(at(4096), sent.data(), sizeof sent, 1);
  std::array<std::int64_t, 3> got{};
  REQUIRE(values.recall(at(4096), sizeof got, 99, got.data()));
  CHECK(got == sent);
}

TEST_CASE("stand-in GPU: what ranks send each other of stated values is known as a whole") {
  Values values;
  const std::array<std::int64_t, 3> sent = {5, 6, 7};
  std::array<std::int64_t, 3> got{};
  values.remember(at(4096), sent.data(), sizeof sent, 1);
  CHECK(values.recall_counted(at(4096), sizeof got, 1, got.data()));
  CHECK_FALSE(
      values.recall_counted(at(4096), sizeof got, 2, got.data()));  // A kernel may have written.
  values.receive(at(8192), sent.data(), sizeof sent, 1, true);
  CHECK(values.recall_counted(at(8192), sizeof got, 99, got.data()));
  CHECK(values.recall_counted(at(8200), sizeof(std::int64_t), 1, got.data()));
  CHECK_FALSE(values.recall_counted(at(8200), sizeof(std::int64_t), 99, got.data()));
  values.receive(at(8192), sent.data(), sizeof sent, 1, false);
  CHECK_FALSE(values.recall_counted(at(8192), sizeof got, 99, got.data()));
  values.state(at(12288), sent.data(), sizeof sent);
  CHECK(values.recall_counted(at(12296), sizeof(std::int64_t), 99, got.data()));
  CHECK(got[0] == 6);
}

TEST_CASE("stand-in GPU: stated values come back in any part until they are forgotten") {
  Values values;
  const std::array<std::int64_t, 3> sent = {5, 6, 7};
  values.state(at(4096), sent.data(), sizeof sent);
  std::int64_t got = 0;
  REQUIRE(values.recall_untouched(at(4112), sizeof got, 99, &got));
  CHECK(got == 7);
  values.copy(at(4104), at(8192), sizeof got, 99);
  REQUIRE(values.recall(at(8192), sizeof got, 99, &got));
  CHECK(got == 6);
  values.forget(at(4096), sizeof sent);
  CHECK_FALSE(values.recall(at(4096), sizeof got, 99, &got));
}

TEST_CASE("stand-in GPU: a part of an upload comes back only while no kernel ran") {
  Values values;
  const std::array<std::int64_t, 3> sent = {5, 6, 7};
  values.remember(at(4096), sent.data(), sizeof sent, 1);
  std::int64_t got = 0;
  CHECK(values.recall(at(4104), sizeof got, 1, &got));
  CHECK(got == 6);
  CHECK_FALSE(values.recall(at(4104), sizeof got, 2, &got));
  CHECK_FALSE(values.recall(at(4116), sizeof got, 1, &got));
}

TEST_CASE("stand-in GPU: a single number does not outlive a kernel") {
  Values values;
  const std::int64_t sent = 1;
  std::int64_t got = 0;
  values.remember(at(4096), &sent, sizeof sent, 1);
  CHECK(values.recall(at(4096), sizeof got, 1, &got));
  CHECK_FALSE(values.recall(at(4096), sizeof got, 2, &got));
}

TEST_CASE("stand-in GPU: what overlaps an upload makes it forgotten") {
  Values values;
  const std::array<std::int64_t, 3> sent = {5, 6, 7};
  std::array<std::int64_t, 3> got{};
  values.remember(at(4096), sent.data(), sizeof sent, 1);
  values.forget(at(4119), 1);
  CHECK_FALSE(values.recall(at(4096), sizeof got, 1, got.data()));
  values.remember(at(4096), sent.data(), sizeof sent, 1);
  values.forget(at(4120), 100);
  CHECK(values.recall(at(4096), sizeof got, 1, got.data()));
  const std::int64_t one = 9;
  values.remember(at(4088), &one, sizeof one, 1);
  CHECK(values.recall(at(4096), sizeof got, 1, got.data()));
  values.remember(at(4092), &one, sizeof one, 1);
  CHECK_FALSE(values.recall(at(4096), sizeof got, 1, got.data()));
}

TEST_CASE("stand-in GPU: a copy carries what is known, and a copy of the unknown forgets") {
  Values values;
  const std::array<std::int64_t, 2> sent = {42, 43};
  std::array<std::int64_t, 2> got{};
  values.remember(at(4096), sent.data(), sizeof sent, 1);
  values.copy(at(4096), at(8192), sizeof sent, 5);
  REQUIRE(values.recall(at(8192), sizeof got, 9, got.data()));
  CHECK(got == sent);
  values.copy(at(64), at(8192), sizeof sent, 5);
  CHECK_FALSE(values.recall(at(8192), sizeof got, 9, got.data()));
}

TEST_CASE("stand-in GPU: what is remembered is bounded") {
  Values values;
  const std::vector<char> large(Values::kLargest + 1);
  values.remember(at(4096), large.data(), large.size(), 1);
  std::vector<char> got(large.size());
  CHECK_FALSE(values.recall(at(4096), large.size(), 1, got.data()));
  for (std::uintptr_t i = 0; i <= Values::kMost / Values::kLargest; ++i) {
    values.remember(at((i + 1) << 21), large.data(), Values::kLargest, 1);
  }
  char first = 1;
  CHECK_FALSE(values.recall(at(1 << 21), 1, 1, &first));
}

TEST_CASE("stand-in GPU: a lagging device completes events some launches later") {
  Queue queue(3, 0);
  const Event event = queue.create_event();
  CHECK(queue.complete(event));
  REQUIRE(queue.record(event, nullptr));
  CHECK_FALSE(queue.complete(event));
  queue.launch();
  queue.launch();
  CHECK_FALSE(queue.complete(event));
  queue.launch();
  CHECK(queue.complete(event));
  queue.record(event, nullptr);
  queue.synchronize(event);
  CHECK(queue.complete(event));
  queue.destroy_event(event);
  CHECK_FALSE(queue.record(event, nullptr));
}

TEST_CASE("stand-in GPU: a capture spreads to streams that wait for it") {
  Queue queue(0, 0);
  const Stream first = reinterpret_cast<Stream>(std::uintptr_t{16});
  const Stream second = reinterpret_cast<Stream>(std::uintptr_t{32});
  const Event before = queue.create_event();
  const Event inside = queue.create_event();
  queue.record(before, second);
  REQUIRE(queue.begin_capture(first));
  CHECK_FALSE(queue.begin_capture(first));
  queue.wait(second, before);
  CHECK_FALSE(queue.capturing(second));
  queue.record(inside, first);
  queue.wait(second, inside);
  CHECK(queue.capturing(second));
  CHECK(queue.end_capture(first));
  CHECK_FALSE(queue.capturing(second));
  CHECK_FALSE(queue.end_capture(first));
}

TEST_CASE("stand-in GPU: two captures at once keep their streams and calls apart") {
  Queue queue(0, 0);
  const Stream first = reinterpret_cast<Stream>(std::uintptr_t{16});
  const Stream second = reinterpret_cast<Stream>(std::uintptr_t{32});
  REQUIRE(queue.begin_capture(first));
  REQUIRE(queue.begin_capture(second));
  CHECK(queue.capture_of(first) != queue.capture_of(second));
  queue.capture_call(second, {nullptr, &queue});
  CHECK(queue.end_capture(first)->empty());
  CHECK(queue.capturing(second));
  CHECK(queue.end_capture(second)->size() == 1);
}

TEST_CASE("stand-in GPU: both layouts of the properties hold the same values") {
  Profile profile;
  profile.capability_major = 8;
  profile.capability_minor = 9;
  profile.multiprocessors = 128;
  std::array<char, 1032> twelve{};
  std::array<char, 1008> thirteen{};
  fill_properties(profile, 12, 0, twelve.data());
  fill_properties(profile, 13, 0, thirteen.data());
  const auto number = [](const auto& bytes, std::size_t offset) {
    int value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  };
  CHECK(number(twelve, 388) == 128);  // multiProcessorCount
  CHECK(number(thirteen, 384) == 128);
  CHECK(number(twelve, 624) == 1536);  // maxThreadsPerMultiProcessor
  CHECK(number(thirteen, 604) == 1536);
  CHECK(number(twelve, 364) == 9);  // minor
  CHECK(device_attribute(profile, 97, 0) == 99 * 1024);
  CHECK(device_attribute(profile, 9'999, 0) == 0);
}

TEST_CASE("stand-in GPU: kernels are those of the newest capability that they were compiled for") {
  Profile profile;
  const auto compiled = [&profile](int major, int minor) {
    profile.capability_major = major;
    profile.capability_minor = minor;
    return profile.compiled_capability();
  };
  CHECK(compiled(8, 0) == 80);
  CHECK(compiled(8, 9) == 86);
  CHECK(compiled(9, 0) == 90);
  CHECK(compiled(10, 3) == 100);
  CHECK(compiled(6, 1) == 61);
}

TEST_CASE("stand-in GPU: work is told as JSON") {
  Work work;
  work.kernels = 3;
  work.gemms = 1;
  work.gemm_flops = 123456789012345.0;
  work.collectives[{"all_gather", 8}] = {2, 4096};
  CHECK(work.to_json() ==
        "{\"kernels\":3,\"gemms\":1,\"gemm_flops\":123456789012345,\"h2d\":0,\"d2h\":0,\"d2d\":0,"
        "\"collectives\":[[\"all_gather\",8,2,4096]]}");
  CHECK(json_string("a\"b\n") == "\"a\\\"b\\u000a\"");
}

}  // namespace headroom::standin
