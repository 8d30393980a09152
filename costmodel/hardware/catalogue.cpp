#include "costmodel/hardware/catalogue.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "costmodel/hardware/catalogue_files.h"
#include "model_ir/base/file.h"
#include "model_ir/json/entry_folder.h"

namespace headroom::cost {
namespace {

ir::EntryFolder device_folder(const std::string& config_dir) {
  return {.path = config_dir + "/hardware", .kind = "gpu", .list_command = "headroom catalog gpus"};
}
ir::EntryFolder link_folder(const std::string& config_dir) {
  return {.path = config_dir + "/networks/links",
          .kind = "link",
          .list_command = "headroom catalog links"};
}
ir::EntryFolder node_folder(const std::string& config_dir) {
  return {.path = config_dir + "/networks/nodes",
          .kind = "node",
          .list_command = "headroom catalog nodes"};
}

/// The name as the catalogue spells names: "NVIDIA GeForce RTX_4090" -> "rtx-4090".
std::string catalogue_spelling(std::string_view name) {
  std::string spelt;
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool gap = c == ' ' || c == '_';
    spelt += upper ? static_cast<char>(c - 'A' + 'a') : (gap ? '-' : c);
  }
  constexpr std::array<std::string_view, 6> kMakers = {"nvidia-",  "amd-",   "intel-",
                                                       "geforce-", "tesla-", "instinct-"};
  for (const std::string_view maker : kMakers) {  // In the order in which product names have them.
    if (spelt.starts_with(maker)) {
      spelt.erase(0, maker.size());
    }
  }
  return spelt;
}

template <typename Spec>
using SpecReader = Result<Spec> (*)(const std::string& path);

/// Reads an entry. Its name must be its file's name, because entries are found by it.
template <typename Spec>
Result<Spec> read_entry(const ir::EntryFolder& folder, const std::string& entry,
                        SpecReader<Spec> read) {
  const std::string path = ir::entry_path(folder, entry);
  Result<Spec> spec = read(path);
  if (spec && spec->name != entry) {
    return Error::invalid_input(path, "/name", spec->name, "the name of the file, " + entry);
  }
  return spec;
}

template <typename Spec>
Result<Spec> load(const ir::EntryFolder& folder, const std::string& name, SpecReader<Spec> read) {
  if (name.ends_with(".json")) {
    return read(name);
  }
  Result<std::string> entry = ir::find_entry(folder, catalogue_spelling(name));
  if (!entry) {
    Error error = std::move(entry).error();
    if (error.code == ErrorCode::kInvalidArgument) {
      error.got = name;  // As the user wrote it.
    }
    return error;
  }
  return read_entry(folder, *entry, read);
}

/// All entries whose text contains `word`.
template <typename Spec>
Result<std::vector<Spec>> list(const ir::EntryFolder& folder, SpecReader<Spec> read,
                               std::string_view word = {}) {
  const Result<std::vector<std::string>> names = ir::entry_names(folder);
  if (!names) {
    return names.error();
  }
  std::vector<Spec> specs;
  for (const std::string& name : *names) {
    if (!word.empty()) {
      const Result<std::string> text = read_file(ir::entry_path(folder, name));
      if (text && text->find(word) == std::string::npos) {
        continue;
      }
    }
    Result<Spec> spec = read_entry(folder, name, read);
    if (!spec) {
      return std::move(spec).error();
    }
    specs.push_back(std::move(spec).value());
  }
  return specs;
}

}  // namespace

Result<DeviceSpec> load_device(const std::string& config_dir, const std::string& name) {
  return load<DeviceSpec>(device_folder(config_dir), name, read_device);
}
Result<LinkSpec> load_link(const std::string& config_dir, const std::string& name) {
  return load<LinkSpec>(link_folder(config_dir), name, read_link);
}
Result<NodeSpec> load_node(const std::string& config_dir, const std::string& name) {
  return load<NodeSpec>(node_folder(config_dir), name, read_node);
}

Result<std::vector<std::string>> device_names(const std::string& config_dir) {
  return ir::entry_names(device_folder(config_dir));
}
Result<std::vector<DeviceSpec>> list_devices(const std::string& config_dir) {
  return list<DeviceSpec>(device_folder(config_dir), read_device);
}
Result<std::vector<LinkSpec>> list_links(const std::string& config_dir) {
  return list<LinkSpec>(link_folder(config_dir), read_link);
}
Result<std::vector<NodeSpec>> list_nodes(const std::string& config_dir) {
  return list<NodeSpec>(node_folder(config_dir), read_node);
}
Result<std::vector<NodeSpec>> nodes_with(const std::string& config_dir, const std::string& device) {
  // Only files that name the device are parsed, because every answer looks for its node.
  Result<std::vector<NodeSpec>> found =
      list<NodeSpec>(node_folder(config_dir), read_node, '"' + device + '"');
  if (!found) {
    return found;
  }
  std::vector<NodeSpec> nodes = std::move(found).value();
  std::erase_if(nodes, [&device](const NodeSpec& node) { return node.device != device; });
  return nodes;
}

}  // namespace headroom::cost
