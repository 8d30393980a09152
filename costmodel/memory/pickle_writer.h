#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace headroom::cost {

/// Writes one Python object as a pickle of protocol 2: dicts, lists, tuples, integers, floats,
/// booleans and text. Loading it runs no code.
///
/// Values come in the order of the object; in a dict: key, value, key, value. Lists are written in
/// batches of a thousand items, as Python does: pytorch.org/memory_viz passes each batch as the
/// arguments of one call, which fails for longer ones.
/// Source:  Python, Lib/pickletools.py, "opcodes", protocol 2.
class PickleWriter {
 public:
  PickleWriter();

  void integer(std::int64_t value);
  void real(double value);
  void boolean(bool value);
  /// UTF-8. A text that was written before is written as a reference to it.
  void text(std::string_view value);
  void begin_dict();
  void end_dict();
  void begin_list();
  void end_list();
  void begin_tuple();
  void end_tuple();

  /// Names the value just completed, so that `recall` can put the same object elsewhere.
  [[nodiscard]] std::uint32_t remember();
  void recall(std::uint32_t name);

  /// The whole pickle; the writer must not be used afterwards.
  [[nodiscard]] std::string finish();

 private:
  void begin_value();
  template <int Count>
  void little_endian(std::uint64_t value);

  std::string out_;
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::uint32_t next_name_ = 0;
  std::vector<int> open_;  ///< Items in the batch of each open list; `kNoList` for a dict or tuple.
};

}  // namespace headroom::cost
