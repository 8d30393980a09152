#include "cli/commands/verbs.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "cli/model_argument.h"
#include "cli/option_page.h"
#include "cli/option_text.h"
#include "cli/scalars.h"
#include "costmodel/hardware/catalogue.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/family.h"
#include "model_ir/spec/model_catalogue.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/recorded_family/recorded_families.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;

/// One entry: the text that `--filter` searches, its cells and its JSON form.
struct Row {
  std::string haystack;
  std::vector<std::string> cells;
  JsonValue json;
};

struct Table {
  std::vector<std::string> titles;
  std::vector<Row> rows;
};

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string lines_of(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    all += text + '\n';
  }
  return all;
}

/// "8.03 B": a count in units of 10^9, three digits.
std::string count_text(std::int64_t count) {
  return figure_in(static_cast<double>(count), {.size = 1e9, .name = "B"}) + " B";
}

constexpr TableUnit kGibibytes{.size = static_cast<double>(kGiB), .name = "GiB"};

Row model_row(const ir::ModelEntry& entry) {
  const ir::ModelSpec& spec = entry.spec;
  JsonFields fields;
  fields.add("name", entry.name);
  fields.add("aliases", ir::json_texts(entry.aliases));
  fields.add("hf_id", entry.hf_id);
  fields.add("family", name_of(spec.family));
  fields.add("parameters", entry.parameters);
  fields.add("active_parameters", ir::count_parameters(spec).active());
  fields.add("layers", spec.layers.size());
  fields.add("hidden", spec.hidden);
  fields.add("heads", spec.heads);
  fields.add("kv_heads", spec.kv_heads);
  fields.add("vocabulary", spec.vocabulary);
  fields.add("max_positions", spec.max_positions);
  fields.add("checkpoint_dtype", ir::name_of(spec.checkpoint_dtype));
  fields.add("config_source", entry.config_source);
  fields.add("parameters_source", entry.parameters_source);
  return {.haystack = lines_of({entry.name, entry.hf_id, std::string(name_of(spec.family)),
                                lines_of(entry.aliases)}),
          .cells = {entry.name, std::string(name_of(spec.family)), count_text(entry.parameters),
                    std::to_string(spec.layers.size()), std::to_string(spec.hidden),
                    table_figure(Bytes{2 * entry.parameters}, kGibibytes)},
          .json = std::move(fields).finish()};
}

Row device_row(const cost::DeviceSpec& device) {
  const DeviceTraits& traits = device.traits;
  const std::string capability =
      std::to_string(traits.compute_major) + "." + std::to_string(traits.compute_minor);
  JsonFields fields;
  fields.add("name", device.name);
  fields.add("product", device.product);
  fields.add("vendor", device.vendor);
  fields.add("architecture", device.architecture);
  fields.add("aliases", ir::json_texts(device.aliases));
  fields.add("total_bytes", device.total);
  fields.add("total_basis", device.total_basis);
  fields.add("total_source", device.total_source);
  fields.add("compute_capability", capability);
  fields.add("multiprocessors", traits.multiprocessors);
  fields.add("memory_bandwidth_bytes_per_second", device.memory_bandwidth.value());
  fields.add("fp32_flops_per_second", device.fp32.value());
  fields.add("half_flops_per_second", device.half ? JsonValue{device.half->value()} : JsonValue{});
  fields.add("bf16", device.bf16);
  fields.add("peer_link", device.link);
  if (!device.peer_access) {
    fields.add("peer_access", false);
  }
  fields.add("host_link", device.host_link);
  fields.add("power_watts", device.power_watts);
  return {.haystack = lines_of({device.name, device.product, device.vendor, device.architecture,
                                lines_of(device.aliases)}),
          .cells = {device.name, device.product, table_figure(device.total, kGibibytes), capability,
                    decimal_text(device.memory_bandwidth.value() / 1e9, 0) + " GB/s"},
          .json = std::move(fields).finish()};
}

Row node_row(const cost::NodeSpec& node) {
  JsonFields fields;
  fields.add("name", node.name);
  fields.add("title", node.title);
  fields.add("gpu", node.device);
  fields.add("gpus", node.devices);
  fields.add("intra_link", node.intra_link);
  fields.add("inter_link", node.inter_link);
  fields.add("adapters_per_gpu", node.adapters_per_device);
  fields.add("host_memory_bytes",
             node.host_memory ? JsonValue{node.host_memory->value()} : JsonValue{});
  fields.add("gpus_per_host", node.devices_per_host.value_or(node.devices));
  fields.add("cpu_cores", node.cpu_cores ? JsonValue{std::int64_t{*node.cpu_cores}} : JsonValue{});
  fields.add("host_memory_bytes_per_second", node.host_memory_bandwidth
                                                 ? JsonValue{node.host_memory_bandwidth->value()}
                                                 : JsonValue{});
  fields.add("nvme_bytes", node.nvme ? JsonValue{node.nvme->value()} : JsonValue{});
  fields.add("nvme_bytes_per_second",
             node.nvme_rate ? JsonValue{node.nvme_rate->value()} : JsonValue{});
  return {.haystack = lines_of({node.name, node.title, node.device}),
          .cells = {node.name, node.title, std::to_string(node.devices) + " x " + node.device,
                    node.intra_link},
          .json = std::move(fields).finish()};
}

Row link_row(const cost::LinkSpec& link) {
  JsonFields fields;
  fields.add("name", link.name);
  fields.add("title", link.title);
  fields.add("peak_bytes_per_second", link.peak.value());
  fields.add("bandwidth_bytes_per_second", link.bandwidth.value());
  fields.add("latency_seconds", link.latency.value());
  return {.haystack = lines_of({link.name, link.title}),
          .cells = {link.name, link.title, three_digits(link.peak.value() / 1e9) + " GB/s",
                    three_digits(link.bandwidth.value() / 1e9) + " GB/s"},
          .json = std::move(fields).finish()};
}

JsonValue option_json(const ListedOption& option) {
  const ir::OptionField& field = *option.field;
  JsonFields fields;
  fields.add("part", option.part->name);
  fields.add("name", field.name);
  fields.add("option", field.option);
  fields.add("key", field.in_spec ? plain_key(field.key) : std::string());
  fields.add("framework_name", field.own.name);
  fields.add("values", values_of(field));
  fields.add("default", default_of(option));
  fields.add("unit", field.unit);
  fields.add("changes", effect_of(field));
  fields.add("searched", field.searched);
  fields.add("help", field.help);
  return std::move(fields).finish();
}

/// Returns the text that `--filter` searches.
std::string haystack_of(const ListedOption& option) {
  const ir::OptionField& field = *option.field;
  const std::string typed = "--" + std::string(field.option) + " " + plain_key(field.key);
  return lines_of({std::string(option.part->name), std::string(field.name), typed,
                   std::string(field.own.name), std::string(field.help)});
}

Row family_row(const ir::RecordedFamily& family) {
  const bool recorded = family.forms > 0;
  const std::string frameworks = recorded ? "transformers, fsdp, deepspeed" : "all";
  JsonFields fields;
  fields.add("model_type", family.type);
  fields.add("recordings", family.forms);
  fields.add("frameworks", frameworks);
  fields.add("other_heads", JsonValue{JsonValue::Array(family.heads.begin(), family.heads.end())});
  return {.haystack = family.type,
          .cells = {family.type, recorded ? "recorded code" : "operators", frameworks,
                    recorded ? std::to_string(family.forms) : "",
                    recorded ? std::to_string(1 + family.heads.size()) : ""},
          .json = std::move(fields).finish()};
}

/// Every `model_type` whose config.json is answered.
Result<Table> families_table(const std::string& folder) {
  const Result<std::vector<ir::RecordedFamily>> recorded =
      ir::recorded_families(folder + "/" + std::string(ir::kFamilyFolder));
  if (!recorded) {
    return recorded.error();
  }
  Table table{.titles = {"model_type", "known by", "frameworks", "recordings", "heads"},
              .rows = {}};
  for (const std::string& type : ir::family_names()) {
    table.rows.push_back(family_row({.type = type}));
  }
  table.rows.push_back(family_row({.type = std::string(ir::kMultimodalGemma3)}));
  for (const ir::RecordedFamily& family : *recorded) {
    table.rows.push_back(family_row(family));
  }
  std::ranges::sort(table.rows, {}, &Row::haystack);
  return table;
}

template <typename Entry>
Result<Table> table_of(Result<std::vector<Entry>> entries, std::vector<std::string> titles,
                       Row (*row)(const Entry&)) {
  if (!entries) {
    return std::move(entries).error();
  }
  Table table{.titles = std::move(titles), .rows = {}};
  for (const Entry& entry : *entries) {
    table.rows.push_back(row(entry));
  }
  return table;
}

Result<Table> read_table(const std::string& kind, const std::string& folder) {
  if (kind == "models") {
    return table_of(ir::list_models(folder + "/models"),
                    {"model", "family", "parameters", "layers", "hidden", "in bf16"}, model_row);
  }
  if (kind == "families") {
    return families_table(folder);
  }
  if (kind == "gpus") {
    return table_of(cost::list_devices(folder), {"gpu", "product", "usable", "cc", "bandwidth"},
                    device_row);
  }
  if (kind == "nodes") {
    return table_of(cost::list_nodes(folder), {"node", "machine", "gpus", "link"}, node_row);
  }
  if (kind == "links") {
    return table_of(cost::list_links(folder), {"link", "what", "peak", "achieved"}, link_row);
  }
  const std::vector<std::string> known = {"models", "families", "gpus",
                                          "nodes",  "links",    "options"};
  return Error::invalid_argument("KIND", kind.empty() ? "nothing" : kind,
                                 "one of " + ir::join(known), ir::suggestion(kind, known));
}

/// Shortens `text` to `width` columns, so that each row of a table is one line.
std::string shortened(const std::string& text, std::size_t width) {
  return columns_of(text) <= width ? text : text.substr(0, width - 2) + "..";
}

/// The widths of the columns: each is as wide as its widest cell. If the total is too wide, the
/// widest column is shortened, because it contains text.
std::vector<std::size_t> widths_of(const Table& table, std::size_t room) {
  std::vector<std::size_t> widths;
  for (const std::string& title : table.titles) {
    widths.push_back(columns_of(title));
  }
  for (const Row& row : table.rows) {
    for (std::size_t column = 0; column < widths.size(); ++column) {
      widths[column] = std::max(widths[column], columns_of(row.cells[column]));
    }
  }
  std::size_t total = 2 * (widths.size() - 1);
  for (const std::size_t width : widths) {
    total += width;
  }
  const auto widest = std::max_element(widths.begin(), widths.end());
  constexpr std::size_t kLeastText = 12;
  if (total > room && *widest > kLeastText) {
    *widest -= std::min(total - room, *widest - kLeastText);
  }
  return widths;
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t column = 0; column < cells.size(); ++column) {
    const std::string cell = shortened(cells[column], widths[column]);
    const bool number = column > 0 && !cell.empty() && std::isdigit(cell[0]) != 0;
    line += (column == 0 ? "" : "  ") +
            (number ? pad_left(cell, widths[column]) : pad_right(cell, widths[column]));
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string table_text(const Table& table, const Terminal& terminal) {
  const std::vector<std::size_t> widths = widths_of(table, terminal.width);
  std::string text = styled(terminal, Style::kStrong, line_of(table.titles, widths));
  for (const Row& row : table.rows) {
    text += line_of(row.cells, widths);
  }
  return text;
}

std::string table_json(Table table, const std::string& kind, const ConfigDir& folder) {
  JsonValue::Array entries;
  for (Row& row : table.rows) {
    entries.push_back(std::move(row.json));
  }
  JsonFields fields;
  fields.add("schema_version", 1);
  fields.add("config_dir", folder.path);
  fields.add("config_dir_origin", folder.origin);
  fields.add(kind, JsonValue{std::move(entries)});
  return to_pretty_json(std::move(fields).finish()) + "\n";
}

/// Lists the options of plans. They are part of the program, and their texts do not fit into a
/// table.
ExitCode list_options(const Arguments& arguments, const Context& context) {
  if (arguments.has("markdown")) {
    context.out << options_page();
    return ExitCode::kYes;
  }
  const std::string wanted = lower_case(arguments.value("filter").value_or(""));
  std::vector<ListedOption> options = listed_options();
  std::erase_if(options, [&](const ListedOption& option) {
    return lower_case(haystack_of(option)).find(wanted) == std::string::npos;
  });
  if (!context.json) {
    context.out << options_list(options, context.terminal) << "\n"
                << options.size() << " options\n";
    return ExitCode::kYes;
  }
  JsonValue::Array entries;
  for (const ListedOption& option : options) {
    entries.push_back(option_json(option));
  }
  JsonFields fields;
  fields.add("schema_version", 1);
  fields.add("options", JsonValue{std::move(entries)});
  context.out << to_pretty_json(std::move(fields).finish()) << "\n";
  return ExitCode::kYes;
}

Result<ExitCode> run_catalog(const Arguments& arguments, const Context& context) {
  const std::vector<std::string>& given = arguments.positionals();
  if (given.size() > 1) {
    return Error::invalid_argument("KIND", "'" + ir::join(given) + "'",
                                   "one of models, families, gpus, nodes, links, options",
                                   "use --filter to look for a name");
  }
  const std::string kind = given.empty() ? "" : given[0];
  if (kind == "options") {
    return list_options(arguments, context);
  }
  const Result<ConfigDir> folder = config_dir_of(arguments);
  if (!folder) {
    return folder.error();
  }
  Result<Table> table = read_table(kind, folder->path);
  if (!table) {
    return std::move(table).error();
  }
  const std::string wanted = lower_case(arguments.value("filter").value_or(""));
  std::erase_if(table->rows, [&](const Row& row) {
    return lower_case(row.haystack).find(wanted) == std::string::npos;
  });
  if (context.json) {
    context.out << table_json(std::move(table).value(), kind, *folder);
    return ExitCode::kYes;
  }
  const std::size_t count = table->rows.size();
  context.out << table_text(*table, context.terminal) << "\n"
              << count << " " << kind << " from " << folder->path << " (" << folder->origin
              << ")\n";
  return ExitCode::kYes;
}

}  // namespace

Command catalog_command() {
  return {
      .verb = {.name = "catalog",
               .summary = "Lists the models, GPUs, nodes and links that are known by name, the "
                          "families of models, and all options of a plan",
               .positionals = "models|families|gpus|nodes|links|options",
               .detail =
                   "A config.json of another family is refused, and so is one whose code was not "
                   "recorded: the message names the key. "
                   "--filter looks for its text in names, aliases, families and vendors.",
               .options = {{"filter", "TEXT", "", "list only entries that contain this text"},
                           {"markdown", "", "",
                            "print the options as the Markdown page docs/options.md"}},
               .example = "catalog gpus --filter h100"},
      .run = run_catalog};
}

}  // namespace headroom::cli
