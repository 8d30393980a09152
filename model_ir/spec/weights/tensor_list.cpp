#include "model_ir/spec/weights/tensor_list.h"

#include <algorithm>
#include <map>

namespace headroom::ir {

std::string cut_off_note(const std::string& path, std::int64_t held, std::int64_t described) {
  return path + " holds " + std::to_string(held) + " of the " + std::to_string(described) +
         " bytes of data that its header describes: sizes are exact, but no program can load it";
}

std::int64_t total_elements(const TensorList& list) {
  std::int64_t sum = 0;
  for (const TensorEntry& tensor : list.tensors) {
    sum += tensor.elements;
  }
  return sum;
}

Bytes total_bytes(const TensorList& list) {
  if (!list.has_shapes) {
    return list.stated_total.value_or(Bytes{0});
  }
  Bytes sum;
  for (const TensorEntry& tensor : list.tensors) {
    sum += tensor.bytes;
  }
  return sum;
}

std::vector<TypeTotal> totals_by_type(const TensorList& list) {
  std::map<std::string, TypeTotal> types;
  for (const TensorEntry& tensor : list.tensors) {
    TypeTotal& total = types[tensor.type];
    total.type = tensor.type;
    total.tensors += 1;
    total.elements += tensor.elements;
    total.bytes += tensor.bytes;
  }
  std::vector<TypeTotal> totals;
  totals.reserve(types.size());
  for (const auto& [type, total] : types) {
    totals.push_back(total);
  }
  std::stable_sort(totals.begin(), totals.end(),
                   [](const TypeTotal& a, const TypeTotal& b) { return a.bytes > b.bytes; });
  return totals;
}

}  // namespace headroom::ir
