#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "model_ir/base/file.h"
#include "model_ir/spec/weights/header_file.h"
#include "model_ir/spec/weights/safetensors.h"

namespace headroom::ir {
namespace {

// DeepSeek-V3's index, with 91,991 tensors, has 9 MB.
constexpr std::int64_t kIndexLimit = 128 * kMiB;

/// tensor -> shard, and what the index states about itself.
struct Index {
  std::map<std::string, std::string> shard_of;
  std::set<std::string> shards;
  std::optional<Bytes> total;
};

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

Result<Index> parse_index(const std::string& text, const std::string& path) {
  Result<JsonValue> json = parse_json(text, path, kSafetensorsLimits);
  if (!json) {
    return std::move(json).error();
  }
  const JsonValue* map = json->find("weight_map");
  if (map == nullptr || map->as_object() == nullptr || map->as_object()->empty()) {
    return Error::invalid_input(path, "/weight_map", map == nullptr ? "nothing" : "no tensors",
                                "{tensor: file, ...}");
  }
  Index index;
  for (const JsonMember& member : *map->as_object()) {
    const std::string* shard = member.value.as_string();
    if (shard == nullptr || !is_plain_name(*shard)) {
      return Error::invalid_input(path, json_pointer({"weight_map", member.key}),
                                  to_json(member.value), "the name of a file beside the index");
    }
    index.shard_of.emplace(member.key, *shard);
    index.shards.insert(*shard);
  }
  const JsonValue* metadata = json->find("metadata");
  const JsonValue* total = metadata != nullptr ? metadata->find("total_size") : nullptr;
  if (total != nullptr && !total->is_null()) {
    const auto bytes = total->as_integer();
    if (!bytes || *bytes < 0) {
      return Error::invalid_input(path, "/metadata/total_size", to_json(*total),
                                  "a number of bytes");
    }
    index.total = Bytes{*bytes};
  }
  return index;
}

/// Compares the index with the contents of the shards.
std::optional<Error> check_against_shards(const std::string& path, const Index& index,
                                          const TensorList& list) {
  std::set<std::string> seen;
  for (const TensorEntry& tensor : list.tensors) {
    const auto entry = index.shard_of.find(tensor.name);
    if (entry == index.shard_of.end() || entry->second != tensor.file) {
      return Error::invalid_input(path, json_pointer({"weight_map", tensor.name}),
                                  entry == index.shard_of.end() ? "nothing" : entry->second,
                                  tensor.file + ", which holds it",
                                  "use index and shards of one checkpoint");
    }
    seen.insert(tensor.name);
  }
  for (const auto& [name, shard] : index.shard_of) {
    if (!seen.contains(name)) {
      return Error::invalid_input(path, json_pointer({"weight_map", name}), shard,
                                  "a file that holds the tensor; this one does not",
                                  "use index and shards of one checkpoint");
    }
  }
  return std::nullopt;
}

Result<TensorList> read_shards(const std::string& path, const Index& index) {
  TensorList list;
  for (const std::string& shard : index.shards) {
    const std::filesystem::path beside = std::filesystem::path(path).parent_path() / shard;
    Result<TensorList> part = read_safetensors(beside.string());
    if (!part) {
      return std::move(part).error().with_note("a shard of " + path);
    }
    std::move(part->tensors.begin(), part->tensors.end(), std::back_inserter(list.tensors));
  }
  list.stated_total = index.total;
  if (auto error = check_against_shards(path, index, list)) {
    return *error;
  }
  if (index.total && *index.total != total_bytes(list)) {
    list.notes.push_back("the index states " + std::to_string(index.total->value()) +
                         " bytes, its shards hold " + std::to_string(total_bytes(list).value()));
  }
  return list;
}

}  // namespace

Result<TensorList> read_safetensors_index(const std::string& path) {
  const Result<std::string> text = read_file(path, kIndexLimit);
  if (!text) {
    return text.error();
  }
  const Result<Index> index = parse_index(text.value(), path);
  if (!index) {
    return index.error();
  }
  std::size_t present = 0;
  for (const std::string& shard : index->shards) {
    std::error_code ignored;
    const std::filesystem::path beside = std::filesystem::path(path).parent_path() / shard;
    present += std::filesystem::exists(beside, ignored) ? std::size_t{1} : std::size_t{0};
  }
  if (present == index->shards.size()) {
    return read_shards(path, index.value());
  }
  TensorList list;
  list.has_shapes = false;
  list.stated_total = index->total;
  for (const auto& [name, shard] : index->shard_of) {
    list.tensors.push_back(TensorEntry{
        .name = name, .type = {}, .shape = {}, .elements = 0, .bytes = {}, .file = shard});
  }
  list.notes.push_back(std::to_string(present) + " of " + std::to_string(index->shards.size()) +
                       " shards lie beside the index: names only, no types and shapes");
  return list;
}

}  // namespace headroom::ir
