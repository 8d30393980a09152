#include "runtimes/checkpoint/loaded_weights.h"

#include <algorithm>
#include <map>
#include <utility>

#include "model_ir/graph/param_table.h"
#include "runtimes/checkpoint/module_filter.h"

namespace headroom::ir::checkpoint {
namespace {

constexpr std::int64_t kWordBits = 32;
constexpr std::int64_t kVocabularyShare = 64;  // vLLM vocab_parallel_embedding.py.
constexpr std::string_view kWeightEnding = ".weight";

std::string_view safetensors_name(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
      return "F32";
    case DType::kFp16:
      return "F16";
    case DType::kFp64:
      return "F64";
    case DType::kFp8:
      return "F8_E4M3";
    default:
      return "BF16";
  }
}

/// One or more equal matrices that are quantised together.
struct Matrices {
  std::int64_t count = 1;  ///< E for the experts of a layer.
  std::int64_t out = 0;
  std::int64_t in = 0;
  bool experts = false;
  bool fused = false;   ///< Gate and up projection of experts.
  bool merged = false;  ///< vLLM holds it in the matrix before: keys, values, up projections.
  [[nodiscard]] std::int64_t elements() const { return count * out * in; }
};

/// Adds up the tensors of a loaded checkpoint.
class Sum {
 public:
  void add(LoadedPart part, std::string_view type, std::int64_t elements, std::int64_t bits) {
    if (elements == 0) {
      return;
    }
    LoadedTotal& total = totals_[{part, std::string(type)}];
    total.part = part;
    total.type = type;
    total.elements += elements;
    total.bytes += Bytes{ceil_div(elements * bits, 8)};
  }

  void finish(LoadedWeights& loaded) const {
    for (const auto& [key, total] : totals_) {
      loaded.parts.push_back(total);
      loaded.total += total.bytes;
    }
    std::ranges::stable_sort(loaded.parts, [](const LoadedTotal& a, const LoadedTotal& b) {
      return a.part != b.part ? a.part < b.part : a.bytes > b.bytes;
    });
  }

 private:
  std::map<std::pair<LoadedPart, std::string>, LoadedTotal> totals_;
};

/// Lays out quantised matrices as one program holds them.
class Layout {
 public:
  Layout(const CheckpointQuantisation& quantisation, Loader loader, DType dtype, Sum& sum)
      : quantisation_(quantisation), loader_(loader), dtype_(dtype), sum_(sum) {}

  void add(const QuantGroup& group, const Matrices& matrices) {
    switch (quantisation_.method) {
      case QuantMethod::kFp8:
      case QuantMethod::kFbgemmFp8:
        return add_fp8(group, matrices);
      case QuantMethod::kMxfp4:
        return add_mxfp4(matrices);
      case QuantMethod::kGptq:
      case QuantMethod::kAwq:
        return add_packed(group, matrices);
      case QuantMethod::kBitsAndBytes:
        return group.bits == 4 ? add_nibbles(matrices) : add_bytes(group, matrices);
      case QuantMethod::kCompressedTensors:
      case QuantMethod::kModelOpt:
        return add_compressed(group, matrices);
      case QuantMethod::kUnknown:
        return;
    }
  }

 private:
  [[nodiscard]] bool vllm() const { return loader_ == Loader::kVllm; }

  /// Neighbours of a row that share a scale, as shares of a row.
  static std::int64_t groups(const QuantGroup& group, const Matrices& m) {
    return group.scales == ScaleForm::kGroup ? ceil_div(m.in, group.group) : 1;
  }

  [[nodiscard]] std::int64_t scales(const QuantGroup& group, const Matrices& m) const {
    switch (group.scales) {
      case ScaleForm::kTensor:
        return vllm() && m.merged ? 0 : m.count;
      case ScaleForm::kChannel:
      case ScaleForm::kGroup:
        return m.count * m.out * groups(group, m);
      case ScaleForm::kBlock:
        return m.count * block_rows(group, m) * ceil_div(m.in, group.block_columns);
    }
    return 0;
  }

  /// vLLM counts the blocks of gate and up projection apart; transformers keeps two rows at least.
  [[nodiscard]] std::int64_t block_rows(const QuantGroup& group, const Matrices& m) const {
    if (!m.fused) {
      return ceil_div(m.out, group.block_rows);
    }
    return vllm() ? 2 * ceil_div(m.out / 2, group.block_rows)
                  : std::max<std::int64_t>(2, ceil_div(m.out, group.block_rows));
  }

  /// Source: transformers integrations/finegrained_fp8.py (FP8Linear, FP8Experts) and
  /// integrations/fbgemm_fp8.py (FbgemmFp8Linear); vLLM fp8.py, fbgemm_fp8.py.
  void add_fp8(const QuantGroup& group, const Matrices& m) {
    sum_.add(LoadedPart::kQuantised, "F8_E4M3", m.elements(), 8);
    const bool narrow = quantisation_.narrow_scales && !vllm() && group.scales == ScaleForm::kBlock;
    sum_.add(LoadedPart::kScales, narrow ? "F8_E8M0" : "F32", scales(group, m), narrow ? 8 : 32);
    const bool bound = quantisation_.method == QuantMethod::kFbgemmFp8;  // input_scale_ub
    if (group.static_inputs || bound) {
      sum_.add(LoadedPart::kScales, "F32", vllm() && m.merged ? 0 : m.count, 32);
    }
  }

  /// Source: transformers integrations/mxfp4.py (Mxfp4GptOssExperts); vLLM mxfp4.py.
  void add_mxfp4(const Matrices& m) {
    constexpr std::int64_t kShare = 32;
    sum_.add(LoadedPart::kQuantised, "U8", m.elements() / 2, 8);
    sum_.add(LoadedPart::kScales, "U8", m.count * m.out * ceil_div(m.in, kShare), 8);
  }

  /// Whether vLLM runs the weights by Marlin's kernels, which drop what they do not read.
  [[nodiscard]] static bool fits_marlin(const QuantGroup& group) {
    const bool size = group.scales == ScaleForm::kChannel || group.group == 32 ||
                      group.group == 64 || group.group == 128;
    return (group.bits == 4 || group.bits == 8) && group.symmetric && size;
  }

  /// qweight, qzeros, scales and g_idx. Source: vLLM gptq_marlin.py and awq_marlin.py; the stored
  /// layout is that of AutoGPTQ, GPTQModel and AutoAWQ (gemm).
  void add_packed(const QuantGroup& group, const Matrices& m) {
    const std::int64_t rows = groups(group, m);
    const bool gptq = quantisation_.method == QuantMethod::kGptq;
    const std::int64_t words = gptq ? m.out * ceil_div(m.in * group.bits, kWordBits)
                                    : m.in * ceil_div(m.out * group.bits, kWordBits);
    sum_.add(LoadedPart::kQuantised, "I32", m.count * words, 32);
    sum_.add(LoadedPart::kScales, safetensors_name(dtype_), m.count * m.out * rows, 16);
    const std::int64_t zeros = m.count * rows * ceil_div(m.out * group.bits, kWordBits);
    if (!gptq || !vllm() || !fits_marlin(group)) {
      sum_.add(LoadedPart::kZeroPoints, "I32", zeros, 32);
      sum_.add(LoadedPart::kIndices, "I32", gptq ? m.count * m.in : 0, 32);
      return;
    }
    if (m.experts) {  // GPTQMarlinMoEMethod keeps them in the type of the scales.
      sum_.add(LoadedPart::kZeroPoints, safetensors_name(dtype_), zeros, 16);
    }
    const bool ordered = group.reorders && group.scales == ScaleForm::kGroup;
    sum_.add(LoadedPart::kIndices, "I32", ordered ? 2 * m.count * m.in : 0, 32);
  }

  /// Source: bitsandbytes functional.py, quantize_4bit and QuantState.from_dict; vLLM's loader
  /// widens doubly quantised scales (model_loader/bitsandbytes_loader.py, dequantize_dq).
  void add_nibbles(const Matrices& m) {
    constexpr std::int64_t kShare = 64;
    constexpr std::int64_t kOuterShare = 256;
    constexpr std::int64_t kCodes = 16;
    constexpr std::int64_t kOuterCodes = 256;
    const std::int64_t factors = ceil_div(m.elements(), kShare);
    sum_.add(LoadedPart::kQuantised, "U8", ceil_div(m.elements(), 2), 8);
    sum_.add(LoadedPart::kScales, "F32", kCodes, 32);
    if (!quantisation_.double_quant || vllm()) {
      sum_.add(LoadedPart::kScales, "F32", factors, 32);
      return;
    }
    sum_.add(LoadedPart::kScales, "U8", factors, 8);
    sum_.add(LoadedPart::kScales, "F32", ceil_div(factors, kOuterShare) + kOuterCodes + 1, 32);
  }

  /// 8 bits of bitsandbytes: the weight and SCB.
  void add_bytes(const QuantGroup& group, const Matrices& m) {
    sum_.add(LoadedPart::kQuantised, "I8", m.elements(), 8);
    sum_.add(LoadedPart::kScales, "F32", scales(group, m), 32);
  }

  /// Source: vllm-project/compressed-tensors src/compressed_tensors/compressors/**; vLLM
  /// compressed_tensors/schemes/*.py, modelopt.py.
  void add_compressed(const QuantGroup& group, const Matrices& m) {
    switch (group.form) {
      case PackedForm::kFp8:
      case PackedForm::kInt8:
        sum_.add(LoadedPart::kQuantised, group.form == PackedForm::kFp8 ? "F8_E4M3" : "I8",
                 m.elements(), 8);
        add_wide_scales(scales(group, m));
        if (group.static_inputs) {
          add_wide_scales(vllm() && m.merged ? 0 : m.count);
        }
        return;
      case PackedForm::kPackedInt:
        return add_compressed_words(group, m);
      case PackedForm::kNvfp4:
        sum_.add(LoadedPart::kQuantised, "U8", m.elements() / 2, 8);
        sum_.add(LoadedPart::kScales, "F8_E4M3", m.count * m.out * groups(group, m), 8);
        sum_.add(LoadedPart::kScales, "F32",
                 vllm() && m.merged ? 0 : m.count * (group.static_inputs ? 2 : 1), 32);
        return;
      case PackedForm::kMxfp4:
        return add_mxfp4(m);
      case PackedForm::kNibbles:
        return;
    }
  }

  /// vLLM makes scales of 8-bit weights in fp32, compressed-tensors in the model's type.
  void add_wide_scales(std::int64_t count) {
    const bool wide = vllm() || quantisation_.method == QuantMethod::kModelOpt;
    sum_.add(LoadedPart::kScales, wide ? "F32" : safetensors_name(dtype_), count,
             wide ? 32 : bits_of(dtype_));
  }

  void add_compressed_words(const QuantGroup& group, const Matrices& m) {
    constexpr std::int64_t kStoredDims = 2;
    sum_.add(LoadedPart::kQuantised, "I32",
             m.count * m.out * ceil_div(m.in * group.bits, kWordBits), 32);
    sum_.add(LoadedPart::kScales, safetensors_name(dtype_), scales(group, m), bits_of(dtype_));
    if (!group.symmetric) {
      sum_.add(LoadedPart::kZeroPoints, "I32",
               m.count * groups(group, m) * ceil_div(m.out * group.bits, kWordBits), 32);
    }
    sum_.add(LoadedPart::kIndices, "I64", m.count * kStoredDims, 64);  // weight_shape
    if (group.reorders) {
      sum_.add(LoadedPart::kIndices, "I32", m.count * m.in * (vllm() ? 2 : 1), 32);
    }
  }

  const CheckpointQuantisation& quantisation_;
  Loader loader_;
  DType dtype_;
  Sum& sum_;
};

/// Whether a parameter is the weight of a linear layer that `loader` may quantise.
bool is_linear(const ModelParameter& parameter, const ModelSpec& model, QuantMethod method,
               Loader loader) {
  if (parameter.part != ParameterPart::kWeight || parameter.info.dims.size() != 2) {
    return false;
  }
  if (method == QuantMethod::kMxfp4) {
    return false;
  }
  switch (parameter.role) {
    case OpRole::kSharedSigmoid:  // vLLM makes this gate without quantisation.
      return loader == Loader::kTransformers;
    case OpRole::kQuery:
    case OpRole::kKey:
    case OpRole::kValue:
    case OpRole::kQkv:
    case OpRole::kAttentionOutput:
    case OpRole::kGate:
    case OpRole::kUp:
    case OpRole::kGateUp:
    case OpRole::kDown:
    case OpRole::kSharedGate:
    case OpRole::kSharedUp:
    case OpRole::kSharedDown:
    case OpRole::kLatentQueryDown:
    case OpRole::kLatentQueryUp:
    case OpRole::kLatentKvDown:
    case OpRole::kLatentKvUp:
    case OpRole::kProjectIn:
    case OpRole::kProjectOut:
      // Conv1D is no linear layer; bitsandbytes alone replaces it.
      return model.qkv != QkvLayout::kFusedConv1d || method == QuantMethod::kBitsAndBytes;
    case OpRole::kHeadDense:
    case OpRole::kHead:
    case OpRole::kPooler:
      return true;
    default:
      return false;
  }
}

bool is_experts(const ModelParameter& parameter) {
  return parameter.part == ParameterPart::kWeight && parameter.info.dims.size() == 3 &&
         (parameter.role == OpRole::kExpertGateUp || parameter.role == OpRole::kExpertDown);
}

/// The reason why `loader` cannot hold such experts in their packed form, or why that is
/// not known; empty: it can.
std::string experts_refusal(QuantMethod method, Loader loader) {
  if (loader == Loader::kVllm) {
    return {};
  }
  switch (method) {
    case QuantMethod::kGptq:
    case QuantMethod::kAwq:
    case QuantMethod::kBitsAndBytes:
      return "transformers 5 keeps the experts of a layer as one parameter, which modules for "
             "linear layers do not replace: what it makes of quantised experts is not known";
    default:
      return {};
  }
}

std::string refusal(const ModelSpec& model, const CheckpointQuantisation& quantisation,
                    const ModuleFilter& filter, Loader loader) {
  if (model.recording) {
    return "which layers of a recorded model are quantised is not modelled";
  }
  if (!quantisation.unanswered.empty()) {
    return quantisation.unanswered;
  }
  if (!filter.unread().empty()) {
    return "its pattern \"" + std::string(filter.unread()) + "\" cannot be read";
  }
  if (quantisation.method == QuantMethod::kModelOpt && loader == Loader::kTransformers) {
    return "transformers 5.17 has no quantizer named modelopt";
  }
  const bool grouped = quantisation.default_block && loader == Loader::kTransformers;
  if (grouped) {
    return "the file does not say whether its scales are of blocks (transformers assumes "
           "128 x 128, vLLM one scale per matrix)";
  }
  return model.moe ? experts_refusal(quantisation.method, loader) : std::string();
}

/// The refusal of transformers' trainer. Source: trainer_utils.py,
/// validate_quantization_for_training, and is_trainable of each quantizer.
std::string training_text(QuantMethod method) {
  switch (method) {
    case QuantMethod::kFp8:
      return "transformers does not train weights in this format: load them with "
             "FineGrainedFP8Config(dequantize=True)";
    case QuantMethod::kMxfp4:
      return "transformers does not train weights in this format: load them with "
             "Mxfp4Config(dequantize=True)";
    case QuantMethod::kFbgemmFp8:
      return "transformers does not train weights in this format, adapters on them included";
    case QuantMethod::kCompressedTensors:
      return "transformers trains adapters on such weights, not the weights; "
             "CompressedTensorsConfig(dequantize=True) loads trainable ones";
    case QuantMethod::kGptq:
    case QuantMethod::kAwq:
    case QuantMethod::kBitsAndBytes:
      return "transformers trains adapters on such weights, not the weights";
    case QuantMethod::kModelOpt:
    case QuantMethod::kUnknown:
      return "transformers cannot load weights in this format";
  }
  return {};
}

/// The type of weights that are not quantised. vLLM runs models in fp32 in 16 bits, AWQ's kernels
/// need fp16, and fbgemm's and those of mxfp4 bf16, which gpt-oss's config.json does not name.
DType held_type(const ModelSpec& model, const CheckpointQuantisation* quantisation, Loader loader) {
  if (quantisation != nullptr && quantisation->method == QuantMethod::kAwq) {
    return DType::kFp16;
  }
  if (quantisation != nullptr && (quantisation->method == QuantMethod::kFbgemmFp8 ||
                                  quantisation->method == QuantMethod::kMxfp4)) {
    return DType::kBf16;
  }
  const DType stored = model.checkpoint_dtype;
  const bool narrow = stored == DType::kFp16 || stored == DType::kBf16;
  return narrow || (loader == Loader::kTransformers && stored != DType::kFp8) ? stored
                                                                              : DType::kBf16;
}

/// Adds the parameters of one model up.
class Walk {
 public:
  Walk(const ModelSpec& model, const CheckpointQuantisation* quantisation, Loader loader)
      : model_(model), quantisation_(quantisation), dtype_(held_type(model, quantisation, loader)) {
    loaded_.loader = loader;
  }

  LoadedWeights run() {
    if (quantisation_ == nullptr) {
      for (const ModelParameter& parameter : parameter_table(model_)) {
        add_other(parameter, dtype_);
      }
      sum_.finish(loaded_);
      return std::move(loaded_);
    }
    loaded_.training = loaded_.loader == Loader::kTransformers
                           ? training_text(quantisation_->method)
                           : std::string();
    const ModuleFilter filter(*quantisation_, loaded_.loader);
    loaded_.refused = refusal(model_, *quantisation_, filter, loaded_.loader);
    if (!loaded_.refused.empty()) {
      return std::move(loaded_);
    }
    Layout layout(*quantisation_, loaded_.loader, dtype_, sum_);
    for (const ModelParameter& parameter : parameter_table(model_)) {
      add(parameter, filter, layout);
    }
    sum_.finish(loaded_);
    if (quantisation_->method == QuantMethod::kCompressedTensors &&
        loaded_.loader == Loader::kTransformers) {
      loaded_.after_first_use =
          bytes_of(loaded_.quantised_parameters + loaded_.other_parameters, dtype_);
    }
    return std::move(loaded_);
  }

 private:
  void add(const ModelParameter& parameter, const ModuleFilter& filter, Layout& layout) {
    const std::string_view name = parameter.info.name;
    const bool linear = is_linear(parameter, model_, quantisation_->method, loaded_.loader);
    const bool experts = is_experts(parameter) && packs_experts();
    const std::string_view module =
        experts ? name.substr(0, name.rfind('.'))
                : name.substr(0, name.size() - std::min(name.size(), kWeightEnding.size()));
    const QuantGroup* const group =
        linear || experts ? filter.group_of(module, parameter.role == OpRole::kHead) : nullptr;
    if (group == nullptr) {
      add_other(parameter, other_type(parameter, filter));
      return;
    }
    const Matrices matrices = matrices_of(parameter, experts);
    loaded_.quantised_parameters += matrices.elements();
    layout.add(*group, matrices);
    if (parameter.role == OpRole::kLatentKvUp && loaded_.loader == Loader::kVllm) {
      // Decoding reads a dequantised copy, W_UK_T and W_UV. Source: vLLM
      // v1/attention/backends/mla/common.py, process_weights_after_loading.
      sum_.add(LoadedPart::kOther, safetensors_name(dtype_), matrices.elements(), bits_of(dtype_));
    }
  }

  /// compressed-tensors' experts are decompressed while transformers loads them.
  [[nodiscard]] bool packs_experts() const {
    return quantisation_->method != QuantMethod::kCompressedTensors ||
           loaded_.loader == Loader::kVllm;
  }

  [[nodiscard]] Matrices matrices_of(const ModelParameter& parameter, bool experts) const {
    const std::vector<std::int64_t>& dims = parameter.info.dims;
    if (!experts) {
      const bool merged = parameter.role == OpRole::kKey || parameter.role == OpRole::kValue ||
                          parameter.role == OpRole::kUp || parameter.role == OpRole::kSharedUp;
      return {.out = dims[0], .in = dims[1], .merged = merged};
    }
    const bool fused = parameter.role == OpRole::kExpertGateUp;
    const bool swapped = model_.family == Family::kGptOss;  // [E, in, out]
    return {.count = dims[0],
            .out = swapped ? dims[2] : dims[1],
            .in = swapped ? dims[1] : dims[2],
            .experts = true,
            .fused = fused};
  }

  /// Mxfp4GptOssExperts and FbgemmFp8Linear have fp32 biases in transformers.
  [[nodiscard]] DType other_type(const ModelParameter& parameter,
                                 const ModuleFilter& filter) const {
    if (loaded_.loader != Loader::kTransformers || parameter.part != ParameterPart::kBias) {
      return dtype_;
    }
    const bool of_experts =
        parameter.role == OpRole::kExpertGateUp || parameter.role == OpRole::kExpertDown;
    const std::string_view name = parameter.info.name;
    const std::string_view module = name.substr(0, name.rfind('.'));
    const bool mxfp4 = quantisation_->method == QuantMethod::kMxfp4 && of_experts;
    const bool fbgemm = quantisation_->method == QuantMethod::kFbgemmFp8;
    return (mxfp4 || fbgemm) && filter.group_of(module, false) != nullptr ? DType::kFp32 : dtype_;
  }

  void add_other(const ModelParameter& parameter, DType dtype) {
    std::int64_t elements = 1;
    for (const std::int64_t dim : parameter.info.dims) {
      elements *= dim;
    }
    loaded_.other_parameters += elements;
    const bool by_token =
        parameter.role == OpRole::kTokenEmbedding || parameter.role == OpRole::kHead;
    if (by_token && loaded_.loader == Loader::kVllm && !parameter.info.dims.empty()) {
      const std::int64_t rows = parameter.info.dims[0];
      elements = elements / rows * align_up(rows, kVocabularyShare);
    }
    sum_.add(LoadedPart::kOther, safetensors_name(dtype), elements, bits_of(dtype));
  }

  const ModelSpec& model_;
  const CheckpointQuantisation* quantisation_;
  DType dtype_;
  Sum sum_;
  LoadedWeights loaded_;
};

}  // namespace

std::string_view name_of(Loader loader) {
  switch (loader) {
    case Loader::kTransformers:
      return "transformers";
    case Loader::kVllm:
      return "vLLM";
  }
  return "?";
}

std::string_view name_of(LoadedPart part) {
  switch (part) {
    case LoadedPart::kQuantised:
      return "quantised weights";
    case LoadedPart::kScales:
      return "scales";
    case LoadedPart::kZeroPoints:
      return "zero points";
    case LoadedPart::kIndices:
      return "indices";
    case LoadedPart::kOther:
      return "other weights";
  }
  return "?";
}

LoadedWeights loaded_weights(const ModelSpec& model, const CheckpointQuantisation* quantisation,
                             Loader loader) {
  return Walk(model, quantisation, loader).run();
}

}  // namespace headroom::ir::checkpoint
