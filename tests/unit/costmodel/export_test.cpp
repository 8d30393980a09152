#include "costmodel/memory/export.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "costmodel/memory/event_text.h"
#include "costmodel/memory/pickle_writer.h"
#include "model_ir/base/units.h"

namespace headroom::cost {
namespace {

using nlohmann::json;

/// Reads the pickles of `PickleWriter`; lists and tuples become arrays. Shares nothing with it.
class PickleReader {
 public:
  explicit PickleReader(std::string bytes) : bytes_(std::move(bytes)) {}

  json read() {
    REQUIRE(take(2) == std::string("\x80\x02"));
    while (step()) {
    }
    REQUIRE(stack_.size() == 1);
    CHECK(at_ == bytes_.size());
    return stack_.back();
  }
  [[nodiscard]] std::size_t longest_batch() const { return longest_batch_; }

 private:
  std::string take(std::size_t count) {
    REQUIRE(at_ + count <= bytes_.size());
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  std::int64_t integer(std::size_t count) {
    std::uint64_t value = 0;
    const std::string digits = take(count);
    for (std::size_t byte = count; byte-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(digits[byte]);
    }
    return static_cast<std::int64_t>(value);
  }
  double real() {
    std::uint64_t value = 0;
    for (const char byte : take(8)) {
      value = value << 8 | static_cast<unsigned char>(byte);
    }
    return std::bit_cast<double>(value);
  }
  std::vector<json> since_mark() {
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    std::vector<json> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark);
    return items;
  }
  void set_items() {
    const std::vector<json> items = since_mark();
    for (std::size_t item = 0; item + 1 < items.size(); item += 2) {
      stack_.back()[items[item].get<std::string>()] = items[item + 1];
    }
  }
  void append_items() {
    const std::vector<json> items = since_mark();
    longest_batch_ = std::max(longest_batch_, items.size());
    for (const json& item : items) {
      stack_.back().push_back(item);
    }
  }
  bool step() {
    switch (static_cast<unsigned char>(take(1)[0])) {
      case '.':
        return false;
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '}':
        stack_.emplace_back(json::object());
        return true;
      case ']':
        stack_.emplace_back(json::array());
        return true;
      case 'u':
        set_items();
        return true;
      case 'e':
        append_items();
        return true;
      case 't':
        stack_.emplace_back(since_mark());
        return true;
      default:
        --at_;
        return value();
    }
  }
  bool value() {
    switch (static_cast<unsigned char>(take(1)[0])) {
      case 'K':
        stack_.emplace_back(integer(1));
        break;
      case 'J':
        stack_.emplace_back(static_cast<std::int32_t>(integer(4)));
        break;
      case 0x8a:
        REQUIRE(integer(1) == 8);
        stack_.emplace_back(integer(8));
        break;
      case 'G':
        stack_.emplace_back(real());
        break;
      case 0x88:
        stack_.emplace_back(true);
        break;
      case 0x89:
        stack_.emplace_back(false);
        break;
      case 'X':
        stack_.emplace_back(take(static_cast<std::size_t>(integer(4))));
        break;
      case 'q':
        memo_[integer(1)] = stack_.back();
        break;
      case 'r':
        memo_[integer(4)] = stack_.back();
        break;
      case 'h':
        stack_.emplace_back(memo_.at(integer(1)));
        break;
      case 'j':
        stack_.emplace_back(memo_.at(integer(4)));
        break;
      default:
        FAIL("unknown opcode");
    }
    return true;
  }

  std::string bytes_;
  std::size_t at_ = 0;
  std::vector<json> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::int64_t, json> memo_;
  std::size_t longest_batch_ = 0;
};

ir::Event event(ir::EventKind kind, ir::BlockId block, std::int64_t bytes = 0,
                ir::TensorRole role = ir::TensorRole::kTemporary, std::uint32_t site = 0) {
  return {.kind = kind,
          .role = role,
          .stream = 0,
          .reserved = 0,
          .block = block,
          .bytes = bytes,
          .site = site};
}

/// A weight, a forward operator of layer 3 with a temporary, its backward; then the cache is
/// emptied.
ir::RankProgram exported_program() {
  ir::RankProgram program;
  program.operations = {"load", "silu"};
  program.sites = {{.layer = -1, .operation = 0, .backward = false},
                   {.layer = 3, .operation = 1, .backward = false},
                   {.layer = 3, .operation = 1, .backward = true}};
  using ir::EventKind;
  program.events = {
      event(EventKind::kAllocate, 0, 12 * kMiB, ir::TensorRole::kParameter, 0),
      event(EventKind::kAllocate, 1, 1'000, ir::TensorRole::kActivation, 1),
      event(EventKind::kFree, 1),
      event(EventKind::kAllocate, 2, 14 * kMiB, ir::TensorRole::kGradient, 2),
      event(EventKind::kEmptyCache, 0),
  };
  program.phases = {{ir::parse_phase_name("load"), 0, 1, {}},
                    {ir::parse_phase_name("step1.forward"), 1, 3, {}},
                    {ir::parse_phase_name("step1.backward"), 3, 4, {}},
                    {ir::parse_phase_name("say \"end\", twice"), 4, 5, {}}};
  program.blocks = 3;
  return program;
}

}  // namespace

TEST_CASE("timeline_csv: one line per event, bytes as they stand after it") {
  CHECK(timeline_csv(exported_program(), {}, Bytes{kGiB}) ==
        "event,phase,step,kind,role,operator,layer,bytes,allocated,reserved\n"
        "0,load,,allocate,parameters,load,,12582912,12582912,12582912\n"
        "1,step1.forward,1,allocate,activations,silu,3,1000,12583936,14680064\n"
        "2,step1.forward,1,free,activations,silu,3,1000,12582912,14680064\n"
        "3,step1.backward,1,allocate,gradients,silu.backward,3,14680064,27262976,29360128\n"
        "4,\"say \"\"end\"\", twice\",,empty_cache,,load,,0,27262976,27262976\n");
}

TEST_CASE("timeline_csv: ends with the allocation that found no memory") {
  const std::string csv = timeline_csv(exported_program(), {}, Bytes{16 * kMiB});
  const std::string last = csv.substr(csv.rfind('\n', csv.size() - 2) + 1);
  CHECK(last ==
        "3,step1.backward,1,out_of_memory,gradients,silu.backward,3,14680064,12582912,12582912\n");
}

TEST_CASE("chrome_trace: phases and operators are slices, roles are counters") {
  const json trace = json::parse(chrome_trace(exported_program(), {}, Bytes{kGiB}));
  std::vector<std::string> phases;
  std::vector<std::string> operators;
  std::vector<std::int64_t> gradients;
  std::vector<std::int64_t> reserved;
  for (const json& entry : trace.at("traceEvents")) {
    if (entry.at("ph") == "X") {
      (entry.at("tid") == 1 ? phases : operators).push_back(entry.at("name"));
      CHECK(entry.at("dur").get<int>() > 0);
    }
    if (entry.at("name") == "allocated bytes by role") {
      gradients.push_back(entry.at("args").at("gradients"));
      CHECK(entry.at("args").size() == 3);  // Only the roles that occur.
    }
    if (entry.at("name") == "reserved bytes") {
      reserved.push_back(entry.at("args").at("reserved"));
    }
  }
  CHECK(phases ==
        std::vector<std::string>{"load", "step1.forward", "step1.backward", "say \"end\", twice"});
  CHECK(operators == std::vector<std::string>{"load", "silu", "silu.backward", "load"});
  CHECK(gradients == std::vector<std::int64_t>{0, 0, 0, 14 * kMiB, 14 * kMiB});
  CHECK(reserved == std::vector<std::int64_t>{12 * kMiB, 14 * kMiB, 28 * kMiB, 26 * kMiB});
}

TEST_CASE("chrome_trace: out of memory is a slice of its own and the end") {
  const json trace = json::parse(chrome_trace(exported_program(), {}, Bytes{16 * kMiB}));
  bool found = false;
  for (const json& entry : trace.at("traceEvents")) {
    found = found || (entry.at("name") == "out of memory" && entry.at("ts") == 3);
    CHECK(entry.value("ts", 0) <= 3);
  }
  CHECK(found);
}

TEST_CASE("pickle_writer: values come out as the opcodes of protocol 2") {
  PickleWriter writer;
  writer.begin_list();
  writer.integer(5);
  writer.integer(-2);
  writer.integer(std::int64_t{1} << 40);
  writer.boolean(true);
  writer.text("ab");
  writer.text("ab");
  writer.end_list();
  // Expected value: Python 3.11, pickle.loads of these bytes gives [5, -2, 2**40, True, 'ab',
  // 'ab'].
  const std::string expected(
      "\x80\x02](K\x05J\xfe\xff\xff\xff\x8a\x08\0\0\0\0\0\x01\0\0"
      "\x88X\x02\0\0\0abq\0h\0e.",
      35);
  CHECK(writer.finish() == expected);
}

TEST_CASE("pickle_writer: what it writes reads back, at every size of number") {
  const std::vector<std::int64_t> numbers = {
      0, 255, 256, -1, INT32_MAX, std::int64_t{INT32_MAX} + 1, INT32_MIN, INT64_MAX, INT64_MIN};
  PickleWriter writer;
  writer.begin_dict();
  writer.text("numbers");
  writer.begin_list();
  for (const std::int64_t number : numbers) {
    writer.integer(number);
  }
  writer.end_list();
  writer.text("half");
  writer.real(0.5);
  writer.text("pair");
  writer.begin_tuple();
  writer.boolean(false);
  writer.text("");
  writer.end_tuple();
  writer.end_dict();
  const json read = PickleReader(writer.finish()).read();
  CHECK(read.at("numbers") == json(numbers));
  CHECK(read.at("half") == 0.5);
  CHECK(read.at("pair") == json::array({false, ""}));
}

TEST_CASE("pickle_writer: long lists are appended in batches, names stay with their values") {
  PickleWriter writer;
  writer.begin_list();
  std::vector<std::uint32_t> names;
  for (int item = 0; item < 2'500; ++item) {
    writer.begin_list();
    writer.integer(item);
    writer.end_list();
    names.push_back(writer.remember());
  }
  writer.recall(names[999]);
  writer.recall(names[1'000]);
  writer.end_list();
  PickleReader reader(writer.finish());
  const json read = reader.read();
  REQUIRE(read.size() == 2'502);
  CHECK(read[2'499] == json::array({2'499}));
  CHECK(read[2'500] == json::array({999}));
  CHECK(read[2'501] == json::array({1'000}));
  CHECK(reader.longest_batch() == 1'000);
}

TEST_CASE("memory_viz_pickle: history and last state have PyTorch's keys and values") {
  const json snapshot = PickleReader(memory_viz_pickle(exported_program(), {}, Bytes{kGiB})).read();
  const json& segments = snapshot.at("segments");
  REQUIRE(segments.size() == 2);  // The small segment went back with the cache.
  CHECK(segments[0].at("total_size") == 12 * kMiB);
  CHECK(segments[0].at("allocated_size") == 12 * kMiB);
  CHECK(segments[0].at("segment_type") == "large");
  CHECK(segments[0].at("is_expandable") == false);
  CHECK(segments[1].at("blocks")[0].at("state") == "active_allocated");
  CHECK(segments[1].at("blocks")[0].at("requested_size") == 14 * kMiB);
  CHECK(segments[1].at("blocks")[0].at("frames")[0] ==
        json{{"filename", "layer"}, {"line", 3}, {"name", "silu.backward"}});
  std::vector<std::string> actions;
  REQUIRE(snapshot.at("device_traces").size() == 1);
  for (const json& entry : snapshot.at("device_traces")[0]) {
    actions.push_back(entry.at("action"));
    CHECK(entry.contains("addr"));
    CHECK(entry.contains("stream"));
  }
  CHECK(actions == std::vector<std::string>{"segment_alloc", "alloc", "segment_alloc", "alloc",
                                            "free_requested", "free_completed", "segment_alloc",
                                            "alloc", "segment_free"});
  const json& freed = snapshot.at("device_traces")[0][5];
  CHECK(freed.at("size") == 1'000);
  CHECK(freed.at("frames")[1].at("name") == "activations");
  CHECK(freed.at("frames")[2].at("name") == "step1.forward");
  CHECK(snapshot.at("allocator_settings").at("max_split_size") == -1);
}

TEST_CASE("memory_viz_pickle: out of memory is told as PyTorch tells it") {
  ir::AllocatorSettings settings;
  settings.expandable_segments = true;
  const json snapshot =
      PickleReader(memory_viz_pickle(exported_program(), settings, Bytes{30 * kMiB})).read();
  const json& last = snapshot.at("device_traces")[0].back();
  CHECK(last.at("action") == "oom");
  CHECK(last.at("size") == 14 * kMiB);
  CHECK(last.at("device_free") == 10 * kMiB);  // One page of 20 MiB is mapped.
  CHECK(snapshot.at("segments")[0].at("is_expandable") == true);
}

}  // namespace headroom::cost
