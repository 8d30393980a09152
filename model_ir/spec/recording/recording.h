#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/spec/dtype.h"
#include "model_ir/spec/images.h"
#include "model_ir/spec/recording/size_expression.h"

namespace headroom::ir {

/// A model recording: what the Python code of a model asks of PyTorch (docs/recordings.md is its
/// specification). Values of these types are complete and consistent: every reference leads to
/// something that exists when it is used.

using RecordedShape = std::vector<SizeExpression>;

/// The operand of an instruction.
struct Reference {
  enum class Kind : std::uint8_t {
    kNone,       ///< An argument that is not a tensor on the device.
    kValue,      ///< A value of the running code.
    kParameter,  ///< By its index in the scope of the code.
    kBuffer,
    kGradient,  ///< In a template: the gradient of an output.
    kSaved,     ///< In a template: a tensor that the operator saved.
  };
  Kind kind = Kind::kNone;
  std::uint32_t index = 0;
  friend bool operator==(const Reference&, const Reference&) = default;
};

/// The result of an operator.
struct RecordedOutput {
  enum class How : std::uint8_t {
    kNew,   ///< On a storage of its own.
    kView,  ///< A view of an input.
    kSame,  ///< An input that has been changed in place.
  };
  Reference target;  ///< A value; while a model is built also a parameter or a buffer.
  DType dtype = DType::kFp32;
  RecordedShape shape;
  std::optional<SizeExpression>
      bytes;  ///< The size of a new storage, if the shape does not tell it.
  How how = How::kNew;
  std::uint32_t input = 0;  ///< The position of that input.
};

/// A step of the allocations inside an operator.
struct InnerStep {
  enum class Kind : std::uint8_t { kOutput, kAllocate, kFree };
  Kind kind = Kind::kOutput;
  std::uint32_t index = 0;  ///< The output, or the number of the temporary.
  SizeExpression bytes;     ///< kAllocate
};

/// A tensor that a node keeps.
struct SavedReference {
  enum class Kind : std::uint8_t { kInput, kOutput, kOther };
  Kind kind = Kind::kInput;
  std::uint32_t index = 0;  ///< Position among the operator's inputs or outputs.
  Reference other;          ///< kOther: neither of them.
};

/// The edge to the node that the base of a written view had before.
inline constexpr std::int32_t kBaseEdge = -1;
/// An edge to a tensor that is not on the device.
inline constexpr std::int32_t kOutsideEdge = -2;

struct RecordedLoop;

/// One step of recorded code. Fields that its kind does not use are empty.
struct Instruction {
  enum class Kind : std::uint8_t {
    kOp,
    kLinear,
    kDrop,
    kEnter,
    kLeave,
    kLayer,
    kRepeat,
    kNode,
    kResult
  };
  Kind kind = Kind::kOp;
  std::string name;               ///< kOp: ATen's name; kNode: the node's.
  std::uint32_t index = 0;        ///< kLinear, kEnter, kLeave: module of the scope; kLayer: layer.
  std::vector<Reference> inputs;  ///< kDrop: the values; kResult: loss and logits.
  std::vector<RecordedOutput> outputs;
  std::vector<SavedReference> saves;
  std::optional<std::uint32_t> gradient;  ///< Template of its node.
  /// The operator has written into a view of this value, whose node is now that of the operator.
  std::optional<std::uint32_t> base;
  bool takes_lists = false;  ///< An input is a list that a loop made; backward gives views.
  bool kept = false;         ///< Autocast keeps the output, a cast of a parameter, until it ends.
  std::shared_ptr<const RecordedLoop> loop;  ///< kRepeat
  std::vector<InnerStep> inside;             ///< Empty: allocates its outputs only.
  std::optional<std::int64_t> dim;           ///< The dimension along which it works.
  std::optional<double> exponent;            ///< A power.
  bool accumulates = false;                  ///< Adds to what is there, where indices are equal.
  bool as_it_lies = false;                   ///< A copy with the same order of elements.
  bool causal = false;                       ///< Attention.
  bool groups = false;                       ///< Attention: one key head for several queries.
  double dropout = 0;                        ///< Attention.
  bool mask_strided = false;                 ///< Attention: no row of the mask is contiguous.
  /// Attention: whether queries, keys and values have memory order [B, S, A, D].
  std::array<bool, 3> rows_first{};
};

/// Code and the names that it uses, relative to the layer that runs it.
struct RecordedCode {
  std::vector<Instruction> instructions;
  std::uint32_t values = 0;  ///< Their number.
};

/// The objects that the names in one run of a code stand for: indices in the recording.
struct RecordedScope {
  std::vector<std::uint32_t> parameters;
  std::vector<std::uint32_t> buffers;
  std::vector<std::uint32_t> modules;
};

/// The code of layers that are alike.
struct RecordedBody {
  std::uint32_t arguments = 0;  ///< The first values; the hidden state is value 0.
  RecordedCode code;
  std::vector<std::uint32_t> outputs;  ///< Values that the call returns.
  std::vector<std::uint32_t>
      consumed;  ///< Arguments that it drops: its caller has no name for them.
};

/// Code that runs several times, once after the other.
struct RecordedLoop {
  SizeExpression turns;
  RecordedBody body;
  /// For each argument: the value of a turn that it is in the next turn; none: the same in all.
  std::vector<std::optional<std::uint32_t>> next;
  std::uint32_t lists = 0;  ///< So many of the outputs, the last ones, are of all turns.
};

struct RecordedLayer {
  std::uint32_t module = 0;
  std::uint32_t body = 0;
  RecordedScope scope;
};

/// The bit of an edge of a backward node. Edges from 63 on share one, so that what only some of
/// them need is run for all of them: they belong to `cat` and `stack`, whose gradients are views.
[[nodiscard]] constexpr std::uint64_t edge_bit(std::size_t edge) {
  constexpr std::size_t kLast = 63;
  return std::uint64_t{1} << (edge < kLast ? edge : kLast);
}

/// A backward node.
struct RecordedGradient {
  std::string name;
  std::vector<std::int32_t> edges;  ///< Positions among the operator's inputs, or `kBaseEdge`.
  RecordedCode code;
  std::vector<Reference> results;  ///< One per edge.
  /// For each instruction, and for each saved tensor: the bits (`edge_bit`) of edges that need it.
  std::vector<std::uint64_t> needed_by;
  std::vector<std::uint64_t> saved_for;
};

/// The code that builds the model.
struct RecordedLoad {
  RecordedCode code;
  RecordedScope scope;
};

/// The images of the sequences for which a variant holds.
struct RecordedImages {
  enum class Kind : std::uint8_t {
    kNone,     ///< Text alone.
    kThese,    ///< This number of images, of this size.
    kOne,      ///< One image of any size in one sequence alone.
    kSeveral,  ///< Any number of images of any size; where `kOne` holds, that variant stands first.
  };
  Kind kind = Kind::kNone;
  Images these;             ///< `kThese`
  std::int64_t tokens = 0;  ///< Places of an image in the text; 0: `sequence_from` counts them.

  /// The tokens of the shortest sequence: those of its images, and one of text before, between and
  /// after them.
  [[nodiscard]] std::int64_t shortest(std::int64_t count) const {
    return tokens == 0 ? 1 : count * (tokens + 1) + 1;
  }
  [[nodiscard]] bool take(const std::optional<Images>& asked) const {
    if (!asked || kind == Kind::kNone) {
      return !asked && kind == Kind::kNone;
    }
    return kind == Kind::kSeveral || (kind == Kind::kOne && asked->count == 1) ||
           (kind == Kind::kThese && *asked == these);
  }
};

/// The code under one precision and one attention implementation.
struct RecordedVariant {
  DType parameters = DType::kBf16;
  std::optional<DType> autocast;
  std::string attention;
  std::vector<RecordedOutput> inputs;  ///< The model's inputs; the ids come first.
  /// For linear layers of bitsandbytes, which return the type of their input.
  bool quantised = false;
  /// `quantised`: after prepare_model_for_kbit_training, which makes the other parameters fp32.
  bool prepared = false;
  bool liger = false;  ///< With Liger's kernels in the place of the model's own code.
  RecordedImages images;
  bool masks_made = false;  ///< For batches whose mask of ones the model makes all the same.
  std::optional<std::int64_t> micro_batch;  ///< The only one for which it holds; none: any other.
  std::int64_t sequence_from = 1;           ///< Sequence lengths for which it holds.
  std::optional<std::int64_t> sequence_below;
  std::int64_t sequence_multiple = 1;
  std::optional<std::int64_t> sequence_no_multiple;

  [[nodiscard]] bool takes(const BatchSizes& sizes) const {
    return (!micro_batch || *micro_batch == sizes.batch) && sizes.sequence >= sequence_from &&
           sizes.sequence >= images.shortest(sizes.images) &&
           (!sequence_below || sizes.sequence < *sequence_below) &&
           sizes.sequence % sequence_multiple == 0 &&
           (!sequence_no_multiple || sizes.sequence % *sequence_no_multiple != 0);
  }
  /// The constructors, which variants with the same type of parameters share. Never null.
  std::shared_ptr<const RecordedLoad> load;
  RecordedCode forward;
  RecordedScope forward_scope;
  std::vector<RecordedLayer> layers;
  std::vector<RecordedBody> bodies;
};

struct RecordedModule {
  std::string path;
  std::string type;  ///< Its Python class.
  std::int32_t layer = -1;
  /// The parameters of a Linear, the weight first. A tied weight belongs to another module.
  std::vector<std::uint32_t> linear;
};

struct RecordedParameter {
  std::string name;
  std::vector<std::int64_t> dims;
  std::optional<DType> dtype;  ///< If it is not that of the variant's parameters.
  bool trainable = true;
  std::vector<std::string> other_names;  ///< The further names of a tied parameter.
  std::uint32_t module = 0;
  std::int32_t layer = -1;
  /// Numbers the layers that do not run, such as cross-attention without images, but stand in one
  /// list with layers that do.
  std::int32_t idle_layer = -1;

  [[nodiscard]] bool is_tied() const { return !other_names.empty(); }
};

struct RecordedBuffer {
  std::string name;
  std::vector<std::int64_t> dims;
  DType dtype = DType::kFp32;
};

/// The task of models that write down what they hear; their ids are labels alone.
inline constexpr std::string_view kSpeechTask = "speech-seq2seq";

struct Recording {
  std::string model;    ///< `model_type`, or the name of the user's function
  std::string task;     ///< "causal-lm", "image-text", ..., or "own" for a function of the user's.
  std::string library;  ///< The release of the library that has the code.
  std::string torch;
  std::vector<std::string> missing;  ///< Packages whose kernels the code would run if it had them.
  std::int64_t sequence_multiple = 1;  ///< Sequence lengths for which the sizes hold.
  /// The model may be another one in fp16: its code tests for fp16, or some of its modules stay
  /// fp32. Older recordings do not say; they count as such.
  bool differs_in_fp16 = true;
  std::vector<RecordedModule> modules;
  std::vector<RecordedParameter> parameters;
  std::vector<RecordedBuffer> buffers;
  std::vector<RecordedGradient> gradients;
  std::vector<RecordedVariant> variants;

  /// Whether attention was recorded as one operator, which transformers chooses where it can.
  [[nodiscard]] bool has_fused_attention() const {
    return std::ranges::any_of(variants,
                               [](const RecordedVariant& one) { return one.attention == "sdpa"; });
  }
};

}  // namespace headroom::ir
