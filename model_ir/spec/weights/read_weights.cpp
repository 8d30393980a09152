#include "model_ir/spec/weights/read_weights.h"

#include <algorithm>
#include <utility>

#include "model_ir/spec/weights/gguf.h"
#include "model_ir/spec/weights/header_file.h"
#include "model_ir/spec/weights/safetensors.h"

namespace headroom::ir {

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
