#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

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
    list.notes.insert(list.notes.end(), part->notes.begin(), part->notes.end());
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

/// The parts of "model-00002-of-00005.safetensors".
struct ShardName {
  std::string stem;
  std::int64_t index = 0;
  std::int64_t count = 0;
};

std::optional<ShardName> parse_shard_name(const std::string& name) {
  constexpr std::string_view kEnding = ".safetensors";
  constexpr std::string_view kPattern = "-NNNNN-of-NNNNN";
  constexpr std::size_t kCountAt = 10;
  if (!name.ends_with(kEnding) || name.size() <= kEnding.size() + kPattern.size()) {
    return std::nullopt;
  }
  const std::size_t begin = name.size() - kEnding.size() - kPattern.size();
  ShardName shard{.stem = name.substr(0, begin)};
  for (std::size_t at = 0; at < kPattern.size(); ++at) {
    const char letter = name[begin + at];
    if (kPattern[at] != 'N') {
      if (letter != kPattern[at]) {
        return std::nullopt;
      }
      continue;
    }
    if (letter < '0' || letter > '9') {
      return std::nullopt;
    }
    std::int64_t& number = at < kCountAt ? shard.index : shard.count;
    number = 10 * number + (letter - '0');
  }
  return shard;
}

/// The names of the shards of one set, by number; empty if the folder has none.
Result<std::vector<std::string>> shards_in(const std::string& folder) {
  std::map<std::string, std::map<std::int64_t, std::string>> sets;
  std::map<std::string, std::int64_t> counts;
  std::error_code fault;
  std::filesystem::directory_iterator files(folder, fault);
  for (; !fault && files != std::filesystem::directory_iterator(); files.increment(fault)) {
    const std::string name = files->path().filename().string();
    if (const auto shard = parse_shard_name(name)) {
      sets[shard->stem].emplace(shard->index, name);
      counts[shard->stem] = std::max(counts[shard->stem], shard->count);
    }
  }
  if (fault || sets.empty()) {
    return Error::environment(folder, fault ? fault.message() : "no safetensors files",
                              "model.safetensors, or model-00001-of-0000N.safetensors and so on");
  }
  const auto& [stem, shards] = sets.contains("model") ? *sets.find("model") : *sets.begin();
  std::vector<std::string> names;
  for (const auto& [index, name] : shards) {
    if (index != static_cast<std::int64_t>(names.size()) + 1) {
      break;
    }
    names.push_back(name);
  }
  if (static_cast<std::int64_t>(names.size()) != counts[stem] || names.size() != shards.size()) {
    return Error::invalid_input(folder, "", std::to_string(shards.size()) + " shards of " + stem,
                                std::to_string(counts[stem]) + " shards; number " +
                                    std::to_string(names.size() + 1) +
                                    " is missing or one too many",
                                "download the missing shards; their first megabytes are enough");
  }
  return names;
}

}  // namespace

Result<TensorList> read_safetensors_shards(const std::string& folder) {
  const Result<std::vector<std::string>> names = shards_in(folder);
  if (!names) {
    return names.error();
  }
  TensorList list;
  std::map<std::string, std::string> seen;
  for (const std::string& name : *names) {
    Result<TensorList> part = read_safetensors((std::filesystem::path(folder) / name).string());
    if (!part) {
      return std::move(part).error();
    }
    for (TensorEntry& tensor : part->tensors) {
      const auto [entry, fresh] = seen.emplace(tensor.name, name);
      if (!fresh) {
        return Error::invalid_input(folder, "/" + tensor.name,
                                    "in " + entry->second + " and " + name,
                                    "each tensor in one shard", "use shards of one checkpoint");
      }
      list.tensors.push_back(std::move(tensor));
    }
    list.notes.insert(list.notes.end(), part->notes.begin(), part->notes.end());
  }
  return list;
}

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
