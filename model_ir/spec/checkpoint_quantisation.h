#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/json/json_reader.h"

namespace headroom::ir {

/// `quant_method` of a `quantization_config`.
enum class QuantMethod : std::uint8_t {
  kFp8,  ///< One 8-bit floating-point number for each weight, scales of blocks or of tensors.
  kFbgemmFp8,
  kMxfp4,  ///< The experts of gpt-oss in 4 bits.
  kGptq,
  kAwq,
  kBitsAndBytes,
  kCompressedTensors,
  kModelOpt,  ///< NVIDIA's Model Optimizer.
  kUnknown,
};

/// The weights that share a scale.
enum class ScaleForm : std::uint8_t {
  kTensor,   ///< All of a matrix.
  kChannel,  ///< A row, that is, an output.
  kGroup,    ///< `group` neighbours of a row.
  kBlock,    ///< A rectangle of `block_rows` x `block_columns`.
};

/// The storage of a weight's numbers.
enum class PackedForm : std::uint8_t {
  kFp8,        ///< A byte for each weight, floating point.
  kInt8,       ///< A byte for each weight, whole numbers.
  kPackedInt,  ///< `bits` for each weight, packed into 32-bit words.
  kNibbles,    ///< Two 4-bit codes in a byte (bitsandbytes).
  kNvfp4,      ///< Two E2M1 numbers in a byte, an E4M3 scale for 16, one fp32 scale for all.
  kMxfp4,      ///< Two E2M1 numbers in a byte, an E8M0 scale for 32.
};

/// Modules whose weights are quantised in one way.
struct QuantGroup {
  std::vector<std::string> targets;  ///< "Linear", names, or patterns after "re:".
  PackedForm form = PackedForm::kFp8;
  int bits = 8;
  ScaleForm scales = ScaleForm::kTensor;
  std::int64_t group = 0;  ///< For `kGroup`.
  std::int64_t block_rows = 0;
  std::int64_t block_columns = 0;
  bool symmetric = true;       ///< False: a zero point beside each scale.
  bool reorders = false;       ///< desc_act, actorder: an index of the inputs is stored.
  bool static_inputs = false;  ///< A scale of the inputs is stored, too.
  friend bool operator==(const QuantGroup&, const QuantGroup&) = default;
};

/// The `quantization_config` of a checkpoint whose weights are quantised already.
struct CheckpointQuantisation {
  QuantMethod method = QuantMethod::kUnknown;
  std::string name;                ///< `quant_method`, as written.
  std::vector<QuantGroup> groups;  ///< One, except for compressed-tensors and Model Optimizer.
  std::vector<std::string> kept;   ///< Modules that stay as they are, as the file writes them.
  bool names_kept = false;         ///< The file has such a list, which may be empty.
  bool head = false;               ///< GPTQ: the head is quantised, too.
  bool double_quant = false;       ///< bitsandbytes: scales are quantised again.
  bool narrow_scales = false;      ///< fp8: scales are E8M0, one byte each.
  bool default_block = false;      ///< fp8: the file says nothing of blocks.
  /// The reason why the bytes of the weights are not known; empty: they are.
  std::string unanswered;
  friend bool operator==(const CheckpointQuantisation&, const CheckpointQuantisation&) = default;
};

/// Reads a `quantization_config`. Every key is marked as read; faults are noted in the reader.
///
/// Errors:  noted for values outside their range (bits, group and block sizes) and of wrong type.
/// Source:  huggingface/transformers 5.17.0 src/transformers/utils/quantization_config.py;
///          vllm-project/vllm vllm/model_executor/layers/quantization/{fp8,gptq_marlin,awq_marlin,
///          bitsandbytes,mxfp4,fbgemm_fp8,modelopt}.py; vllm-project/compressed-tensors
///          src/compressed_tensors/quantization/quant_args.py.
[[nodiscard]] CheckpointQuantisation read_quantisation(const JsonObject& json);

/// "fp8 in blocks of 128 x 128", for people.
[[nodiscard]] std::string describe(const CheckpointQuantisation& quantisation);

}  // namespace headroom::ir
