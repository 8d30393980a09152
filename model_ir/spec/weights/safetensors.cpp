#include "model_ir/spec/weights/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "model_ir/spec/weights/header_file.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kHeaderLimit = 100'000'000;

struct TypeBits {
  std::string_view name;
  std::int64_t bits;
};
// huggingface/safetensors safetensors/src/tensor.rs, enum Dtype.
constexpr std::array<TypeBits, 20> kSafetensorsTypes = {
    {{"F32", 32},    {"BF16", 16},   {"F16", 16},    {"F64", 64},    {"I64", 64},
     {"I32", 32},    {"I16", 16},    {"I8", 8},      {"U8", 8},      {"U16", 16},
     {"U32", 32},    {"U64", 64},    {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8},
     {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"C64", 64}}};

/// A tensor and where its data lies.
struct SafetensorsTensor {
  TensorEntry entry;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Reads one entry of the header; knows the file's name for messages.
class EntryReader {
 public:
  explicit EntryReader(const std::string& file) : file_(file) {}

  [[nodiscard]] Result<SafetensorsTensor> read(const JsonMember& member) const {
    SafetensorsTensor placed;
    placed.entry.name = member.key;
    const JsonValue* type = member.value.find("dtype");
    if (type == nullptr || type->as_string() == nullptr) {
      return fault(member, "dtype", type, "a type such as BF16");
    }
    placed.entry.type = *type->as_string();
    if (auto error = read_shape(member, placed.entry)) {
      return *error;
    }
    if (auto error = read_offsets(member, placed)) {
      return *error;
    }
    return check_size(member, std::move(placed));
  }

 private:
  [[nodiscard]] Error fault(const JsonMember& member, std::string_view key, const JsonValue* got,
                            std::string_view wanted, std::string_view fix = {}) const {
    std::string text = got == nullptr ? "nothing" : to_json(*got);
    constexpr std::size_t kShownCharacters = 80;
    if (text.size() > kShownCharacters) {
      text = text.substr(0, kShownCharacters) + "...";
    }
    return Error::invalid_input(file_, json_pointer({member.key, key}), text, wanted, fix);
  }

  [[nodiscard]] std::optional<Error> read_shape(const JsonMember& member,
                                                TensorEntry& entry) const {
    const JsonValue* shape = member.value.find("shape");
    const JsonValue::Array* dims = shape != nullptr ? shape->as_array() : nullptr;
    if (dims == nullptr) {
      return fault(member, "shape", shape, "a list of dimensions");
    }
    entry.elements = 1;
    for (const JsonValue& dim : *dims) {
      const auto size = dim.as_integer();
      if (!size || *size < 0) {
        return fault(member, "shape", shape, "dimensions from 1 to 2^63 - 1");
      }
      if (*size == 0) {
        return fault(member, "shape", shape, "no empty dimension",
                     "gather the shards before saving (ZeRO-3 and FSDP leave empty tensors)");
      }
      if (__builtin_mul_overflow(entry.elements, *size, &entry.elements)) {
        return fault(member, "shape", shape, "fewer than 2^63 elements");
      }
      entry.shape.push_back(*size);
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Error> read_offsets(const JsonMember& member,
                                                  SafetensorsTensor& placed) const {
    const JsonValue* offsets = member.value.find("data_offsets");
    const JsonValue::Array* pair = offsets != nullptr ? offsets->as_array() : nullptr;
    if (pair == nullptr || pair->size() != 2) {
      return fault(member, "data_offsets", offsets, "[begin, end]");
    }
    const auto begin = (*pair)[0].as_integer();
    const auto end = (*pair)[1].as_integer();
    if (!begin || !end || *begin < 0 || *end < *begin || *end > kMostWeightBytes) {
      return fault(member, "data_offsets", offsets,
                   "0 <= begin <= end <= " + std::to_string(kMostWeightBytes) + " (1 PiB)",
                   "download the file again");
    }
    placed.begin = *begin;
    placed.end = *end;
    return std::nullopt;
  }

  [[nodiscard]] Result<SafetensorsTensor> check_size(const JsonMember& member,
                                                     SafetensorsTensor placed) const {
    const auto* type =
        std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                     [&](const TypeBits& known) { return known.name == placed.entry.type; });
    if (type == kSafetensorsTypes.end()) {
      return fault(member, "dtype", member.value.find("dtype"), "F32, BF16, F16, F8_E4M3, I8, ...");
    }
    std::int64_t bits = 0;
    const bool overflow = __builtin_mul_overflow(placed.entry.elements, type->bits, &bits);
    if (overflow || bits % 8 != 0 || bits / 8 != placed.end - placed.begin) {
      return fault(member, "data_offsets", member.value.find("data_offsets"),
                   overflow ? "a shape that data could fill"
                            : std::to_string(bits / 8) + " bytes, as dtype and shape say");
    }
    placed.entry.bytes = Bytes{bits / 8};
    return placed;
  }

  const std::string& file_;
};

/// Finds gaps and overlaps between tensors, which are sorted by their first byte, and data behind
/// the last one. A file may end before its data does.
std::optional<Error> check_layout(const std::string& path,
                                  const std::vector<SafetensorsTensor>& sorted,
                                  std::int64_t data_bytes) {
  std::int64_t end = 0;
  for (const SafetensorsTensor& tensor : sorted) {
    if (tensor.begin != end) {
      return Error::invalid_input(
          path, json_pointer({tensor.entry.name, "data_offsets"}),
          "data from " + std::to_string(tensor.begin),
          "data from " + std::to_string(end) + ", where the tensor before it ends");
    }
    end = tensor.end;
  }
  if (end < data_bytes) {
    return Error::invalid_input(path, byte_pointer(end),
                                std::to_string(data_bytes - end) + " bytes of no tensor",
                                "data that ends with its last tensor");
  }
  return std::nullopt;
}

/// The header's JSON and how many bytes come after it.
struct Header {
  JsonValue json;
  std::int64_t data_bytes = 0;
};

Result<Header> read_header(const std::string& path) {
  Result<HeaderFile> file = HeaderFile::open(path);
  if (!file) {
    return std::move(file).error();
  }
  HeaderCursor cursor(file.value());
  const std::uint64_t length = cursor.number(kLengthBytes, "the header's length");
  if (cursor.failed()) {
    return cursor.error();
  }
  const std::int64_t room = std::min(kHeaderLimit, cursor.remaining());
  if (length > static_cast<std::uint64_t>(room)) {
    const bool cut = length <= static_cast<std::uint64_t>(kHeaderLimit);
    return Error::invalid_input(
        path, byte_pointer(0), "a header of " + std::to_string(length) + " bytes",
        "at most " + std::to_string(room),
        cut ? "download at least the first " +
                  std::to_string(length + static_cast<std::uint64_t>(kLengthBytes)) + " bytes"
            : "check that this is a safetensors file");
  }
  const auto header_bytes = static_cast<std::int64_t>(length);
  const Result<std::string> text = file->read(kLengthBytes, header_bytes);
  if (!text) {
    return text.error();
  }
  Result<JsonValue> json = parse_json(text.value(), path, kSafetensorsLimits);
  if (!json) {
    return std::move(json).error().with_note("in the header, which begins at byte 8");
  }
  if (json->as_object() == nullptr) {
    return Error::invalid_input(path, byte_pointer(kLengthBytes), "JSON that is no object",
                                "{tensor: {dtype, shape, data_offsets}, ...}");
  }
  return Header{.json = std::move(json).value(),
                .data_bytes = file->size() - kLengthBytes - header_bytes};
}

std::string name_in_folder(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace

Result<TensorList> read_safetensors(const std::string& path) {
  const Result<Header> header = read_header(path);
  if (!header) {
    return header.error();
  }
  const EntryReader reader(path);
  std::vector<SafetensorsTensor> placed;
  for (const JsonMember& member : *header->json.as_object()) {
    if (member.key == "__metadata__") {
      continue;
    }
    Result<SafetensorsTensor> tensor = reader.read(member);
    if (!tensor) {
      return std::move(tensor).error();
    }
    placed.push_back(std::move(tensor).value());
  }
  std::stable_sort(
      placed.begin(), placed.end(),
      [](const SafetensorsTensor& a, const SafetensorsTensor& b) { return a.begin < b.begin; });
  if (auto error = check_layout(path, placed, header->data_bytes)) {
    return *error;
  }
  TensorList list;
  if (!placed.empty() && placed.back().end > header->data_bytes) {
    list.notes.push_back(cut_off_note(path, header->data_bytes, placed.back().end));
  }
  for (SafetensorsTensor& tensor : placed) {
    tensor.entry.file = name_in_folder(path);
    list.tensors.push_back(std::move(tensor.entry));
  }
  return list;
}

}  // namespace headroom::ir
