#include "validators/measured/row_reader.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <zlib.h>

#include <doctest/doctest.h>

namespace headroom::check {
namespace {

constexpr const char* kRow =
    R"({"id": "a/1", "framework": "transformers", "case": {"seq": 8}, "phases": [)"
    R"({"phase": "load", "allocated_after": 512, "peak_allocated": 1024, "requested_after": 4,)"
    R"( "retries": 0, "work": {"kernels": 3, "gemm_flops": 10,)"
    R"( "collectives": [["all_reduce", 8, 2, 100], ["broadcast", 8, 1, 28]]}}]})";

/// A folder of its own for one test, gone afterwards.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("headroom_rows_" + name)) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }
  std::string write_gzip(const std::string& name, const std::string& content) const {
    const std::string file = (path_ / name).string();
    const gzFile out = gzopen(file.c_str(), "wb");
    REQUIRE(out != nullptr);
    CHECK(gzwrite(out, content.data(), static_cast<unsigned>(content.size())) ==
          static_cast<int>(content.size()));
    CHECK(gzclose(out) == Z_OK);
    return file;
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

double value_of(const MeasuredPhase& phase, Metric metric) {
  for (const MetricValue& value : phase.values) {
    if (value.metric == metric) {
      return value.value;
    }
  }
  return -1;
}

}  // namespace

TEST_CASE("measured rows: a line gives id, case and the scored figures of each phase") {
  const auto rows = parse_rows(kRow, "runs/ladder.jsonl.gz");
  REQUIRE(rows);
  REQUIRE(rows->size() == 1);
  const MeasuredRow& row = rows->front();
  CHECK(row.source == "ladder");
  CHECK(row.id == "a/1");
  CHECK(row.form == RowForm::kCase);
  CHECK(row.setting.find("seq")->as_integer() == 8);
  CHECK_FALSE(row.out_of_memory);
  REQUIRE(row.phases.size() == 1);
  // requested_after is for study and stays out: 3 figures, 2 of work, 2 sums over collectives.
  CHECK(row.phases[0].values.size() == 7);
  CHECK(value_of(row.phases[0], Metric::kAllocatedAfter) == 512);
  CHECK(value_of(row.phases[0], Metric::kKernels) == 3);
  CHECK(value_of(row.phases[0], Metric::kCollectiveBytes) == 128);
  CHECK(value_of(row.phases[0], Metric::kCollectiveCalls) == 3);
}

TEST_CASE("measured rows: out of memory stands in place of phases") {
  const auto rows =
      parse_rows(R"({"id": "x", "framework": "transformers", "case": {}, "oom": "no room"})", "f");
  REQUIRE(rows);
  CHECK(rows->front().out_of_memory);
  CHECK(rows->front().phases.empty());
}

TEST_CASE("measured rows: a run that broke off is kept and marked") {
  const auto rows = parse_rows(R"({"id": "x", "case": {}, "error": "KeyError"})", "f");
  REQUIRE(rows);
  CHECK(rows->front().failure == "KeyError");
}

TEST_CASE("measured rows: gzip is told by content, not by name") {
  const Folder folder("gzip");
  const std::string packed = folder.write_gzip("no_ending", std::string(kRow) + "\n\n");
  const std::string plain = folder.write("named.jsonl.gz", kRow);
  for (const std::string& path : {packed, plain}) {
    CAPTURE(path);
    const auto rows = read_rows(path);
    REQUIRE(rows);
    CHECK(rows->size() == 1);
  }
}

TEST_CASE("measured rows: two gzip members are read one after the other") {
  const Folder folder("members");
  const std::string one = folder.write_gzip("one.gz", std::string(kRow) + "\n");
  std::ifstream in(one, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto rows = read_rows(folder.write("both.jsonl.gz", bytes + bytes));
  REQUIRE(rows);
  CHECK(rows->size() == 2);
}

TEST_CASE("measured rows: truncated and damaged gzip data is bad input with a byte offset") {
  const Folder folder("damaged");
  const std::string whole = folder.write_gzip("whole.gz", std::string(kRow));
  std::ifstream in(whole, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto cut = read_rows(folder.write("cut.jsonl.gz", bytes.substr(0, bytes.size() / 2)));
  REQUIRE_FALSE(cut);
  CHECK(cut.error().code == ErrorCode::kInvalidInput);
  CHECK(cut.error().pointer.starts_with("byte "));
  bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
  CHECK_FALSE(read_rows(folder.write("flipped.jsonl.gz", bytes)));
}

TEST_CASE("measured rows: a malformed line is named by file and line number") {
  const std::string good = std::string(kRow) + "\n";
  struct Case {
    const char* line;
    const char* at;
  };
  const Case cases[] = {
      {R"({"id": "x", )", "line 2, byte"},
      {R"([1, 2])", "line 2"},
      {R"({"id": 7, "case": {}, "oom": "x"})", "line 2: id"},
      {R"({"id": "x", "case": {}})", "line 2"},
      {R"({"id": "x", "phases": []})", "line 2"},
      {R"({"id": "x", "case": {}, "phases": 3})", "line 2: phases"},
      {R"({"id": "x", "case": {}, "phases": [{"peak_allocated": 1}]})", "line 2: phases/0"},
      {R"({"id": "x", "case": {}, "phases": [{"phase": "a", "peak_allocated": "1"}]})",
       "line 2: phases/0: peak_allocated"},
      {R"({"id": "x", "case": {}, "phases": [{"phase": "a", "peak_allocated": -1}]})",
       "line 2: phases/0: peak_allocated"},
      {R"({"id": "x", "case": {}, "phases": [{"phase": "a", "work": {"collectives": [[1]]}}]})",
       "line 2: phases/0: work/collectives/0"},
      {R"({"id": "x", "id": "y", "case": {}, "oom": "x"})", "line 2"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.line);
    const auto rows = parse_rows(good + one.line + "\n", "dir/bad.jsonl");
    REQUIRE_FALSE(rows);
    CHECK(rows.error().code == ErrorCode::kInvalidInput);
    CHECK(rows.error().file == "dir/bad.jsonl");
    CHECK(rows.error().pointer.starts_with(one.at));
  }
}

TEST_CASE("measured rows: published rows come from the list of a JSON document") {
  const auto rows = parse_rows(
      R"({"source": "someone", "rows": [{"id": "p", "framework": "torchtune", "seq_len": 4,)"
      R"( "measured": {"fits": true}}]})",
      "torchtune.json");
  REQUIRE(rows);
  CHECK(rows->front().form == RowForm::kPublished);
  CHECK(rows->front().source == "torchtune");
  CHECK(rows->front().measured_raw.find("fits")->as_bool() == true);
  CHECK(rows->front().setting.find("seq_len") != nullptr);
  CHECK(rows->front().setting.find("measured") == nullptr);
}

TEST_CASE("measured rows: a document without rows and a bad row in one are named by pointer") {
  const auto none = parse_rows(R"({"source": "x"})", "x.json");
  REQUIRE_FALSE(none);
  CHECK(none.error().pointer == "/rows");
  const auto bad = parse_rows(R"({"rows": [{"id": "a", "measured": {}}, {"id": "b"}]})", "x.json");
  REQUIRE_FALSE(bad);
  CHECK(bad.error().pointer == "/rows/1");
}

TEST_CASE("measured rows: a folder is read in the order of its paths, other files left alone") {
  const Folder folder("folder");
  folder.write("b.jsonl", R"({"id": "second", "case": {}, "oom": "x"})");
  folder.write("a.json", R"({"source": "s", "rows": [{"id": "first", "measured": {}}]})");
  folder.write("README.md", "not a row");
  const auto rows = read_rows(folder.path());
  REQUIRE(rows);
  REQUIRE(rows->size() == 2);
  CHECK(rows.value()[0].id == "first");
  CHECK(rows.value()[1].id == "second");
}

TEST_CASE(
    "measured rows: what cannot be read is the environment's fault, what is empty the input's") {
  const Folder folder("empty");
  const auto missing = read_rows(folder.path() + "/nothing.jsonl");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kEnvironment);
  const auto no_files = read_rows(folder.path());
  REQUIRE_FALSE(no_files);
  CHECK(no_files.error().code == ErrorCode::kInvalidInput);
  const auto no_rows = read_rows(folder.write("empty.jsonl", "\n"));
  REQUIRE_FALSE(no_rows);
  CHECK(no_rows.error().code == ErrorCode::kInvalidInput);
}

TEST_CASE("source_name: the file's name without folders and endings") {
  CHECK(source_name("runs/ladder.jsonl.gz") == "ladder");
  CHECK(source_name("torchtune.json") == "torchtune");
  CHECK(source_name("/a/b/plain") == "plain");
  CHECK(source_name("run.v2.jsonl") == "run.v2");
  CHECK(source_name("notes.txt") == "notes");
}

}  // namespace headroom::check
