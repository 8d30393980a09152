#include "cli/report/sweep_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "cli/scalars.h"
#include "model_ir/base/units.h"

namespace headroom::cli {
namespace {

constexpr std::size_t kSweepNames = 3;
constexpr std::array<std::string_view, 7> kSweepTitles = {"model", "gpu",      "gpus",    "answer",
                                                          "step",  "tokens/s", "to spare"};

std::string answer_text(const ir::JsonValue& answer, std::string_view key) {
  const ir::JsonValue* const value = answer.find(key);
  const std::string* const text = value == nullptr ? nullptr : value->as_string();
  return text == nullptr ? std::string() : *text;
}

double answer_number(const ir::JsonValue& answer, std::string_view key) {
  const ir::JsonValue* const value = answer.find(key);
  return value == nullptr ? 0 : value->as_number().value_or(0);
}

}  // namespace

SweepTable::SweepTable(const std::vector<SweepItem>& items, const Terminal& terminal)
    : terminal_(terminal) {
  constexpr std::size_t kAnswer = std::string_view("probably fits").size();
  constexpr std::size_t kFigure = 9;
  widths_ = {0, 0, 0, kAnswer, kFigure, kFigure, kFigure};
  for (std::size_t column = 0; column < widths_.size(); ++column) {
    widths_[column] = std::max(widths_[column], columns_of(kSweepTitles.at(column)));
  }
  for (const SweepItem& item : items) {
    widths_[0] = std::max(widths_[0], columns_of(item.model));
    widths_[1] = std::max(widths_[1], columns_of(item.gpu));
    widths_[2] = std::max(widths_[2], columns_of(item.gpus));
  }
}

std::string SweepTable::line(const std::vector<std::string>& cells) const {
  std::string line;
  for (std::size_t column = 0; column < cells.size(); ++column) {
    const bool is_text = column < 2 || column == kSweepNames;
    line += (column == 0 ? "" : "  ") + (is_text ? pad_right(cells[column], widths_[column])
                                                 : pad_left(cells[column], widths_[column]));
  }
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

std::string SweepTable::header() const {
  return styled(terminal_, Style::kStrong, line({kSweepTitles.begin(), kSweepTitles.end()})) + "\n";
}

std::string SweepTable::lines(const ir::JsonValue& answer, const std::string& reason) const {
  std::vector<std::string> cells = {answer_text(answer, "model"), answer_text(answer, "gpu"),
                                    answer_text(answer, "gpus")};
  std::string below = answer_text(answer, "plan");
  if (answer.find("plan") != nullptr) {
    cells.push_back(answer_text(answer, "verdict"));
    cells.push_back(duration_text(answer_number(answer, "step_seconds")));
    cells.push_back(three_digits(answer_number(answer, "tokens_per_second")));
    const auto margin = static_cast<std::int64_t>(answer_number(answer, "margin_bytes"));
    cells.push_back(to_text(Bytes{margin}));
  } else {
    cells.push_back(answer_text(answer, "status"));
    below = reason;
  }
  return line(cells) + "\n  " + wrap(below, terminal_.width - 2, 2) + "\n";
}

}  // namespace headroom::cli
