#include "model_ir/spec/weights/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <utility>

#include "model_ir/spec/weights/ggml_types.h"
#include "model_ir/spec/weights/header_file.h"

namespace headroom::ir {
namespace {

// The numbers of value types; ggml-org/ggml docs/gguf.md, enum gguf_metadata_value_type.
enum class ValueType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};
constexpr std::uint32_t kValueTypes = 13;
constexpr std::array<int, kValueTypes> kWidths = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

constexpr std::uint64_t kKeyLimit = 65'535;   // docs/gguf.md: a key has at most 2^16 - 1 bytes.
constexpr std::uint64_t kTextKept = 1 << 12;  // Names of architectures are short.
// Files of llama.cpp have some 30 keys, those with a key for each layer some thousand.
constexpr std::uint64_t kMostKeys = 1 << 16;
// DeepSeek-V3 with a tensor for every matrix of every expert has 46,000.
constexpr std::uint64_t kMostTensors = 1 << 18;
// What is kept of a usual file (vocabularies are only counted) is below 100 KiB.
constexpr std::uint64_t kMostKept = 16 << 20;
constexpr std::uint64_t kNameLimit = 1'024;     // ggml keeps 63 bytes of a name; some have more.
constexpr std::uint64_t kDimensions = 4;        // GGML_MAX_DIMS
constexpr std::int64_t kDefaultAlignment = 32;  // GGUF_DEFAULT_ALIGNMENT
constexpr std::int64_t kLeastKeyValue = 8 + 4 + 1;
constexpr std::int64_t kLeastTensor = 8 + 4 + 8 + 4 + 8;

std::uint32_t number32(HeaderCursor& cursor, const char* what) {
  return static_cast<std::uint32_t>(cursor.number(4, what));
}

ValueType read_type(HeaderCursor& cursor) {
  const std::int64_t at = cursor.offset();
  const std::uint32_t number = number32(cursor, "the type of a value");
  if (number >= kValueTypes) {
    cursor.fail(at, "value type " + std::to_string(number), "a type from 0 to 12");
    return ValueType::kUint8;
  }
  return static_cast<ValueType>(number);
}

/// A text that may be of any length; a long one is skipped and reads as empty.
std::string read_text(HeaderCursor& cursor) {
  const std::uint64_t length = cursor.count(1, "bytes of text");
  if (length > kTextKept) {
    cursor.skip(length, "a text");
    return {};
  }
  return cursor.bytes(length, "a text");
}

double read_real(HeaderCursor& cursor, ValueType type) {
  if (type == ValueType::kFloat32) {
    return static_cast<double>(std::bit_cast<float>(number32(cursor, "a number")));
  }
  return std::bit_cast<double>(cursor.number(8, "a number"));
}

/// A whole number, sign-extended if its type has a sign. A value above 2^63 - 1 cannot be a
/// dimension and is read as 2^63 - 1.
std::int64_t read_whole(HeaderCursor& cursor, ValueType type) {
  const int width = kWidths.at(static_cast<std::size_t>(type));
  const std::uint64_t raw = cursor.number(width, "a number");
  const bool is_signed = type == ValueType::kInt8 || type == ValueType::kInt16 ||
                         type == ValueType::kInt32 || type == ValueType::kInt64;
  if (is_signed) {
    const int unused = 64 - 8 * width;
    return static_cast<std::int64_t>(raw << unused) >> unused;
  }
  return static_cast<std::int64_t>(std::min<std::uint64_t>(raw, INT64_MAX));
}

bool is_real(ValueType type) {
  return type == ValueType::kFloat32 || type == ValueType::kFloat64;
}

/// Whether anybody reads the numbers of an array under `key`: those of a vocabulary are only
/// counted.
bool keeps_numbers(std::string_view key) {
  return !key.starts_with("tokenizer.");
}

GgufArray read_array(HeaderCursor& cursor, std::string_view key) {
  const std::int64_t at = cursor.offset();
  const ValueType type = read_type(cursor);
  if (type == ValueType::kArray) {
    cursor.fail(at, "an array of arrays", "an array of numbers or texts");
    return {};
  }
  const int width = kWidths.at(static_cast<std::size_t>(type));
  GgufArray array{.size = cursor.count(type == ValueType::kString ? 8 : width, "items of an array"),
                  .numbers = {}};
  if (type == ValueType::kString) {
    for (std::uint64_t i = 0; i < array.size && !cursor.failed(); ++i) {
      cursor.skip(cursor.count(1, "bytes of text"), "a text");
    }
  } else if (array.size > kGgufNumbersKept || !keeps_numbers(key)) {
    cursor.skip(array.size * static_cast<std::uint64_t>(width), "an array");
  } else {
    for (std::uint64_t i = 0; i < array.size && !cursor.failed(); ++i) {
      array.numbers.push_back(is_real(type) ? read_real(cursor, type)
                                            : static_cast<double>(read_whole(cursor, type)));
    }
  }
  return array;
}

GgufValue read_value(HeaderCursor& cursor, std::string_view key) {
  const ValueType type = read_type(cursor);
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kUint16:
    case ValueType::kInt16:
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kUint64:
    case ValueType::kInt64:
      return read_whole(cursor, type);
    case ValueType::kFloat32:
    case ValueType::kFloat64:
      return read_real(cursor, type);
    case ValueType::kBool:
      return cursor.number(1, "a truth value") != 0;
    case ValueType::kString:
      return read_text(cursor);
    case ValueType::kArray:
      return read_array(cursor, key);
  }
  return std::int64_t{0};
}

/// A tensor, the place of its data and the offset of its header entry.
struct GgufTensor {
  TensorEntry entry;
  std::int64_t begin = 0;  ///< From the start of the data.
  std::int64_t info_at = 0;
};

void read_shape(HeaderCursor& cursor, TensorEntry& entry) {
  const std::int64_t at = cursor.offset();
  const std::uint64_t count = number32(cursor, "a number of dimensions");
  if (!cursor.failed() && (count < 1 || count > kDimensions)) {
    cursor.fail(at, entry.name + " with " + std::to_string(count) + " dimensions", "1 to 4");
  }
  entry.elements = 1;
  for (std::uint64_t i = 0; i < count && !cursor.failed(); ++i) {
    const std::int64_t dim_at = cursor.offset();
    const std::uint64_t size = cursor.number(8, "a dimension");
    const bool fine =
        size >= 1 && size <= static_cast<std::uint64_t>(INT64_MAX) &&
        !__builtin_mul_overflow(entry.elements, static_cast<std::int64_t>(size), &entry.elements);
    if (!fine) {
      cursor.fail(dim_at, entry.name + " with a dimension of " + std::to_string(size),
                  "dimensions from 1, fewer than 2^63 elements");
      return;
    }
    entry.shape.insert(entry.shape.begin(), static_cast<std::int64_t>(size));  // Innermost first.
  }
}

void read_size(HeaderCursor& cursor, TensorEntry& entry) {
  const std::int64_t at = cursor.offset();
  const std::uint32_t number = number32(cursor, "a tensor type");
  if (cursor.failed()) {
    return;
  }
  const GgmlType* type = ggml_type(number);
  if (type == nullptr) {
    cursor.fail(at, entry.name + " of type " + std::to_string(number),
                "a tensor type of ggml (0 to 42; 4, 5, 31 to 33 and 36 to 38 are withdrawn)");
    return;
  }
  entry.type = type->name;
  if (entry.shape.back() % type->elements != 0) {
    cursor.fail(
        at, entry.name + " with rows of " + std::to_string(entry.shape.back()),
        "rows in blocks of " + std::to_string(type->elements) + ", as " + entry.type + " has them");
    return;
  }
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(entry.elements / type->elements, type->bytes, &bytes)) {
    cursor.fail(at, entry.name + " of 2^63 bytes or more", "a tensor that fits into the file");
  }
  entry.bytes = Bytes{bytes};
}

GgufTensor read_tensor(HeaderCursor& cursor, const std::string& file) {
  GgufTensor placed;
  placed.info_at = cursor.offset();
  placed.entry.name = cursor.text(kNameLimit, "a tensor's name");
  placed.entry.file = file;
  read_shape(cursor, placed.entry);
  if (!cursor.failed()) {
    read_size(cursor, placed.entry);
  }
  const std::int64_t at = cursor.offset();
  const std::uint64_t begin = cursor.number(8, "where a tensor's data begins");
  if (begin > static_cast<std::uint64_t>(INT64_MAX)) {
    cursor.fail(at, placed.entry.name + " with data from " + std::to_string(begin),
                "an offset inside the file");
    return placed;
  }
  placed.begin = static_cast<std::int64_t>(begin);
  return placed;
}

/// Checks alignment, bounds and overlaps of the data, once the header has been read, and returns
/// where the data ends. The file may end before.
std::int64_t check_layout(HeaderCursor& cursor, std::vector<GgufTensor>& tensors,
                          std::int64_t alignment) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const GgufTensor& a, const GgufTensor& b) { return a.begin < b.begin; });
  std::int64_t end = 0;
  for (const GgufTensor& tensor : tensors) {
    const std::string name = tensor.entry.name;
    const std::string from = name + " with data from " + std::to_string(tensor.begin);
    const std::int64_t bytes = tensor.entry.bytes.value();
    if (tensor.begin % alignment != 0) {
      cursor.fail(tensor.info_at, from, "a multiple of " + std::to_string(alignment));
    } else if (bytes > kMostWeightBytes || tensor.begin > kMostWeightBytes - bytes) {
      cursor.fail(tensor.info_at, from + " of " + std::to_string(bytes) + " bytes",
                  "data that ends within " + std::to_string(kMostWeightBytes) + " bytes (1 PiB)",
                  "download the file again");
    } else if (tensor.begin < end) {
      cursor.fail(tensor.info_at, from,
                  "data from " + std::to_string(end) + " on, where the one before it ends");
    }
    if (cursor.failed()) {
      return end;
    }
    end = tensor.begin + bytes;
  }
  return end;
}

/// The first of `names` that occurs twice.
std::optional<std::string> find_twice(std::vector<std::string_view> names) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  return twice == names.end() ? std::nullopt : std::optional<std::string>(*twice);
}

/// "GGUF" and the version; the counts follow.
std::uint32_t read_version(HeaderCursor& cursor) {
  const std::uint32_t magic = number32(cursor, "the magic \"GGUF\"");
  if (!cursor.failed() && magic != 0x46554747) {  // "GGUF"
    cursor.fail(0, "another magic", "\"GGUF\"", "check that this is a GGUF file");
  }
  const std::uint32_t version = number32(cursor, "the version");
  if (!cursor.failed() && version != 2 && version != 3) {
    const bool swapped = version == 0x02000000 || version == 0x03000000;
    cursor.fail(4, swapped ? "a big-endian file" : "version " + std::to_string(version),
                "version 2 or 3, little endian",
                swapped ? "" : "convert the file with a current llama.cpp");
  }
  return version;
}

/// Bytes that an entry keeps in memory.
std::uint64_t kept_bytes(const GgufEntry& entry) {
  std::uint64_t bytes = entry.key.size();
  if (const auto* const text = std::get_if<std::string>(&entry.value)) {
    bytes += text->size();
  } else if (const auto* const array = std::get_if<GgufArray>(&entry.value)) {
    bytes += array->numbers.size() * sizeof(double);
  }
  return bytes;
}

/// A count of the header; more than `most` are refused before the first is read.
std::uint64_t read_count(HeaderCursor& cursor, std::int64_t least, std::uint64_t most,
                         const char* what) {
  const std::int64_t at = cursor.offset();
  const std::uint64_t count = cursor.count(least, what);
  if (!cursor.failed() && count > most) {
    cursor.fail(at, std::to_string(count) + " " + what, "at most " + std::to_string(most));
  }
  return count;
}

void read_metadata(HeaderCursor& cursor, std::uint64_t count, GgufFile& gguf) {
  const std::int64_t at = cursor.offset();
  std::uint64_t kept = 0;
  for (std::uint64_t i = 0; i < count && !cursor.failed(); ++i) {
    const std::int64_t key_at = cursor.offset();
    std::string key = cursor.text(kKeyLimit, "a key");
    GgufValue value = read_value(cursor, key);
    gguf.metadata.push_back({std::move(key), std::move(value)});
    kept += kept_bytes(gguf.metadata.back());
    if (kept > kMostKept && !cursor.failed()) {
      cursor.fail(key_at, "more than 16 MiB of keys, texts and short arrays",
                  "a header that describes a model");
    }
  }
  std::vector<std::string_view> keys;
  keys.reserve(gguf.metadata.size());
  for (const GgufEntry& entry : gguf.metadata) {
    keys.emplace_back(entry.key);
  }
  if (const auto twice = find_twice(std::move(keys)); twice && !cursor.failed()) {
    cursor.fail(at, "the key " + *twice + " twice", "each key once");
  }
}

std::vector<GgufTensor> read_tensors(HeaderCursor& cursor, std::uint64_t count,
                                     const std::string& file) {
  const std::int64_t at = cursor.offset();
  std::vector<GgufTensor> tensors;
  for (std::uint64_t i = 0; i < count && !cursor.failed(); ++i) {
    tensors.push_back(read_tensor(cursor, file));
  }
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const GgufTensor& tensor : tensors) {
    names.emplace_back(tensor.entry.name);
  }
  if (const auto twice = find_twice(std::move(names)); twice && !cursor.failed()) {
    cursor.fail(at, "the tensor " + *twice + " twice", "each tensor once");
  }
  return tensors;
}

std::int64_t read_alignment(HeaderCursor& cursor, const GgufFile& gguf) {
  if (gguf.find("general.alignment") == nullptr) {
    return kDefaultAlignment;
  }
  const std::int64_t alignment = gguf.integer("general.alignment").value_or(0);
  if (alignment < 1 || alignment > kGiB ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
    cursor.fail(0, "a general.alignment of " + std::to_string(alignment), "a power of two");
    return kDefaultAlignment;
  }
  return alignment;
}

}  // namespace

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = std::find_if(metadata.begin(), metadata.end(),
                                  [key](const GgufEntry& entry) { return entry.key == key; });
  return found == metadata.end() ? nullptr : &found->value;
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  const std::int64_t* number = value != nullptr ? std::get_if<std::int64_t>(value) : nullptr;
  return number != nullptr ? std::optional<std::int64_t>(*number) : std::nullopt;
}

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const GgufValue* value = find(key);
  const std::string* words = value != nullptr ? std::get_if<std::string>(value) : nullptr;
  return words != nullptr ? std::optional<std::string>(*words) : std::nullopt;
}

const TensorEntry* GgufFile::tensor(std::string_view name) const {
  const auto found = std::find_if(tensors.tensors.begin(), tensors.tensors.end(),
                                  [name](const TensorEntry& entry) { return entry.name == name; });
  return found == tensors.tensors.end() ? nullptr : &*found;
}

Result<GgufFile> read_gguf(const std::string& path) {
  Result<HeaderFile> file = HeaderFile::open(path);
  if (!file) {
    return file.error();
  }
  HeaderCursor cursor(file.value());
  GgufFile gguf;
  gguf.path = path;
  gguf.version = read_version(cursor);
  const std::uint64_t tensor_count = read_count(cursor, kLeastTensor, kMostTensors, "tensors");
  const std::uint64_t key_count = read_count(cursor, kLeastKeyValue, kMostKeys, "keys");
  read_metadata(cursor, key_count, gguf);
  std::vector<GgufTensor> tensors =
      read_tensors(cursor, tensor_count, std::filesystem::path(path).filename().string());
  const std::int64_t alignment = cursor.failed() ? 1 : read_alignment(cursor, gguf);
  // In a file without tensors, the header may end the file without padding.
  gguf.data_begin = std::min(align_up(cursor.offset(), alignment), file->size());
  const std::int64_t end = cursor.failed() ? 0 : check_layout(cursor, tensors, alignment);
  if (cursor.failed()) {
    return cursor.error();
  }
  if (const std::int64_t held = file->size() - gguf.data_begin; end > held) {
    gguf.tensors.notes.push_back(cut_off_note(path, held, end));
  }
  gguf.tensors.format = WeightFormat::kGguf;
  for (GgufTensor& tensor : tensors) {
    gguf.tensors.tensors.push_back(std::move(tensor.entry));
  }
  return gguf;
}

namespace {

constexpr std::string_view kFirstPart = "-00001-of-";
constexpr std::int64_t kMostParts = 99'999;  // Five digits in the name.

/// "00002"
std::string five_digits(std::int64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
}

/// Appends the tensors of part `number` of `count`, whose first part is `first`.
std::optional<Error> append_part(GgufFile& whole, const std::string& first, std::int64_t number) {
  std::string path = first;
  path.replace(first.rfind(kFirstPart) + 1, 5, five_digits(number));
  Result<GgufFile> part = read_gguf(path);
  if (!part) {
    return std::move(part).error().with_note("a part of " + first);
  }
  std::move(part->tensors.tensors.begin(), part->tensors.tensors.end(),
            std::back_inserter(whole.tensors.tensors));
  std::move(part->tensors.notes.begin(), part->tensors.notes.end(),
            std::back_inserter(whole.tensors.notes));
  return std::nullopt;
}

}  // namespace

Result<GgufFile> read_gguf_parts(const std::string& path) {
  Result<GgufFile> file = read_gguf(path);
  const std::int64_t parts = file ? file->integer("split.count").value_or(1) : 1;
  if (parts <= 1 || parts > kMostParts || path.rfind(kFirstPart) == std::string::npos) {
    return file;
  }
  for (std::int64_t number = 2; number <= parts; ++number) {
    if (auto error = append_part(file.value(), path, number)) {
      return *error;
    }
  }
  std::vector<std::string_view> names;
  for (const TensorEntry& tensor : file->tensors.tensors) {
    names.emplace_back(tensor.name);
  }
  const std::int64_t count = static_cast<std::int64_t>(names.size());
  if (const auto stated = file->integer("split.tensors.count"); stated && *stated != count) {
    return Error::invalid_input(path, "split.tensors.count", std::to_string(*stated),
                                std::to_string(count) + ", which the parts have together",
                                "use the parts of one model");
  }
  if (const auto twice = find_twice(std::move(names))) {
    return Error::invalid_input(path, "/" + *twice, "in two parts", "each tensor in one part",
                                "use the parts of one model");
  }
  std::erase_if(file->metadata, [](const GgufEntry& entry) { return entry.key == "split.count"; });
  return file;
}

}  // namespace headroom::ir
