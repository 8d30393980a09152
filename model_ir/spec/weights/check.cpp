#include "model_ir/spec/weights/check.h"

#include <algorithm>
#include <map>

namespace headroom::ir {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

void append_lines(std::string& text, const char* kind, const std::vector<std::string>& lines,
                  std::size_t limit) {
  for (std::size_t i = 0; i < std::min(limit, lines.size()); ++i) {
    text += std::string(kind) + ": " + lines[i] + "\n";
  }
  if (lines.size() > limit) {
    text += std::string(kind) + ": " + std::to_string(lines.size() - limit) + " more\n";
  }
}

}  // namespace

TensorCheck check_tensors(const TensorList& list, const std::vector<ExpectedTensor>& expected) {
  std::map<std::string, const TensorEntry*> found;
  for (const TensorEntry& tensor : list.tensors) {
    found.emplace(tensor.name, &tensor);
  }
  TensorCheck check;
  for (const ExpectedTensor& wanted : expected) {
    const auto entry = found.find(wanted.name);
    if (entry == found.end()) {
      check.missing.push_back(wanted.name);
      continue;
    }
    if (list.has_shapes && entry->second->shape != wanted.shape) {
      check.differing.push_back({wanted.name, wanted.shape, entry->second->shape});
    }
    found.erase(entry);
  }
  for (const auto& [name, tensor] : found) {
    check.extra.push_back(name);
  }
  std::sort(check.missing.begin(), check.missing.end());
  std::sort(check.differing.begin(), check.differing.end(),
            [](const ShapeDifference& a, const ShapeDifference& b) { return a.name < b.name; });
  return check;
}

std::string to_text(const TensorCheck& check, std::size_t limit) {
  std::string text;
  append_lines(text, "missing", check.missing, limit);
  append_lines(text, "extra", check.extra, limit);
  std::vector<std::string> shapes;
  for (const ShapeDifference& one : check.differing) {
    shapes.push_back(one.name + " " + shape_text(one.found) + ", expected " +
                     shape_text(one.expected));
  }
  append_lines(text, "shape", shapes, limit);
  return text;
}

}  // namespace headroom::ir
