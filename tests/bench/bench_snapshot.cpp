// A memory snapshot of 100 MB, as a long recording of a large model writes it: half a million
// entries with stacks of 8 to 60 frames, each stack pickled anew, as PyTorch does.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model_ir/base/file.h"
#include "tests/bench/measurement.h"
#include "validators/snapshot/growth.h"
#include "validators/snapshot/snapshot_reader.h"
#include "validators/snapshot/stack_rules.h"
#include "validators/snapshot/summary.h"

namespace headroom::bench {
namespace {

constexpr std::int64_t kSegment = std::int64_t{1} << 24;
constexpr std::int64_t kFirstAddress = std::int64_t{0x7f00} << 32;
constexpr std::size_t kSlots = 2'000;   ///< Segments, each with one block or none.
constexpr std::size_t kFrames = 3'000;  ///< Different lines of code.

/// A pickle of protocol 4 that refers to texts and frames by the memo, as Python's does.
class Writer {
 public:
  void op(std::string_view bytes) { out_ += bytes; }
  void memoize() {
    out_ += '\x94';
    ++memo_;
  }
  void text(const std::string& value) {
    if (const auto known = texts_.find(value); known != texts_.end()) {
      get(known->second);
      return;
    }
    out_ += '\x8c';
    out_ += static_cast<char>(value.size());
    out_ += value;
    texts_.emplace(value, memo_);
    memoize();
  }
  void integer(std::int64_t value) {
    constexpr std::int64_t kByte = 256;
    if (0 <= value && value < kByte) {
      out_ += 'K';
      out_ += static_cast<char>(value);
    } else if (0 <= value && value < kByte * kByte) {
      out_ += 'M';
      little_endian(value, 2);
    } else if (value < std::int64_t{1} << 31) {
      out_ += 'J';
      little_endian(value, 4);
    } else {
      out_ += "\x8a\x07";
      little_endian(value, 7);
    }
  }
  void get(std::uint32_t index) {
    out_ += index < 256 ? 'h' : 'j';
    little_endian(index, index < 256 ? 1 : 4);
  }
  [[nodiscard]] std::uint32_t next_memo() const { return memo_; }
  [[nodiscard]] std::size_t size() const { return out_.size(); }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void little_endian(std::int64_t value, int width) {
    for (int byte = 0; byte < width; ++byte) {
      out_ += static_cast<char>(value >> (8 * byte) & 0xFF);
    }
  }

  std::string out_ = "\x80\x04";
  std::uint32_t memo_ = 0;
  std::unordered_map<std::string, std::uint32_t> texts_;
};

/// Numbers that are the same in every run (Knuth, TAOCP 2, 3.3.4: MMIX's generator).
class Sequence {
 public:
  std::size_t below(std::size_t limit) {
    state_ = state_ * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    return static_cast<std::size_t>(state_ >> 33) % limit;
  }

 private:
  std::uint64_t state_ = 1;
};

class SnapshotWriter {
 public:
  explicit SnapshotWriter(std::size_t bytes) : bytes_(bytes) {}

  std::string write() {
    writer_.op("}");
    writer_.memoize();
    writer_.op("(");
    writer_.text("device_traces");
    writer_.op("](]");
    writer_.op("(");
    while (writer_.size() < bytes_) {
      write_entry();
      if (++entries_ % 1'000 == 0) {
        writer_.op("e(");
      }
    }
    writer_.op("ee");
    writer_.text("segments");
    writer_.op("](");
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      write_segment(slot);
    }
    writer_.op("eu.");
    return writer_.take();
  }
  [[nodiscard]] std::size_t entries() const { return entries_; }

 private:
  static std::int64_t address_of(std::size_t slot) {
    return kFirstAddress + static_cast<std::int64_t>(slot) * kSegment;
  }

  /// An allocation and its release are two entries and a third: free_completed.
  void write_entry() {
    if (pending_ == 0) {
      slot_ = sequence_.below(kSlots);
      pending_ = used_[slot_] ? 2 : 1;
    }
    const char* const action = !used_[slot_]   ? "alloc"
                               : pending_ == 2 ? "free_requested"
                                               : "free_completed";
    writer_.op("}");
    writer_.memoize();
    writer_.op("(");
    member("action", action);
    number("addr", address_of(slot_));
    number("size", kSegment / 2);
    number("stream", 0);
    number("time_us", 1'795'538'054'067'660 + static_cast<std::int64_t>(entries_));
    member("compile_context", "N/A");
    member("user_metadata", "");
    stack();
    writer_.op("u");
    used_[slot_] = !used_[slot_] ? 1 : pending_ == 2 ? 1 : 0;
    --pending_;
  }

  void write_segment(std::size_t slot) {
    writer_.op("}(");
    number("device", 0);
    number("address", address_of(slot));
    number("total_size", kSegment);
    number("stream", 0);
    member("segment_type", "large");
    writer_.text("blocks");
    writer_.op("](}(");
    number("address", address_of(slot));
    number("size", kSegment / 2);
    number("requested_size", kSegment / 2);
    const bool releasing = slot == slot_ && pending_ == 1 && used_[slot] != 0;
    member("state", releasing          ? "active_awaiting_free"
                    : used_[slot] != 0 ? "active_allocated"
                                       : "inactive");
    stack();
    writer_.op("ueu");
  }

  void stack() {
    writer_.text("frames");
    writer_.op("]");
    writer_.memoize();
    writer_.op("(");
    const std::size_t depth = 8 + sequence_.below(53);
    const std::size_t first = sequence_.below(200);
    for (std::size_t at = 0; at < depth; ++at) {
      frame((first * 37 + at * 11) % kFrames);
    }
    writer_.op("e");
  }

  void frame(std::size_t number_of_frame) {
    if (const std::uint32_t known = frames_[number_of_frame]; known != 0) {
      writer_.get(known);
      return;
    }
    writer_.op("}");
    frames_[number_of_frame] = writer_.next_memo();
    writer_.memoize();
    writer_.op("(");
    member("filename", "/python/site-packages/torch/nn/modules/module_" +
                           std::to_string(number_of_frame % 97) + ".py");
    number("line", static_cast<std::int64_t>(number_of_frame));
    member("name", "function_" + std::to_string(number_of_frame));
    writer_.op("u");
  }

  void member(const std::string& key, const std::string& value) {
    writer_.text(key);
    writer_.text(value);
  }
  void number(const std::string& key, std::int64_t value) {
    writer_.text(key);
    writer_.integer(value);
  }

  std::size_t bytes_;
  Writer writer_;
  Sequence sequence_;
  std::size_t entries_ = 0;
  std::size_t slot_ = 0;
  std::size_t pending_ = 0;
  std::vector<char> used_ = std::vector<char>(kSlots, 0);
  std::vector<std::uint32_t> frames_ = std::vector<std::uint32_t>(kFrames, 0);
};

std::int64_t read(const std::string& bytes) {
  const auto snapshot = check::read_snapshot(bytes, "generated");
  return snapshot ? static_cast<std::int64_t>(snapshot->stack_frames.size()) : -1;
}

std::int64_t read_and_summarise(const std::string& bytes, const check::StackRules& rules) {
  const auto snapshot = check::read_snapshot(bytes, "generated");
  if (!snapshot) {
    return -1;
  }
  const check::StackSorter sorter(rules, *snapshot);
  const check::DeviceSummary summary = check::summary_of(*snapshot, sorter, 0);
  const check::Growth leaks = check::growth_within(*snapshot, sorter, summary.history);
  return summary.history.peak_allocated.bytes.value() +
         static_cast<std::int64_t>(leaks.stacks.size());
}

int run(const Options& options) {
  constexpr std::size_t kSmoke = 200'000;
  constexpr std::size_t kWhole = 100'000'000;
  SnapshotWriter writer(options.runs == 0 ? kSmoke : kWhole);
  const std::string bytes = writer.write();
  const auto rules = check::read_stack_rules(HEADROOM_SOURCE_DIR "/configs/snapshot/stacks.json");
  if (!rules || read_and_summarise(bytes, *rules) < 0) {
    std::fprintf(stderr, "the generated snapshot is refused\n");
    return 1;
  }
  if (options.only == "write") {  // In the current folder, to time the whole program on it.
    return write_file_atomically("headroom_snapshot.pickle", bytes) ? 0 : 1;
  }
  const std::string title = "snapshot of " + std::to_string(bytes.size()) + " bytes, " +
                            std::to_string(writer.entries()) + " entries";
  print(title,
        {measure("read", options.runs, [&] { return read(bytes); }),
         measure("read and summarise", options.runs,
                 [&] { return read_and_summarise(bytes, *rules); })},
        options);
  return 0;
}

}  // namespace
}  // namespace headroom::bench

int main(int count, char** values) {
  return headroom::bench::run_with_options(count, values, headroom::bench::run);
}
