#include "costmodel/time/export_streams.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace headroom::cost {
namespace {

constexpr int kStreamProcess = 2;
constexpr int kStageProcess = 3;

/// Collects events; names are ours and need no escapes.
class Trace {
 public:
  void name_process(int process, std::string_view name) {
    line(R"({"ph":"M","pid":)" + std::to_string(process) +
         R"(,"name":"process_name","args":{"name":")" + std::string(name) + R"("}})");
  }
  void name_row(int process, std::size_t row, const std::string& name) {
    line(R"({"ph":"M","pid":)" + std::to_string(process) + R"(,"tid":)" + std::to_string(row) +
         R"(,"name":"thread_name","args":{"name":")" + name + R"("}})");
  }
  void slice(int process, std::size_t row, const std::string& name, Seconds begin, Seconds end) {
    std::array<char, 80> times{};
    std::snprintf(times.data(), times.size(), R"(,"ts":%.3f,"dur":%.3f})", begin.value() * 1e6,
                  (end - begin).value() * 1e6);
    line(R"({"ph":"X","pid":)" + std::to_string(process) + R"(,"tid":)" + std::to_string(row) +
         R"(,"name":")" + name + "\"" + times.data());
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void line(const std::string& event) { text_ += (text_.empty() ? "" : ",\n") + event; }
  std::string text_;
};

std::string name_of_item(const ir::RankProgram& program, const ir::WorkItem& item) {
  const ir::WorkShape& shape = program.work.shapes[item.index];
  if (const auto* collective = std::get_if<ir::CollectiveShape>(&shape)) {
    return std::string(ir::name_of(collective->kind));
  }
  if (item.site >= program.sites.size()) {
    return "?";
  }
  const ir::Site& site = program.sites[item.site];
  std::string name = site.operation < program.operations.size() ? program.operations[site.operation]
                                                                : std::string();
  name = name.empty() ? "other" : name;
  if (site.layer >= 0) {
    name += " " + std::to_string(site.layer);
  }
  return name + (site.backward ? " (backward)" : "");
}

void add_streams(const ir::RankProgram& program, const StreamTimeline& timeline, Trace& trace) {
  struct Open {
    std::string name;
    Seconds begin;
    Seconds end;
  };
  std::vector<Open> rows(timeline.busy.size());
  trace.name_process(kStreamProcess, "streams");
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (timeline.busy[row] > Seconds{}) {
      const bool named = row < program.work.streams.size() && !program.work.streams[row].empty();
      trace.name_row(kStreamProcess, row,
                     named ? program.work.streams[row] : "stream " + std::to_string(row));
    }
  }
  const auto close = [&](std::size_t row) {
    if (!rows[row].name.empty()) {
      trace.slice(kStreamProcess, row, rows[row].name, rows[row].begin, rows[row].end);
    }
  };
  for (std::size_t i = 0; i < program.work.items.size(); ++i) {
    const ir::WorkItem& item = program.work.items[i];
    if (item.kind != ir::WorkItem::Kind::kRun) {
      continue;
    }
    Open& row = rows[item.stream];
    std::string name = name_of_item(program, item);
    if (name == row.name && timeline.begin[i] <= row.end) {
      row.end = timeline.end[i];
      continue;
    }
    close(item.stream);
    row = {std::move(name), timeline.begin[i], timeline.end[i]};
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    close(row);
  }
}

std::string name_of_action(const ir::PipelineAction& action, bool chunks) {
  constexpr std::array<std::string_view, 4> kWords = {"forward", "backward", "backward input",
                                                      "backward weights"};
  std::string name(kWords.at(static_cast<std::size_t>(action.work)));
  name += " " + std::to_string(action.micro_batch);
  return chunks ? name + ", chunk " + std::to_string(action.chunk) : name;
}

void add_stages(const PipelineTimeline& pipeline, Trace& trace) {
  bool chunks = false;
  for (const ActionSpan& span : pipeline.stages.front()) {
    chunks = chunks || span.action.chunk > 0;
  }
  trace.name_process(kStageProcess, "pipeline");
  for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
    trace.name_row(kStageProcess, stage, "stage " + std::to_string(stage));
    for (const ActionSpan& span : pipeline.stages[stage]) {
      trace.slice(kStageProcess, stage, name_of_action(span.action, chunks), span.begin, span.end);
    }
  }
}

}  // namespace

std::string stream_events(const ir::RankProgram& program, const StreamTimeline& timeline,
                          const PipelineTimeline* pipeline) {
  Trace trace;
  add_streams(program, timeline, trace);
  if (pipeline != nullptr && !pipeline->stages.empty()) {
    add_stages(*pipeline, trace);
  }
  return trace.take();
}

}  // namespace headroom::cost
