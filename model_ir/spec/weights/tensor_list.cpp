#include "model_ir/spec/weights/tensor_list.h"

#include <algorithm>
#include <map>

#include "model_ir/spec/weights/gguf.h"
#include "model_ir/spec/weights/header_file.h"
#include "model_ir/spec/weights/safetensors.h"

namespace headroom::ir {

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

Result<TensorList> read_weights(const std::string& path) {
  if (path.ends_with(".json")) {
    return read_safetensors_index(path);
  }
  Result<HeaderFile> file = HeaderFile::open(path);
  if (!file) {
    return file.error();
  }
  const Result<std::string> head = file->read(0, std::min<std::int64_t>(9, file->size()));
  if (!head) {
    return head.error();
  }
  if (head->starts_with("GGUF")) {
    Result<GgufFile> gguf = read_gguf(path);
    return gguf ? Result<TensorList>(std::move(gguf).value().tensors)
                : Result<TensorList>(std::move(gguf).error());
  }
  if (head->size() == 9 && head->back() == '{') {  // After the 8 bytes of the header's length.
    return read_safetensors(path);
  }
  return Error::invalid_input(path, byte_pointer(0),
                              "neither \"GGUF\" nor a length and a JSON header",
                              "a .safetensors file, its index or a .gguf file");
}

}  // namespace headroom::ir
