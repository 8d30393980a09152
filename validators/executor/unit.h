#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "validators/executor/context.h"

namespace headroom::exec {

/// One parameter as a tensor-parallel rank has it, and its place in the whole parameter.
struct ParameterShape {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_offset = 0;
  std::int64_t column_offset = 0;
  std::int64_t whole_columns = 0;
  double mean = 0;  ///< Mean of the random numbers that it begins with.
  double deviation = 0;
  /// Each tensor-parallel rank computes a part of the gradient of a parameter that all of them
  /// have: the norms of queries and keys, which see only the rank's heads.
  bool summed = false;
  bool divided = false;     ///< Divided over tensor-parallel ranks; otherwise each has all of it.
  std::int64_t repeat = 0;  ///< > 0: matrices of so many rows, each divided (experts).
  std::int64_t whole_repeat = 0;  ///< Rows of such a matrix in the whole parameter.
};

/// Settings of the storage of all units' parameters.
struct UnitSettings {
  int zero_stage = 0;  ///< ZeRO stage over the data-parallel group; 0: all ranks have everything.
  bool parameters_on_host = false;
  bool states_on_host = false;
};

/// AdamW's numbers of one step.
struct StepValues {
  HeadroomAdamW adamw{};
  Tensor signed_code;  ///< Code of signed 8-bit states: [1, 256] fp32.
  Tensor unsigned_code;
};

class CopyStream;

/// Parameters that are gathered, updated and reduced together: a layer, the embedding, the head.
///
/// Model:  all parameters lie in one flat buffer, each at a multiple of 128 elements; the buffer is
///         padded so that each data-parallel rank has a multiple of 256 elements.
///         Stage 1 divides states, stage 2 gradients as well, stage 3 parameters as well
///         (Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, section 5). Gradients of stages 2 and
///         3 are reduced when the unit's backward has ended, those of stages 0 and 1 at the end of
///         the step. What a use of the parameters needs (copy from the host, conversion to the
///         compute type, all-gather) is made when the first use begins, and freed when the last one
///         ends.
class Unit {
 public:
  Unit(Context& context, const UnitSettings& settings);
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  /// Lays the parameters out. Must be called once, before everything else.
  void define(std::vector<ParameterShape> parameters);
  /// Makes everything that lives for the whole run, with random parameters. `seed`: each parameter
  /// has its own numbers, given by its place in the unit.
  void load(std::uint64_t seed, CopyStream* copies);

  // Calls around each use in forward, and in backward.
  void acquire();
  void release();
  /// A parameter in the compute type. Requires that the unit is acquired.
  [[nodiscard]] Tensor weight(std::size_t parameter) const;

  // Calls around the backward of the unit.
  void begin_backward();
  void end_backward();
  /// The tensor to which the gradient of a parameter is added.
  [[nodiscard]] Tensor gradient(std::size_t parameter) const;

  // Calls at the end of a step.
  /// Reduces gradients over the data-parallel ranks, if that has not happened yet.
  void reduce_gradients();
  /// Adds the squares of this rank's gradients to `sum`, such that the sum over the ranks that hold
  /// different gradients is the square of the norm.
  void add_squares(const Tensor& sum, const Tensor& partial) const;
  void step(const StepValues& values);
  void clear_gradients();

  [[nodiscard]] const std::vector<ParameterShape>& parameters() const { return parameters_; }
  /// Elements that this rank has after tensor parallelism, without padding.
  [[nodiscard]] std::int64_t elements() const;
  /// The first element of a parameter in the flat buffer.
  [[nodiscard]] std::int64_t offset(std::size_t parameter) const { return offsets_[parameter]; }
  /// This rank's part of the gradients and parameters, and the element of the flat buffer at which
  /// it begins. Parameters that are on the host give an empty tensor.
  [[nodiscard]] const Tensor& held_gradients() const { return gradients_; }
  [[nodiscard]] const Tensor& held_parameters() const { return parameter_.device; }
  [[nodiscard]] std::int64_t held_parameters_begin() const;
  /// The gradients that this rank's optimizer has read, and where they begin.
  [[nodiscard]] Tensor optimizer_gradients() const { return gradient_shard(); }
  [[nodiscard]] std::int64_t optimizer_begin() const;

 private:
  /// A persistent tensor that is on the device or on the host.
  struct Held {
    Tensor device;
    std::byte* host = nullptr;
    std::int64_t elements = 0;
    ir::DType type = ir::DType::kFp32;
    [[nodiscard]] bool empty() const { return elements == 0; }
    [[nodiscard]] std::int64_t bytes() const { return elements * ir::bits_of(type) / 8; }
  };
  [[nodiscard]] bool divides(int stage) const;
  void fill_random(const Tensor& to, std::int64_t begin, std::uint64_t seed) const;
  void fill_parameter(const Tensor& to, std::int64_t begin, std::size_t parameter,
                      std::uint64_t seed) const;
  void add_squares(const Tensor& sum, const Tensor& partial, std::int64_t begin, std::int64_t end,
                   double factor) const;
  [[nodiscard]] Tensor gradient_shard() const;
  void sum_over_tensor_ranks(const Tensor& gradients) const;
  [[nodiscard]] Held hold(std::int64_t elements, ir::DType type, ir::TensorRole role, bool on_host,
                          ir::HostUse use);
  /// Brings what is on the host to the device; the tensor itself if it is there.
  [[nodiscard]] Tensor fetch(const Held& held, ir::TensorRole role);
  void store(const Held& held, const Tensor& tensor);

  Context& context_;
  UnitSettings settings_;
  std::vector<ParameterShape> parameters_;
  std::vector<std::int64_t> offsets_;
  std::int64_t divided_ = 0;  ///< The first elements are those of divided parameters.
  std::int64_t flat_ = 0;     ///< Elements of the flat buffer.
  std::int64_t shard_ = 0;    ///< Elements of a data-parallel rank.
  CopyStream* copies_ = nullptr;

  Held parameter_;     ///< `flat_` or, in stage 3, `shard_` elements.
  Held master_;        ///< As many elements as the states have.
  Held first_moment_;  ///< `flat_` elements in stage 0, otherwise `shard_`.
  Held second_moment_;
  Held first_scale_;  ///< Scales of 8-bit states.
  Held second_scale_;
  Tensor gradients_;  ///< `flat_` elements in stages 0 and 1, otherwise `shard_`.

  int uses_ = 0;
  Tensor weights_;  ///< `flat_` elements of the compute type, while the unit is in use.
  int backwards_ = 0;
  Tensor whole_gradients_;  ///< Tensor of which `gradient` returns views, during backward.
};

}  // namespace headroom::exec
