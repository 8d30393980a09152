#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace headroom::ir {

/// The numbers on which the sizes of a recording depend.
struct BatchSizes {
  std::int64_t batch = 1;     ///< B: sequences in a micro-batch.
  std::int64_t sequence = 1;  ///< S: tokens of a sequence.
  std::int64_t images = 0;    ///< I: images of a sequence.
  friend bool operator==(const BatchSizes&, const BatchSizes&) = default;
};

/// A whole number as a function of B, S and I: a sum of products such as "2*B*S + ceil(S/64)*128".
class SizeExpression {
 public:
  /// A product; the quotient is rounded up.
  struct Term {
    std::int64_t factor = 1;
    int batch_power = 0;
    int sequence_power = 0;
    int images_power = 0;
    std::vector<std::int64_t> divisors;  ///< The divisors of S, one for each factor "ceil(S/d)".
    friend bool operator==(const Term&, const Term&) = default;
  };

  SizeExpression() = default;  ///< 0
  explicit SizeExpression(std::int64_t number) : number_(number) {}

  /// Reads the text form; nothing if it has none of that form, or has numbers beyond 2^53.
  [[nodiscard]] static std::optional<SizeExpression> parse(std::string_view text);

  /// The value; nothing if it is negative or above `kGreatest`.
  [[nodiscard]] std::optional<std::int64_t> at(const BatchSizes& sizes) const {
    const std::optional<std::int64_t> sum = terms_.empty() ? number_ : sum_at(sizes);
    return sum && *sum >= 0 && *sum <= kGreatest ? sum : std::nullopt;
  }

  static constexpr std::int64_t kGreatest = std::int64_t{1} << 53;

  friend bool operator==(const SizeExpression&, const SizeExpression&) = default;

 private:
  [[nodiscard]] std::optional<std::int64_t> sum_at(const BatchSizes& sizes) const;

  std::int64_t number_ = 0;  ///< The sum of the terms that depend on nothing.
  std::vector<Term> terms_;
};

}  // namespace headroom::ir
