#include "model_ir/spec/recording/size_expression.h"

#include <charconv>
#include <utility>

namespace headroom::ir {
namespace {

/// Reads expressions from left to right.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<std::vector<SizeExpression::Term>> sum() {
    std::vector<SizeExpression::Term> terms;
    bool negative = accept('-');
    do {
      SizeExpression::Term term;
      if (!product(term)) {
        return std::nullopt;
      }
      term.factor = negative ? -term.factor : term.factor;
      terms.push_back(std::move(term));
      negative = false;
      if (accept('+')) {
        continue;
      }
      if (!accept('-')) {
        break;
      }
      negative = true;
    } while (true);
    skip();
    return text_.empty() ? std::optional(std::move(terms)) : std::nullopt;
  }

 private:
  void skip() {
    while (!text_.empty() && text_.front() == ' ') {
      text_.remove_prefix(1);
    }
  }

  bool accept(char wanted) {
    skip();
    if (text_.empty() || text_.front() != wanted) {
      return false;
    }
    text_.remove_prefix(1);
    return true;
  }

  std::optional<std::int64_t> number() {
    skip();
    std::int64_t value = 0;
    const auto [end, fault] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (fault != std::errc{} || value < 0 || value > SizeExpression::kGreatest) {
      return std::nullopt;
    }
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }

  bool quotient(SizeExpression::Term& term) {
    constexpr std::string_view kName = "ceil(S/";
    if (!text_.starts_with(kName)) {
      return false;
    }
    text_.remove_prefix(kName.size());
    const std::optional<std::int64_t> divisor = number();
    if (!divisor || *divisor == 0 || !accept(')')) {
      return false;
    }
    term.divisors.push_back(*divisor);
    return true;
  }

  bool product(SizeExpression::Term& term) {
    constexpr int kMostFactors = 16;
    for (int factors = 0; factors < kMostFactors; ++factors) {
      skip();
      if (accept('B')) {
        ++term.batch_power;
      } else if (accept('S')) {
        ++term.sequence_power;
      } else if (accept('I')) {
        ++term.images_power;
      } else if (!quotient(term)) {
        const std::optional<std::int64_t> value = number();
        if (!value || __builtin_mul_overflow(term.factor, *value, &term.factor)) {
          return false;
        }
      }
      if (!accept('*')) {
        return true;
      }
    }
    return false;
  }

  std::string_view text_;
};

/// Multiplies `value` by `factor`; false if the product does not fit.
bool multiply(std::int64_t& value, std::int64_t factor) {
  return !__builtin_mul_overflow(value, factor, &value);
}

std::optional<std::int64_t> value_of(const SizeExpression::Term& term, const BatchSizes& sizes) {
  std::int64_t value = term.factor;
  for (int power = 0; power < term.batch_power; ++power) {
    if (!multiply(value, sizes.batch)) {
      return std::nullopt;
    }
  }
  for (int power = 0; power < term.sequence_power; ++power) {
    if (!multiply(value, sizes.sequence)) {
      return std::nullopt;
    }
  }
  for (int power = 0; power < term.images_power; ++power) {
    if (!multiply(value, sizes.images)) {
      return std::nullopt;
    }
  }
  for (const std::int64_t divisor : term.divisors) {
    if (!multiply(value, sizes.sequence / divisor + (sizes.sequence % divisor != 0 ? 1 : 0))) {
      return std::nullopt;
    }
  }
  return value;
}

}  // namespace

std::optional<SizeExpression> SizeExpression::parse(std::string_view text) {
  std::optional<std::vector<Term>> terms = Parser(text).sum();
  if (!terms) {
    return std::nullopt;
  }
  SizeExpression expression;
  for (Term& term : *terms) {
    const bool depends = term.batch_power > 0 || term.sequence_power > 0 || term.images_power > 0 ||
                         !term.divisors.empty();
    if (depends) {
      expression.terms_.push_back(std::move(term));
    } else if (__builtin_add_overflow(expression.number_, term.factor, &expression.number_)) {
      return std::nullopt;
    }
  }
  return expression;
}

std::optional<std::int64_t> SizeExpression::sum_at(const BatchSizes& sizes) const {
  std::int64_t sum = number_;
  for (const Term& term : terms_) {
    const std::optional<std::int64_t> value = value_of(term, sizes);
    if (!value || __builtin_add_overflow(sum, *value, &sum)) {
      return std::nullopt;
    }
  }
  return sum;
}

}  // namespace headroom::ir
