#include "cli/report/host_text.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "cli/scalars.h"
#include "model_ir/base/counted.h"

namespace headroom::cli {
namespace {

constexpr std::size_t kHostTermColumns = 28;
constexpr std::size_t kHostSizeColumns = 10;

/// Lines with one unit.
struct HostTable {
  TableUnit unit;
  [[nodiscard]] std::string line(std::string_view name, Bytes bytes,
                                 const std::string& remark) const {
    return "  " + pad_right(name, kHostTermColumns) +
           pad_left(table_figure(bytes, unit), kHostSizeColumns) +
           (remark.empty() ? "" : "  " + remark) + "\n";
  }
};

/// Whether the framework keeps anything on the host from step to step.
bool offloads(const cost::HostMemory& host) {
  return host.nvme > Bytes{0} || std::ranges::any_of(host.terms, [](const ir::HostTerm& term) {
           return term.span == ir::HostSpan::kTraining && !term.reclaimable &&
                  term.use != ir::HostUse::kDataLoaders;
         });
}

std::string term_remark(const ir::HostTerm& term) {
  std::string text = term.once ? "once on a node" : "per rank";
  if (term.pinned) {
    text += ", pinned";
    if (term.bytes > term.requested && term.requested > Bytes{0}) {
      text += " in powers of two (" + to_text(term.requested) + " asked for)";
    }
  }
  if (term.span == ir::HostSpan::kLoading || term.span == ir::HostSpan::kResuming ||
      term.span == ir::HostSpan::kSaving) {
    text += ", while " + std::string(name_of(term.span));
  }
  return text + (term.reclaimable ? ", not counted" : "");
}

std::string node_remark(const cost::DeviceSpec& device) {
  if (!device.host || !device.host->note.empty()) {
    return "assumed, for each GPU; --host-memory says what there is";
  }
  return device.host->node.empty() ? "--host-memory" : device.host->node;
}

std::string ranks_text(const cost::HostMemory& host) {
  return host.ranks == 1 ? "host memory" : "host memory of " + counted(host.ranks, "rank");
}

}  // namespace

bool shows_host(const cost::HostMemory& host) {
  constexpr double kMuch = 0.95;  // Less than `cost::kTightShare` to spare.
  return host.capacity && (offloads(host) || !host.fits() ||
                           static_cast<double>(host.bytes.value()) >
                               kMuch * static_cast<double>(host.capacity->value()));
}

std::string host_shortage(const cost::HostMemory& host) {
  if (host.capacity && host.bytes > *host.capacity) {
    return "the host needs " + to_text(host.bytes) + ", the node has " + to_text(*host.capacity);
  }
  if (host.nvme_capacity && host.nvme > *host.nvme_capacity) {
    return "the NVMe drives need " + to_text(host.nvme) + ", the node has " +
           to_text(*host.nvme_capacity);
  }
  return {};
}

std::string host_summary(const cost::HostMemory& host) {
  if (!shows_host(host)) {
    return {};
  }
  const TableUnit unit =
      unit_of_bytes(static_cast<double>(std::min(host.bytes, *host.capacity).value()));
  const auto figure = [&unit](Bytes bytes) {
    return figure_in(static_cast<double>(bytes.value()), unit);
  };
  return "host memory of one node (" + counted(host.ranks, "rank") + "): " + figure(host.bytes) +
         " of " + figure(*host.capacity) + " " + std::string(unit.name) + " while " +
         std::string(name_of(host.peak_span)) +
         (host.pinned > Bytes{0} ? ", " + to_text(host.pinned) + " of it pinned" : "") + "\n";
}

std::string host_lines(const cost::StepEstimate& estimate, const cost::DeviceSpec& device,
                       const Terminal& terminal) {
  const cost::HostMemory& host = estimate.host;
  const std::string when = "while " + std::string(name_of(host.peak_span));
  if (!shows_host(host)) {
    return {};
  }
  const HostTable table{unit_of_bytes(
      static_cast<double>(std::max({host.bytes, *host.capacity, host.nvme}).value()))};
  std::string text = heading(terminal, "against the host");
  std::vector<ir::HostTerm> terms = host.terms;
  std::ranges::stable_sort(terms, std::ranges::greater{}, &ir::HostTerm::bytes);
  for (const ir::HostTerm& term : terms) {
    text += table.line(name_of(term.use), term.bytes, term_remark(term));
  }
  const std::string pinned =
      host.pinned > Bytes{0} ? ", " + to_text(host.pinned) + " of it pinned" : "";
  text += table.line(ranks_text(host), host.bytes, when + pinned);
  text += table.line("of the node", *host.capacity, node_remark(device));
  text += table.line(host.margin() < Bytes{0} ? "short" : "to spare",
                     Bytes{std::abs(host.margin().value())}, "");
  if (host.nvme > Bytes{0}) {
    text += table.line("NVMe", host.nvme,
                       host.nvme_capacity ? "of " + to_text(*host.nvme_capacity)
                                          : "of drives whose size is not known: --nvme");
  }
  return text;
}

std::string host_assumption(const cost::DeviceSpec& device) {
  return device.host ? device.host->note : std::string();
}

std::vector<std::string> host_notes(const cost::HostMemory& host, const cost::DeviceSpec& device) {
  const std::string assumed = host_assumption(device);
  return !assumed.empty() && shows_host(host) ? std::vector{assumed} : std::vector<std::string>();
}

ir::JsonValue host_json(const cost::HostMemory& host, cost::Verdict verdict,
                        const std::string& assumed) {
  ir::JsonValue::Array terms;
  for (const ir::HostTerm& term : host.terms) {
    ir::JsonFields fields;
    fields.add("use", name_of(term.use));
    fields.add("span", name_of(term.span));
    fields.add("bytes", term.bytes);
    fields.add("requested_bytes", term.requested);
    fields.add("pinned", term.pinned);
    fields.add("once", term.once);
    fields.add("reclaimable", term.reclaimable);
    fields.add("source", term.source);
    terms.push_back(std::move(fields).finish());
  }
  ir::JsonFields fields;
  fields.add("verdict", name_of(verdict));
  fields.add("ranks", host.ranks);
  fields.add("peak_span", name_of(host.peak_span));
  fields.add("rank_bytes", host.rank_bytes);
  fields.add("bytes", host.bytes);
  fields.add("pinned_bytes", host.pinned);
  fields.add("capacity_bytes",
             host.capacity ? ir::JsonValue{host.capacity->value()} : ir::JsonValue{});
  fields.add("assumed", assumed.empty() ? ir::JsonValue{} : ir::JsonValue{assumed});
  fields.add("nvme_bytes", host.nvme);
  fields.add("nvme_capacity_bytes",
             host.nvme_capacity ? ir::JsonValue{host.nvme_capacity->value()} : ir::JsonValue{});
  fields.add("terms", ir::JsonValue{std::move(terms)});
  return std::move(fields).finish();
}

}  // namespace headroom::cli
