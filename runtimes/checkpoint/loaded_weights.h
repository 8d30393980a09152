#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/units.h"
#include "model_ir/spec/checkpoint_quantisation.h"
#include "model_ir/spec/model_spec.h"
#include "runtimes/checkpoint/loader.h"

/// The GPU memory of a checkpoint's weights when a program loads them for inference.
namespace headroom::ir::checkpoint {

enum class LoadedPart : std::uint8_t {
  kQuantised,  ///< The codes of quantised weights.
  kScales,     ///< Scales, code tables, and what quantises scales.
  kZeroPoints,
  kIndices,  ///< The order of the inputs (act order), stored shapes.
  kOther,    ///< Weights that are not quantised.
};
[[nodiscard]] std::string_view name_of(LoadedPart part);

/// Tensors of one part and type, summed.
struct LoadedTotal {
  LoadedPart part = LoadedPart::kOther;
  std::string type;           ///< In safetensors' words: "F8_E4M3".
  std::int64_t elements = 0;  ///< The elements of the tensors; a packed tensor counts words.
  Bytes bytes;
  friend bool operator==(const LoadedTotal&, const LoadedTotal&) = default;
};

/// A checkpoint as one program loads it.
struct LoadedWeights {
  Loader loader = Loader::kTransformers;
  std::string
      refused;  ///< The reason why the program cannot load it, or why the bytes are not known.
  Bytes total;
  std::vector<LoadedTotal> parts;  ///< By part, then most bytes first.
  std::int64_t quantised_parameters = 0;
  std::int64_t other_parameters = 0;
  /// The program replaces quantised weights by 16-bit ones when it first uses them.
  std::optional<Bytes> after_first_use;
  std::string training;  ///< Whether the program can train weights loaded so; empty: as usual.
  friend bool operator==(const LoadedWeights&, const LoadedWeights&) = default;
};

/// The weights of `model` on one GPU; `quantisation`: nullptr for a checkpoint without.
///
/// Model:   the tensors that the program's modules have after loading, on a GPU of compute
///          capability 9.0, in the type of the checkpoint (vLLM: fp32 becomes 16 bits). Matrices of
///          linear layers are quantised except those that the checkpoint or the program keeps. vLLM
///          pads the vocabulary to a multiple of 64.
/// Ignores: buffers that are not weights (rotary tables, Marlin's workspaces of 0.5 KiB), the
///          allocator's rounding, and padding by which kernels align matrices of odd sizes.
/// Source:  huggingface/transformers 5.17.0 src/transformers/{quantizers,integrations}/*.py;
///          vllm-project/vllm vllm/model_executor/layers/quantization/*.py,
///          vllm/model_executor/kernels/linear/mixed_precision/marlin.py; bitsandbytes 0.50.2
///          functional.py (QuantState).
[[nodiscard]] LoadedWeights loaded_weights(const ModelSpec& model,
                                           const CheckpointQuantisation* quantisation,
                                           Loader loader);

}  // namespace headroom::ir::checkpoint
