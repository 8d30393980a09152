#include "validators/snapshot/nsight.h"

#ifdef HEADROOM_SQLITE
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <sqlite3.h>

#include "validators/snapshot/gpu_log_lines.h"
#endif

namespace headroom::check {

bool is_sqlite(std::string_view bytes) {
  // SQLite's file format, section 1.3.1; the text ends with a zero byte.
  return bytes.starts_with(std::string_view("SQLite format 3\0", 16));
}

#ifdef HEADROOM_SQLITE
namespace {

constexpr std::int64_t kMostEventBytes = std::int64_t{1} << 50;
/// Steps of SQLite's virtual machine; an event takes some 20. Hostile views would take longer.
constexpr int kMachineSteps = 1'000'000;
constexpr int kMostMachineRuns = 1'000;
/// The most bytes of one value, row or statement; hostile views make longer ones.
constexpr int kMostValueBytes = 1 << 16;
constexpr sqlite3_int64 kMostHeapBytes = sqlite3_int64{256} << 20;  ///< All of SQLite's memory.
constexpr std::size_t kMostNameBytes = 256;

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
struct FinishStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, FinishStatement>;

Error damaged(std::string_view file, std::string_view what) {
  return Error::invalid_input(file, {}, "SQLite says: " + std::string(what),
                              "a whole export of Nsight Systems",
                              "export it again: nsys export --type sqlite report.nsys-rep");
}

int count_steps(void* steps) {
  return ++*static_cast<int*>(steps) > kMostMachineRuns ? 1 : 0;
}

/// A database whose content is `bytes`, which must outlive it.
Database open_bytes(std::string& bytes) {
  sqlite3* raw = nullptr;
  const int opened = sqlite3_open_v2(":memory:", &raw, SQLITE_OPEN_READWRITE, nullptr);
  Database database(raw);
  if (opened != SQLITE_OK) {
    return nullptr;
  }
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  if (sqlite3_deserialize(raw, "main", reinterpret_cast<unsigned char*>(bytes.data()), size, size,
                          SQLITE_DESERIALIZE_READONLY) != SQLITE_OK) {
    return nullptr;
  }
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, kMostValueBytes);
  sqlite3_hard_heap_limit64(kMostHeapBytes);
  return database;
}

Statement prepared(const Database& database, const char* query) {
  sqlite3_stmt* raw = nullptr;
  sqlite3_prepare_v2(database.get(), query, -1, &raw, nullptr);
  return Statement(raw);
}

std::string text_at(const Statement& statement, int column) {
  const unsigned char* const text = sqlite3_column_text(statement.get(), column);
  return text == nullptr
             ? std::string()
             : std::string(reinterpret_cast<const char*>(text)).substr(0, kMostNameBytes);
}

/// Names by the first column of a query; empty if the table does not exist.
std::map<std::int64_t, std::string> names_of(const Database& database, const char* query) {
  std::map<std::int64_t, std::string> names;
  const Statement rows = prepared(database, query);
  while (rows && sqlite3_step(rows.get()) == SQLITE_ROW && names.size() < kMostUses) {
    names[sqlite3_column_int64(rows.get(), 0)] = text_at(rows, 1);
  }
  return names;
}

/// Bytes that are allocated, by GPU and process.
class Totals {
 public:
  explicit Totals(GpuLog& log) : log_(log), uses_(log) {}

  void add(std::int64_t device, std::int64_t process, std::int64_t bytes, UseSample sample) {
    const std::string gpu = std::to_string(device);
    put({device, -1}, uses_.use_of(gpu), bytes, sample);
    put({device, process}, uses_.use_of(gpu, process), bytes, sample);
  }
  [[nodiscard]] const UseCollector& uses() const { return uses_; }

 private:
  void put(std::pair<std::int64_t, std::int64_t> key, MemoryUse* use, std::int64_t bytes,
           UseSample sample) {
    std::int64_t& total = totals_[key];
    if (total + bytes < 0) {
      ++log_.skipped;  // The memory was allocated before the recording began.
    }
    total = std::clamp<std::int64_t>(total + bytes, 0, kMostEventBytes);
    sample.used = Bytes{total};
    uses_.add(use, sample);
  }

  GpuLog& log_;
  UseCollector uses_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> totals_;
};

void add_names(const Database& database, GpuLog& log) {
  const auto gpus = names_of(database, "SELECT id, name FROM TARGET_INFO_GPU");
  for (MemoryUse& use : log.gpus) {
    const auto found = gpus.find(whole_number(use.gpu).value_or(-1));
    use.name = found == gpus.end() ? "" : found->second;
  }
  const auto processes = names_of(database, "SELECT pid, name FROM PROCESSES");
  for (MemoryUse& use : log.processes) {
    const auto found = processes.find(use.process.value_or(-1));
    use.name = found == processes.end() ? "" : found->second;
  }
}

}  // namespace

Result<GpuLog> read_nsight(std::string bytes, std::string_view file) {
  const Database database = open_bytes(bytes);
  if (database == nullptr) {
    return damaged(file, "the database cannot be opened");
  }
  int steps = 0;
  sqlite3_progress_handler(database.get(), kMachineSteps, count_steps, &steps);
  // 2: device, 3: array, 5: device static. globalPid: the process stands in bits 24 to 47.
  const Statement events = prepared(
      database,
      "SELECT start, deviceId, globalPid / 0x1000000 % 0x1000000, bytes, memoryOperationType "
      "FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE memKind IN (2, 3, 5) ORDER BY start");
  if (events == nullptr) {
    const std::string why = sqlite3_errmsg(database.get());
    if (why.find("no such") == std::string::npos) {
      return damaged(file, why);
    }
    return Error::invalid_input(
        file, {}, why, "the table CUDA_GPU_MEMORY_USAGE_EVENTS of an export of Nsight Systems",
        "record with nsys profile --cuda-memory-usage=true, then nsys export --type sqlite");
  }
  GpuLog log{.source = "Nsight Systems", .gpus = {}, .processes = {}};
  Totals totals(log);
  constexpr double kNanoseconds = 1e-9;
  int status = sqlite3_step(events.get());
  for (std::size_t reading = 0; status == SQLITE_ROW && !totals.uses().is_full(); ++reading) {
    const std::int64_t size =
        std::clamp<std::int64_t>(sqlite3_column_int64(events.get(), 3), 0, kMostEventBytes);
    const bool release = sqlite3_column_int64(events.get(), 4) != 0;
    totals.add(
        sqlite3_column_int64(events.get(), 1), sqlite3_column_int64(events.get(), 2),
        release ? -size : size,
        {.reading = reading,
         .seconds = kNanoseconds * static_cast<double>(sqlite3_column_int64(events.get(), 0)),
         .used = {}});
    status = sqlite3_step(events.get());
  }
  if (totals.uses().is_full()) {
    return Error::invalid_input(file, {}, "more events, GPUs or processes",
                                "at most " + std::to_string(kMostUseSamples / 2) + " events",
                                "record a shorter time");
  }
  if (status != SQLITE_DONE) {
    return damaged(file, sqlite3_errmsg(database.get()));
  }
  if (log.gpus.empty()) {
    return Error::invalid_input(file, {}, "no event of device memory",
                                "allocations and releases of device memory",
                                "record with nsys profile --cuda-memory-usage=true");
  }
  add_names(database, log);
  return log;
}

#else

Result<GpuLog> read_nsight(std::string, std::string_view file) {
  return Error::environment(file, "an SQLite database, and headroom was built without SQLite",
                            "a headroom that was built with it",
                            "install SQLite's headers (libsqlite3-dev) and build headroom again");
}

#endif

}  // namespace headroom::check
