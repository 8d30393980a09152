#include "validators/dryrun/recorded_program.h"

#include <fstream>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "costmodel/memory/timeline.h"
#include "model_ir/base/file.h"
#include "tests/support/recorded_program.h"
#include "tests/support/schema.h"
#include "tests/support/temporary_folder.h"
#include "validators/dryrun/recorded_replay.h"
#include "validators/measured/file_bytes.h"

namespace headroom::check {
namespace {

using test::kProgram;

/// `kProgram` with one piece replaced.
std::string changed(std::string_view from, std::string_view to) {
  std::string text(kProgram);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// The place and the expectation of the error about a document.
std::string fault_of(const std::string& text) {
  const Result<RecordedProgram> read = parse_recorded_program(text, "p.json");
  REQUIRE_FALSE(read);
  CHECK(read.error().file == "p.json");
  return read.error().pointer + ": " + read.error().wanted;
}

}  // namespace

TEST_CASE("recorded program: columns become events, phases and lines") {
  const RecordedProgram read = parse_recorded_program(kProgram, "p").value();
  const ir::RankProgram& program = read.history.program;
  REQUIRE(program.events.size() == 6);
  CHECK(program.events[0].bytes == 1'048'576);
  CHECK(program.events[1].role == ir::TensorRole::kActivation);
  CHECK(program.events[2].kind == ir::EventKind::kLetGo);
  CHECK(program.events[3].kind == ir::EventKind::kFree);
  CHECK(program.events[3].block == 0);
  CHECK(program.events[4].kind == ir::EventKind::kEmptyCache);
  CHECK(program.blocks == 3);
  CHECK(to_text(program.phases[1].name) == "step1.forward");
  CHECK(program.phases[1].begin == 3);
  CHECK(program.operations[program.sites[program.events[5].site].operation] == "train.py:2 g");
}

TEST_CASE("recorded program: what is written is read again, and keeps the schema") {
  const RecordedProgram read = parse_recorded_program(kProgram, "p").value();
  const std::string text = to_json(read);
  CHECK(to_json(parse_recorded_program(text, "p").value()) == text);
  const ir::JsonValue schema = test::read_schema("program.schema.json");
  for (const std::string& fault :
       test::SchemaCheck::faults(schema, ir::parse_json(text, "p").value())) {
    FAIL_CHECK(fault);
  }
  const test::TemporaryFolder folder;
  const std::string path = folder.path("p.gz");
  REQUIRE(write_recorded_program(path, read));
  const std::string bytes = read_file(path).value();
  CHECK(bytes.starts_with("\x1f\x8b"));
  CHECK(to_json(read_recorded_program(path).value()) == text);
  REQUIRE(write_recorded_program(path, read));
  CHECK(read_file(path).value() == bytes);
}

TEST_CASE("recorded program: a text that could not be read again is not packed") {
  CHECK(gzip_bytes("abc", 3));
  const Result<std::string> packed = gzip_bytes("abcd", 3);
  REQUIRE_FALSE(packed);
  CHECK(packed.error().got == "4 bytes");
  CHECK(packed.error().wanted.find("3 bytes") != std::string::npos);
}

TEST_CASE("recorded program: the replay is compared figure by figure") {
  const RecordedProgram read = parse_recorded_program(kProgram, "p").value();
  const cost::MemoryTimeline timeline =
      cost::replay(read.history.program, ir::AllocatorSettings{}, recorded_memory(read));
  CHECK(replay_differences(read, timeline).empty());
  RecordedProgram other = read;
  other.phases[1].peak_reserved += Bytes{512};
  const std::vector<ReplayDifference> found = replay_differences(other, timeline);
  REQUIRE(found.size() == 1);
  CHECK(found[0].phase == 1);
  CHECK(found[0].what == "peak reserved");
  CHECK(found[0].recorded - found[0].replayed == Bytes{512});
}

TEST_CASE("recorded program: what could not have run is refused with its place") {
  CHECK(fault_of("[]").find("a JSON object") != std::string::npos);
  CHECK(fault_of("{}").starts_with("/headroom_program"));
  CHECK(fault_of(changed(R"("headroom_program":1)", R"("headroom_program":2)"))
            .starts_with("/headroom_program"));
  CHECK(fault_of(changed("aalfea", "aalfex")).starts_with("/events/kinds"));
  CHECK(fault_of(changed("aalfea", "aaffea")).starts_with("/events/block"));  // A double free.
  CHECK(fault_of(changed("\"block\":[0,0]", "\"block\":[0,2]")).starts_with("/events/block"));
  CHECK(fault_of(changed("\"block\":[0,0]", "\"block\":[0]")).starts_with("/events/block"));
  CHECK(fault_of(changed("\"block\":[0,0]", "\"block\":[0,-1]")).starts_with("/events/block"));
  CHECK(fault_of(changed("[1048576,100", "[-1,100")).starts_with("/events/bytes"));
  CHECK(fault_of(changed("\"line\":[0,1,1]", "\"line\":[0,1,2]")).starts_with("/events/line"));
  CHECK(fault_of(changed("[0,3,4]", "[0,3,5]")).starts_with("/events/category"));
  CHECK(
      fault_of(changed("\"stream\":[0,0,0]", "\"stream\":[0,0,64]")).starts_with("/events/stream"));
  CHECK(fault_of(changed("[3,6]", "[3,5]")).starts_with("/events/ends"));
  CHECK(fault_of(changed("[3,6]", "[6,3]")).starts_with("/events/ends"));
  CHECK(fault_of(changed("[1048576,100,512]", "[17592186044416,17592186044416,512]"))
            .find("16 TiB") != std::string::npos);
  CHECK(fault_of(changed("[1048576,100", "[17592186044417,100")).starts_with("/events/bytes"));
  CHECK(fault_of(changed("85017493504", "17592186044417")).starts_with("/device/total_bytes"));
  CHECK(fault_of(changed("\"rank\":0", "\"rank\":1")).starts_with("/rank"));
  CHECK(fault_of(changed("\"private_pools\"", "\"pools\"")).starts_with("/pools"));
}

namespace {

/// `kProgram` on a GPU of 16 TiB, with `times` allocations of 8 TiB that are freed at once, and the
/// cache is emptied `empties` times after each.
std::string program_of_huge_blocks(std::size_t times, std::size_t empties) {
  std::string kinds;
  std::string bytes;
  std::string zeros;
  std::string blocks;
  for (std::size_t i = 0; i < times; ++i) {
    const std::string comma = i == 0 ? "" : ",";
    kinds += "af" + std::string(empties, 'e');
    bytes += comma + "8796093022208";
    zeros += comma + "0";
    blocks += comma + std::to_string(i);
  }
  const std::string text = changed("85017493504", "17592186044416");
  const std::string count = std::to_string(kinds.size());
  return text.substr(0, text.find("\"events\"")) + R"("events":{"ends":[0,)" + count +
         R"(],"lines":["train.py:1 f"],"categories":["other"],"kinds":")" + kinds +
         R"(","bytes":[)" + bytes + R"(],"stream":[)" + zeros + R"(],"line":[)" + zeros +
         R"(],"category":[)" + zeros + R"(],"block":[)" + blocks + "]}}";
}

}  // namespace

TEST_CASE("recorded program: addresses of segments do not run out in what is read") {
  const RecordedProgram read =
      parse_recorded_program(program_of_huge_blocks(32'768, 1), "p").value();
  for (const char* allocator : {"rising", "driver", "expandable"}) {
    CAPTURE(allocator);
    ir::AllocatorSettings settings;
    settings.expandable_segments = std::string_view(allocator) == "expandable";
    settings.segments = std::string_view(allocator) == "rising" ? ir::SegmentPlaces::kRising
                                                                : ir::SegmentPlaces::kDriver;
    const cost::MemoryTimeline timeline =
        cost::replay(read.history.program, settings, recorded_memory(read));
    CHECK(timeline.phases.size() == 2);
  }
  CHECK(fault_of(program_of_huge_blocks(32'769, 1)).find("256 PiB") != std::string::npos);
}

TEST_CASE("recorded program: an incomplete history says why it is not kept") {
  const Result<AllocatorHistory> lost =
      parse_history(R"({"version":1,"lost":"the history has lost events"})", "p", {});
  REQUIRE_FALSE(lost);
  CHECK(lost.error().got == "the history has lost events");
  CHECK_FALSE(parse_history(R"({"version":2,"events":{}})", "p", {}));
}

}  // namespace headroom::check
