#include "cli/sweep_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <ios>
#include <ostream>
#include <set>
#include <utility>

#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

constexpr std::array<std::string_view, 18> kColumns = {"model",
                                                       "gpu",
                                                       "gpus",
                                                       "options",
                                                       "status",
                                                       "space",
                                                       "step_seconds",
                                                       "tokens_per_second",
                                                       "peak_allocated_bytes",
                                                       "margin_bytes",
                                                       "plan",
                                                       "error",
                                                       "verdict",
                                                       "yes",
                                                       "fits_probability",
                                                       "host_bytes",
                                                       "host_short_bytes",
                                                       "command"};

/// Quotes the text if it contains a separator, a quote or a line break.
std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' ? "\"\"" : std::string(1, c == '\n' || c == '\r' ? ' ' : c);
  }
  return quoted + "\"";
}

/// The fields of a line; nothing if a quote is not closed.
std::optional<std::vector<std::string>> csv_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return quoted ? std::nullopt : std::optional(std::move(fields));
}

std::optional<SweepItem> item_of_json(std::string_view line) {
  const Result<ir::JsonValue> value = ir::parse_json(std::string(line), "line");
  if (!value) {
    return std::nullopt;
  }
  std::array<std::string, 4> texts;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const ir::JsonValue* const found = value->find(kColumns[i]);
    if (found == nullptr || found->as_string() == nullptr) {
      return std::nullopt;
    }
    texts[i] = *found->as_string();
  }
  return SweepItem{texts[0], texts[1], texts[2], texts[3]};
}

Error cannot_write(const std::string& path) {
  return Error::environment(path, "no access, or no space", "a file that can be written");
}

}  // namespace

std::string sweep_header(SweepFormat format) {
  std::string header;
  if (format == SweepFormat::kCsv) {
    for (const std::string_view column : kColumns) {
      header += (header.empty() ? "" : ",") + std::string(column);
    }
  }
  return header;
}

std::string sweep_line(SweepFormat format, const ir::JsonValue& answer) {
  if (format == SweepFormat::kJsonLines) {
    return ir::to_json(answer);
  }
  std::string line;
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    line += i == 0 ? "" : ",";
    const ir::JsonValue* const value = answer.find(kColumns[i]);
    if (value != nullptr && !value->is_null()) {
      line += csv_field(value->as_string() != nullptr ? *value->as_string() : ir::to_json(*value));
    }
  }
  return line;
}

std::optional<SweepItem> item_of_line(SweepFormat format, std::string_view line) {
  if (format == SweepFormat::kJsonLines) {
    return item_of_json(line);
  }
  const std::optional<std::vector<std::string>> fields = csv_fields(line);
  if (line == sweep_header(format) || !fields || fields->size() != kColumns.size()) {
    return std::nullopt;
  }
  return SweepItem{(*fields)[0], (*fields)[1], (*fields)[2], (*fields)[3]};
}

bool may_extend(const std::string& path, SweepFormat format) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return true;  // None yet, or a device, which keeps nothing.
  }
  const std::string begin = format == SweepFormat::kCsv ? sweep_header(format) : "{\"model\":";
  std::ifstream file(path, std::ios::binary);
  std::string first(begin.size(), '\0');
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<std::size_t>(file.gcount()));
  return begin.starts_with(first);  // An interrupted sweep may have written less.
}

SweepFile::SweepFile(std::string path, SweepFormat format)
    : path_(std::move(path)), format_(format) {
  read(path_);
  for (const std::string& other : rank_files()) {
    const std::size_t before = order_.size();
    read(other);
    order_.resize(before);
  }
}

/// Reads the lines of a file. The last line counts only if it ends with a line break, because a
/// number that was cut off would still be a number.
void SweepFile::read(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const std::optional<SweepItem> item = item_of_line(format_, line);
    if (item && lines_.try_emplace(*item, line).second) {
      order_.push_back(*item);
    }
  }
}

std::vector<std::string> SweepFile::rank_files() const {
  std::vector<std::string> found;
  const std::filesystem::path path(path_);
  const std::string begin = path.filename().string() + ".rank";
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool numbered = name.size() > begin.size() && name.compare(0, begin.size(), begin) == 0 &&
                          name.find_first_not_of("0123456789", begin.size()) == std::string::npos;
    if (numbered) {
      found.push_back(entry.path().string());
    }
  }
  std::ranges::sort(found);
  return found;
}

Status SweepFile::open(int rank) {
  own_ = rank == 0 ? path_ : path_ + ".rank" + std::to_string(rank);
  std::error_code ignored;
  const auto size = std::filesystem::file_size(own_, ignored);
  const bool fresh = ignored || size == 0;
  bool cut = false;
  if (!fresh) {
    std::ifstream before(own_, std::ios::binary);
    before.seekg(-1, std::ios::end);
    cut = before.get() != '\n';
  }
  out_.open(own_, std::ios::app);
  if (cut) {
    out_ << "\n";  // The cut line stays on its own and is no answer.
  }
  if (fresh && rank == 0 && format_ == SweepFormat::kCsv) {
    out_ << sweep_header(format_) << "\n";
  }
  out_.flush();
  return out_ ? ok() : cannot_write(own_);
}

Status SweepFile::add(const SweepItem& item, const std::string& line) {
  lines_.insert_or_assign(item, line);
  out_ << line + "\n" << std::flush;
  return out_ ? ok() : cannot_write(own_);
}

Status SweepFile::finish(const std::vector<SweepItem>& items,
                         const std::map<SweepItem, std::string>& lines) {
  const std::set<SweepItem> mine(items.begin(), items.end());
  const std::string header = sweep_header(format_);
  std::string content = header.empty() ? "" : header + "\n";
  for (const SweepItem& item : order_) {
    content += mine.contains(item) ? "" : lines_.at(item) + "\n";
  }
  for (const SweepItem& item : items) {
    const auto line = lines.find(item);
    content += line != lines.end() ? line->second + "\n" : "";
  }
  out_.close();
  if (Status status = write_file_atomically(path_, content); !status) {
    return status;
  }
  std::error_code ignored;
  for (const std::string& other : rank_files()) {
    std::filesystem::remove(other, ignored);
  }
  return ok();
}

void SweepFile::remove_own() {
  out_.close();
  if (own_ != path_) {
    std::error_code ignored;
    std::filesystem::remove(own_, ignored);
  }
}

}  // namespace headroom::cli
