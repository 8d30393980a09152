#include "cli/weights_check.h"

#include <algorithm>

#include "model_ir/graph/param_table.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/weights/check.h"
#include "model_ir/spec/weights/read_weights.h"
#include "model_ir/spec/weights/tensor_list.h"

namespace headroom::cli {
namespace {

constexpr std::size_t kMostNames = 2;

std::vector<ir::ExpectedTensor> expected_tensors(const ir::ModelSpec& model) {
  std::vector<ir::ExpectedTensor> expected;
  for (ir::ModelParameter& parameter : ir::parameter_table(model)) {
    expected.push_back(
        {.name = std::move(parameter.info.name), .shape = std::move(parameter.info.dims)});
  }
  return expected;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t dim : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  }
  return text + "]";
}

std::string names_text(const std::vector<std::string>& names, const char* what) {
  std::string text = std::to_string(names.size()) + " tensors " + what + " (";
  for (std::size_t index = 0; index < std::min(names.size(), kMostNames); ++index) {
    text += (index == 0 ? "" : ", ") + names[index];
  }
  return text + (names.size() > kMostNames ? ", ...)" : ")");
}

}  // namespace

Result<std::vector<std::string>> check_weights(const std::string& path, const ir::ModelSpec& model,
                                               bool quantised) {
  const Result<ir::TensorList> list = ir::read_weights(path);
  if (!list) {
    return list.error();
  }
  std::vector<std::string> notes = list->notes;
  if (quantised) {
    return notes;
  }
  const ir::TensorCheck check = ir::check_tensors(*list, expected_tensors(model));
  if (!check.differing.empty()) {
    const ir::ShapeDifference& first = check.differing.front();
    return Error::invalid_input(path, "/" + first.name, shape_text(first.found),
                                shape_text(first.expected) + ", as the config.json beside it says",
                                "use the config.json of these weights");
  }
  const bool same_count =
      list->has_shapes && ir::total_elements(*list) == ir::count_parameters(model).total();
  if (!same_count && !check.missing.empty()) {
    notes.push_back(path + ": " + names_text(check.missing, "of the model are missing"));
  }
  if (!same_count && !check.extra.empty()) {
    notes.push_back(path + ": " + names_text(check.extra, "are not the model's"));
  }
  return notes;
}

}  // namespace headroom::cli
