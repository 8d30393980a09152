#include "costmodel/memory/pickle_writer.h"

#include <bit>
#include <limits>
#include <utility>

namespace headroom::cost {
namespace {

constexpr std::uint32_t kOneByte = 256;
constexpr int kBatch = 1000;
constexpr int kNoList = -1;

}  // namespace

template <int Count>
void PickleWriter::little_endian(std::uint64_t value) {
  for (int byte = 0; byte < Count; ++byte) {
    out_ += static_cast<char>(static_cast<unsigned char>(value >> (8 * byte)));
  }
}

PickleWriter::PickleWriter() {
  out_ = {'\x80', '\x02'};
}  // PROTO 2

/// Called before each value: ends the batch of a list if it is full.
void PickleWriter::begin_value() {
  if (open_.empty() || open_.back() == kNoList) {
    return;
  }
  if (open_.back() == kBatch) {
    out_ += "e(";  // APPENDS, MARK
    open_.back() = 0;
  }
  ++open_.back();
}

void PickleWriter::integer(std::int64_t value) {
  begin_value();
  if (value >= 0 && value < kOneByte) {
    out_ += 'K';  // BININT1
    little_endian<1>(static_cast<std::uint64_t>(value));
  } else if (value >= std::numeric_limits<std::int32_t>::min() &&
             value <= std::numeric_limits<std::int32_t>::max()) {
    out_ += 'J';  // BININT
    little_endian<4>(static_cast<std::uint64_t>(value));
  } else {
    out_ += '\x8a';  // LONG1
    out_ += '\x08';
    little_endian<8>(static_cast<std::uint64_t>(value));
  }
}

void PickleWriter::real(double value) {
  begin_value();
  out_ += 'G';  // BINFLOAT: the only one with the highest byte first.
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) {
    out_ += static_cast<char>(static_cast<unsigned char>(bits >> shift));
  }
}

void PickleWriter::boolean(bool value) {
  begin_value();
  out_ += value ? '\x88' : '\x89';  // NEWTRUE, NEWFALSE
}

void PickleWriter::text(std::string_view value) {
  const auto [place, is_new] = texts_.try_emplace(std::string(value), next_name_);
  if (!is_new) {
    recall(place->second);
    return;
  }
  begin_value();
  out_ += 'X';  // BINUNICODE
  little_endian<4>(value.size());
  out_ += value;
  (void)remember();
}

void PickleWriter::begin_dict() {
  begin_value();
  out_ += "}(";  // EMPTY_DICT, MARK
  open_.push_back(kNoList);
}

void PickleWriter::end_dict() {
  out_ += 'u';  // SETITEMS
  open_.pop_back();
}

void PickleWriter::begin_list() {
  begin_value();
  out_ += "](";  // EMPTY_LIST, MARK
  open_.push_back(0);
}

void PickleWriter::end_list() {
  out_ += 'e';  // APPENDS
  open_.pop_back();
}

void PickleWriter::begin_tuple() {
  begin_value();
  out_ += '(';  // MARK
  open_.push_back(kNoList);
}

void PickleWriter::end_tuple() {
  out_ += 't';  // TUPLE
  open_.pop_back();
}

std::uint32_t PickleWriter::remember() {
  const std::uint32_t name = next_name_++;
  if (name < kOneByte) {
    out_ += 'q';  // BINPUT
    little_endian<1>(name);
  } else {
    out_ += 'r';  // LONG_BINPUT
    little_endian<4>(name);
  }
  return name;
}

void PickleWriter::recall(std::uint32_t name) {
  begin_value();
  if (name < kOneByte) {
    out_ += 'h';  // BINGET
    little_endian<1>(name);
  } else {
    out_ += 'j';  // LONG_BINGET
    little_endian<4>(name);
  }
}

std::string PickleWriter::finish() {
  out_ += '.';  // STOP
  return std::move(out_);
}

}  // namespace headroom::cost
