#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/hardware/catalogue_files.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "tests/support/configs.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cost {
namespace {

using test::kConfigs;

Bytes mebibytes(std::int64_t count) {
  return count * Bytes{kMiB};
}

std::string file_text(const std::string& path) {
  const Result<std::string> text = read_file(path);
  REQUIRE(text);
  return *text;
}

ir::JsonValue json_file(const std::string& path) {
  Result<ir::JsonValue> value = ir::parse_json(file_text(path), path);
  REQUIRE(value);
  return std::move(value).value();
}

std::set<std::string> keys_of(const ir::JsonValue* object) {
  REQUIRE(object != nullptr);
  REQUIRE(object->as_object() != nullptr);
  std::set<std::string> keys;
  for (const ir::JsonMember& member : *object->as_object()) {
    keys.insert(member.key);
  }
  return keys;
}

struct EntryChange {
  std::string from;
  std::string to;
};

/// The text of the entry a100-80gb with one passage replaced.
std::string entry_with(const EntryChange& change) {
  std::string text = file_text(kConfigs + "/hardware/a100-80gb.json");
  const std::size_t at = text.find(change.from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, change.from.size(), change.to);
}

/// The fault that a changed entry is refused for.
Error fault_of(const std::string& text) {
  const test::TemporaryFolder folder;
  const Result<DeviceSpec> device = read_device(folder.write("a100-80gb.json", text));
  REQUIRE_FALSE(device);
  return device.error();
}

}  // namespace

TEST_CASE(
    "hardware catalogue: at least 35 GPUs, every one readable and with a source for each figure") {
  // A figure without a source is an error of the reader, so that a readable entry has them all.
  const auto devices = list_devices(kConfigs);
  REQUIRE(devices);
  CHECK(devices->size() >= 35);
  for (const DeviceSpec& device : *devices) {
    CAPTURE(device.name);
    CHECK(device.total_source.size() > 20);
  }
}

TEST_CASE("hardware catalogue: totals are what processes were told, not what the box says") {
  // Each number is printed by a program on that GPU (see the entry's sources): MiB from PyTorch's
  // device properties, bytes from the driver.
  const std::map<std::string, Bytes> printed = {
      {"a100-80gb", mebibytes(81'038)},       {"a40", mebibytes(45'416)},
      {"h200", Bytes{150'109'880'320}},       {"b200", mebibytes(182'631)},
      {"rtx-4090", mebibytes(24'081)},        {"mi300x", Bytes{206'141'652'992}},
      {"gh200-144gb", Bytes{153'008'209'920}}};
  for (const auto& entry : printed) {
    CAPTURE(entry.first);
    const auto device = load_device(kConfigs, entry.first);
    REQUIRE(device);
    CHECK(device->total == entry.second);
    CHECK(device->total_basis == "measured");
  }
}

TEST_CASE("hardware catalogue: a total lies below the driver's and near the nominal size") {
  const auto devices = list_devices(kConfigs);
  REQUIRE(devices);
  for (const DeviceSpec& device : *devices) {
    CAPTURE(device.name);
    const double share =
        static_cast<double>(device.total.value()) / static_cast<double>(device.nominal.value());
    CHECK(share > 0.92);    // Firmware and page tables never take more than that.
    CHECK(share < 1.0738);  // "80 GB" on the box may mean 80 GiB of memory: 2^30 / 10^9.
    if (device.driver_total) {
      CHECK(device.total <= *device.driver_total);
      CHECK(*device.driver_total - device.total < mebibytes(1'536));
    }
  }
}

TEST_CASE("hardware catalogue: rates grow as precision falls") {
  const auto devices = list_devices(kConfigs);
  REQUIRE(devices);
  for (const DeviceSpec& device : *devices) {
    CAPTURE(device.name);
    REQUIRE(device.half);
    CHECK(*device.half > device.fp32);
    if (device.tf32) {
      CHECK(*device.tf32 >= device.fp32);
      CHECK(*device.half > *device.tf32);
    }
    if (device.fp8) {
      CHECK(*device.fp8 >= *device.half);
    }
    if (device.fp4) {
      CHECK(*device.fp4 > device.fp8.value());
    }
    CHECK(device.bf16 == (device.architecture != "volta" && device.architecture != "turing"));
  }
}

TEST_CASE("load_device: a GPU answers to its aliases and to the driver's name") {
  for (const char* name : {"h100", "H100-80GB", "h100_80gb", "NVIDIA H100 80GB HBM3", "h100-sxm"}) {
    CAPTURE(name);
    const auto device = load_device(kConfigs, name);
    REQUIRE(device);
    CHECK(device->name == "h100-80gb");
  }
  CHECK(load_device(kConfigs, "NVIDIA GeForce RTX 4090")->name == "rtx-4090");
  CHECK(load_device(kConfigs, "Tesla T4")->name == "t4");
  CHECK(load_device(kConfigs, "AMD Instinct MI300X")->name == "mi300x");
}

TEST_CASE("load_device: an unknown GPU is refused with the closest names") {
  const auto device = load_device(kConfigs, "h10O-80gb");
  REQUIRE_FALSE(device);
  CHECK(device.error().code == ErrorCode::kInvalidArgument);
  CHECK(device.error().got == "h10O-80gb");
  CHECK(device.error().fix.find("h100-80gb") != std::string::npos);
  for (const char* name : {"", ".", "..", "../models/llama-3.1-8b", "aliases", "a100-80gb/x"}) {
    CAPTURE(name);
    const auto none = load_device(kConfigs, name);
    REQUIRE_FALSE(none);
    CHECK(none.error().code == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("load_device: opens the file it is asked for and no other") {
  const test::TemporaryFolder folder;
  folder.write("hardware/a100-80gb.json", file_text(kConfigs + "/hardware/a100-80gb.json"));
  folder.write("hardware/broken.json", "{");
  folder.write("hardware/aliases.json", "{");
  CHECK(load_device(folder.path(), "a100-80gb"));
  CHECK_FALSE(load_device(folder.path(), "broken"));
  CHECK_FALSE(list_devices(folder.path()));
}

TEST_CASE("load_device: a path that ends in .json is a file of one's own") {
  const auto device = load_device("/nowhere", kConfigs + "/hardware/l4.json");
  REQUIRE(device);
  CHECK(device->name == "l4");
  const auto missing = load_device(kConfigs, "./no-such.json");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kEnvironment);
}

TEST_CASE("read_device: a faulty entry names the field and what it should be") {
  const Error no_source =
      fault_of(entry_with({R"("value": 108, "source": "tpu")", R"("value": 108)"}));
  CHECK(no_source.pointer == "/multiprocessors/source");
  const Error wrong_source = fault_of(
      entry_with({R"("value": 108, "source": "tpu")", R"("value": 108, "source": "hearsay")"}));
  CHECK(wrong_source.pointer == "/multiprocessors/source");
  CHECK(wrong_source.got.find("hearsay") != std::string::npos);
  const Error bare = fault_of(entry_with({R"({"value": 108, "source": "tpu"})", "108"}));
  CHECK(bare.pointer == "/multiprocessors");
  const Error missing = fault_of(entry_with({"power_watts", "power_wats"}));
  CHECK(missing.pointer == "/power_watts");
  CHECK(missing.fix.find("power_wats") != std::string::npos);
  const Error unknown = fault_of(entry_with({R"("vendor")", R"("colour": 1, "vendor")"}));
  CHECK(unknown.pointer == "/colour");
  const Error nominal = fault_of(entry_with({"84974501888", "95899345920"}));
  CHECK(nominal.pointer == "/total_bytes");
  CHECK(nominal.wanted.find("driver_total_bytes") != std::string::npos);
  for (const char* value : {"0", "-1", "1.5", "9223372036854775807", "\"80GB\"", "null"}) {
    CAPTURE(value);
    CHECK(fault_of(entry_with({"84974501888", value})).pointer == "/total_bytes/value");
  }
  for (const char* value : {"\"9\"", "\"9.\"", "\"9.0a\"", "\"\""}) {
    CAPTURE(value);
    CHECK(fault_of(entry_with({"\"8.0\"", value})).pointer == "/compute_capability");
  }
}

TEST_CASE("hardware catalogue: an entry is called what its file is called") {
  const test::TemporaryFolder folder;
  folder.write("hardware/a100.json", file_text(kConfigs + "/hardware/a100-80gb.json"));
  const auto device = load_device(folder.path(), "a100");
  REQUIRE_FALSE(device);
  CHECK(device.error().pointer == "/name");
}

TEST_CASE("hardware catalogue: aliases.json says what the entries say") {
  const auto devices = list_devices(kConfigs);
  REQUIRE(devices);
  std::map<std::string, std::string> in_entries;
  for (const DeviceSpec& device : *devices) {
    for (const std::string& alias : device.aliases) {
      CAPTURE(alias);
      CHECK(in_entries.emplace(alias, device.name).second);  // No two GPUs share an alias.
      CHECK(std::none_of(devices->begin(), devices->end(),
                         [&alias](const DeviceSpec& other) { return other.name == alias; }));
    }
  }
  std::map<std::string, std::string> in_file;
  const ir::JsonValue aliases = json_file(kConfigs + "/hardware/aliases.json");
  for (const ir::JsonMember& member : *aliases.as_object()) {
    in_file.emplace(member.key, *member.value.as_string());
  }
  CHECK(in_file == in_entries);
}

TEST_CASE("hardware catalogue: every link and GPU that an entry names exists") {
  const auto devices = list_devices(kConfigs);
  const auto links = list_links(kConfigs);
  const auto nodes = list_nodes(kConfigs);
  REQUIRE(devices);
  REQUIRE(links);
  REQUIRE(nodes);
  CHECK(links->size() >= 15);
  CHECK(nodes->size() >= 15);
  for (const DeviceSpec& device : *devices) {
    CAPTURE(device.name);
    CHECK(load_link(kConfigs, device.link));
    CHECK(load_link(kConfigs, device.host_link));
  }
  for (const NodeSpec& node : *nodes) {
    CAPTURE(node.name);
    const auto device = load_device(kConfigs, node.device);
    REQUIRE(device);
    CHECK(device->name == node.device);
    CHECK(device->link == node.intra_link);
    CHECK(load_link(kConfigs, node.inter_link));
  }
}

TEST_CASE("hardware catalogue: links and nodes carry the vendors' figures") {
  // H100 SXM: 18 NVLink 4 links of 25 GB/s each way; a DGX H100 has 8 ports of 400 Gb/s.
  const auto link = load_link(kConfigs, "nvlink4");
  REQUIRE(link);
  CHECK(link->peak == BytesPerSecond{18 * 25e9});
  const auto node = load_node(kConfigs, "dgx-h100");
  REQUIRE(node);
  CHECK(node->devices == 8);
  const auto port = load_link(kConfigs, node->inter_link);
  REQUIRE(port);
  CHECK(port->peak == BytesPerSecond{400e9 / 8});
  CHECK(node->adapters_per_device == 1);
}

TEST_CASE("hardware schemas: require and allow exactly what the readers do") {
  const std::map<std::string, std::string> folders = {{"gpu", "/hardware/a100-80gb.json"},
                                                      {"link", "/networks/links/nvlink4.json"},
                                                      {"node", "/networks/nodes/dgx-h100.json"}};
  for (const auto& folder : folders) {
    CAPTURE(folder.first);
    const ir::JsonValue schema = json_file(kConfigs + "/schema/" + folder.first + ".schema.json");
    const ir::JsonValue entry = json_file(kConfigs + folder.second);
    const std::set<std::string> allowed = keys_of(schema.find("properties"));
    const std::set<std::string> present = keys_of(&entry);
    CHECK(std::includes(allowed.begin(), allowed.end(), present.begin(), present.end()));
    for (const ir::JsonValue& key : *schema.find("required")->as_array()) {
      CAPTURE(*key.as_string());
      CHECK(present.contains(*key.as_string()));
    }
  }
  // What the reader demands, the schema requires: drop a key and both refuse.
  const ir::JsonValue schema = json_file(kConfigs + "/schema/gpu.schema.json");
  for (const ir::JsonValue& key : *schema.find("required")->as_array()) {
    CAPTURE(*key.as_string());
    const std::string* const name = key.as_string();
    const Error fault = fault_of(entry_with({"\"" + *name + "\":", "\"gone\":"}));
    CHECK(fault.code == ErrorCode::kInvalidInput);
  }
}

TEST_CASE("catalogue: GeForce GPUs reach each other through the host, AMD's are ROCm devices") {
  const Result<std::vector<DeviceSpec>> devices = list_devices(kConfigs);
  REQUIRE(devices);
  for (const DeviceSpec& device : *devices) {
    CAPTURE(device.name);
    const bool geforce = device.product.find("GeForce") != std::string::npos;
    CHECK(device.peer_access == !geforce);
    CHECK(device.link.ends_with("-shm") == geforce);
    CHECK(device.traits.rocm == (device.vendor == "amd"));
  }
}

}  // namespace headroom::cost
