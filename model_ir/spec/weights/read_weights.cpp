#include "model_ir/spec/weights/read_weights.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "model_ir/spec/weights/gguf.h"
#include "model_ir/spec/weights/header_file.h"
#include "model_ir/spec/weights/safetensors.h"

namespace headroom::ir {

namespace {

Result<TensorList> read_folder(const std::string& folder) {
  std::error_code ignored;
  for (const char* const name : {"model.safetensors.index.json", "model.safetensors"}) {
    const std::filesystem::path file = std::filesystem::path(folder) / name;
    if (std::filesystem::exists(file, ignored)) {
      return read_weights(file.string());
    }
  }
  return read_safetensors_shards(folder);
}

}  // namespace

bool holds_weights(const std::string& folder) {
  std::error_code fault;
  std::filesystem::directory_iterator files(folder, fault);
  for (; !fault && files != std::filesystem::directory_iterator(); files.increment(fault)) {
    const std::string name = files->path().filename().string();
    const bool shard = name.ends_with(".safetensors") && name.find("-of-") != std::string::npos;
    if (shard || name == "model.safetensors" || name == "model.safetensors.index.json") {
      return true;
    }
  }
  return false;
}

Result<TensorList> read_weights(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return read_folder(path);
  }
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
    Result<GgufFile> gguf = read_gguf_parts(path);
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
