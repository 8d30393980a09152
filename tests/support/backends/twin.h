#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "validators/executor/device_abi.h"

/// One call on two backends with the same inputs, and how far their outputs are apart. Used without
/// doctest by the program that compares a GPU with the CPU.
namespace headroom::test {

/// Memory of both backends with as many elements, and room behind it that nobody may write.
struct Twins {
  std::int32_t type = HEADROOM_FP32;
  std::int64_t count = 0;
  void* memory[2] = {nullptr, nullptr};
  std::int64_t offset = 0;  ///< Elements before the first one.
};

/// The difference of one output between the backends.
struct Difference {
  std::string what;  ///< Case and output.
  double error = 0;  ///< Largest, as a share of what is tolerated.
};

class Twin {
 public:
  /// Opens device 0 of both. `before`: called with 0 or 1 before the backend runs.
  ///
  /// Throws std::runtime_error with the backend's sentence.
  Twin(const HeadroomDeviceTable& reference, const HeadroomDeviceTable& other,
       std::function<void(int)> before = {});
  ~Twin();
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;

  /// Whether the second backend computes anything.
  [[nodiscard]] bool can_compare() const { return can_compare_; }
  [[nodiscard]] const HeadroomDeviceInfo& info() const { return info_; }
  /// Factor of all tolerances; 0: outputs are equal to the bit.
  void tolerate(double factor) { factor_ = factor; }

  void begin(const std::string& name) { name_ = name; }
  [[nodiscard]] test::Random& random() { return random_; }

  // Inputs and outputs of the case that runs. `offset` elements lie before the first.
  [[nodiscard]] Twins normal(std::int32_t type, std::int64_t count, double deviation = 1,
                             std::int64_t offset = 0);
  [[nodiscard]] Twins values(std::int32_t type, const std::vector<double>& values,
                             std::int64_t offset = 0);
  [[nodiscard]] Twins integers(const std::vector<std::int32_t>& values);
  /// A tensor filled with something that is no result.
  [[nodiscard]] Twins output(std::int32_t type, std::int64_t count, std::int64_t offset = 0);

  /// Runs the call on both, `at(twins)` being their address.
  using At = std::function<void*(const Twins&)>;
  void run(const std::function<std::int32_t(const HeadroomDeviceTable&, HeadroomDevice*,
                                            const At&)>& call);

  /// Compares an output: |a - b| <= tolerance of its type * (|a| + largest |a| / 10).
  void compare(const std::string& output, const Twins& twins, double factor = 1);
  /// The elements of the first backend, as numbers.
  [[nodiscard]] std::vector<double> numbers(const Twins& twins, int side);

  /// Frees the memory of the case.
  void end();

  /// Adds a comparison that a case has made itself.
  void add(const Difference& difference) { differences_.push_back(difference); }
  /// All comparisons so far.
  [[nodiscard]] const std::vector<Difference>& differences() const { return differences_; }

 private:
  [[nodiscard]] Twins allocate(std::int32_t type, std::int64_t count, std::int64_t offset);
  void upload(const Twins& twins, const std::vector<std::byte>& bytes);
  [[nodiscard]] std::vector<std::byte> download(const Twins& twins, int side);
  void check(int side, std::int32_t code) const;

  const HeadroomDeviceTable* table_[2];
  HeadroomDevice* device_[2] = {nullptr, nullptr};
  std::function<void(int)> before_;
  HeadroomDeviceInfo info_{};
  bool can_compare_ = true;
  double factor_ = 1;
  std::string name_;
  test::Random random_{17};
  std::vector<Twins> live_;
  std::vector<Difference> differences_;
};

/// Runs every function of the table that computes, on sizes that are no multiples of anything, with
/// row strides, odd addresses and every element type of CUDA.
void compare_all_functions(Twin& twin);

// Parts of `compare_all_functions`.
void compare_elementwise(Twin& twin);
void compare_norms(Twin& twin);
void compare_attention(Twin& twin);
/// The same for one type: it has both ways of fused attention.
void compare_attention_bf16(Twin& twin);
void compare_loss(Twin& twin);
void compare_experts(Twin& twin);
void compare_optimizer(Twin& twin);
void compare_products(Twin& twin);

}  // namespace headroom::test
