#include "costmodel/hardware/fit/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <utility>

#include "model_ir/base/check.h"
#include "model_ir/base/file.h"

namespace headroom::cost::fit {
namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::size_t at = 0;
  for (std::size_t end = line.find(','); end != std::string::npos; end = line.find(',', at)) {
    cells.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  cells.push_back(line.substr(at));
  return cells;
}

}  // namespace

std::size_t Table::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  HEADROOM_ASSERT(found != columns.end());
  return static_cast<std::size_t>(found - columns.begin());
}

const std::string& Table::text(std::size_t row, std::string_view name) const {
  return rows[row][column(name)];
}

double Table::number(std::size_t row, std::string_view name) const {
  return number_in(text(row, name));
}

std::int64_t Table::integer(std::size_t row, std::string_view name) const {
  return std::llround(number(row, name));
}

double number_in(const std::string& cell) {
  double value = 0;
  const auto read = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  HEADROOM_ASSERT(read.ec == std::errc{} && read.ptr == cell.data() + cell.size());
  return value;
}

Result<Table> read_table(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  std::istringstream lines(*text);
  Table table;
  std::string line;
  std::getline(lines, line);
  table.columns = cells_of(line);
  while (std::getline(lines, line)) {
    table.rows.push_back(cells_of(line));
    if (table.rows.back().size() != table.columns.size()) {
      return Error::invalid_input(path, "line " + std::to_string(table.rows.size() + 1),
                                  std::to_string(table.rows.back().size()) + " values",
                                  std::to_string(table.columns.size()) + " values");
    }
  }
  return table;
}

}  // namespace headroom::cost::fit
