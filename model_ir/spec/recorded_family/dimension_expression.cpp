#include "model_ir/spec/recorded_family/dimension_expression.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace headroom::ir {
namespace {

constexpr std::int64_t kGreatest = std::int64_t{1} << 53;

/// A fraction in lowest terms; `is_valid` is false after an overflow.
struct Fraction {
  std::int64_t over = 1;
  std::int64_t under = 1;
  bool is_valid = true;

  void multiply(std::int64_t by) {
    if (!is_valid) {
      return;
    }
    const std::int64_t common = std::gcd(by, under);
    if (common == 0) {
      over = 0;
      return;
    }
    under /= common;
    is_valid = is_valid && !__builtin_mul_overflow(over, by / common, &over);
  }

  void divide(std::int64_t by) {
    if (by <= 0 || !is_valid) {
      is_valid = false;
      return;
    }
    const std::int64_t common = std::gcd(over, by);
    over /= common;
    is_valid = is_valid && !__builtin_mul_overflow(under, by / common, &under);
  }

  void add(const Fraction& other) {
    std::int64_t mine = 0;
    std::int64_t theirs = 0;
    std::int64_t sum = 0;
    std::int64_t product = 0;
    is_valid = is_valid && other.is_valid && !__builtin_mul_overflow(over, other.under, &mine) &&
               !__builtin_mul_overflow(other.over, under, &theirs) &&
               !__builtin_add_overflow(mine, theirs, &sum) &&
               !__builtin_mul_overflow(under, other.under, &product);
    if (is_valid) {
      const std::int64_t common = std::gcd(sum, product);
      over = sum / common;
      under = product / common;
    }
  }
};

/// A term: a coefficient, and its factors of B, S and I as text.
struct SizeTerm {
  Fraction factor;
  std::string rest;
};

bool is_of_batch(std::string_view factor) {
  return factor == "B" || factor == "S" || factor == "I" || factor.starts_with("ceil(");
}

std::optional<std::int64_t> number_of(std::string_view name, const DimensionOf& dimension_of) {
  if (!name.empty() && name.front() >= '0' && name.front() <= '9') {
    std::int64_t number = 0;
    const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), number);
    return fault == std::errc() && end == name.data() + name.size() ? std::optional(number)
                                                                    : std::nullopt;
  }
  return dimension_of(name);
}

/// Multiplies the term by "hidden_size/num_attention_heads/2".
bool add_quotient(std::string_view text, const DimensionOf& dimension_of, Fraction& factor) {
  bool is_first = true;
  while (true) {
    const std::size_t slash = text.find('/');
    const std::optional<std::int64_t> number = number_of(text.substr(0, slash), dimension_of);
    if (!number || *number > kGreatest || *number < -kGreatest) {
      return false;
    }
    if (is_first) {
      factor.multiply(*number);
    } else {
      factor.divide(*number);
    }
    is_first = false;
    if (slash == std::string_view::npos) {
      return factor.is_valid;
    }
    text.remove_prefix(slash + 1);
  }
}

std::optional<SizeTerm> read_term(std::string_view text, const DimensionOf& dimension_of) {
  SizeTerm term;
  if (text.starts_with('-')) {
    term.factor.over = -1;
    text.remove_prefix(1);
  }
  while (true) {
    const std::size_t star = text.find('*');
    const std::string_view factor = text.substr(0, star);
    if (is_of_batch(factor)) {
      term.rest += (term.rest.empty() ? "" : "*") + std::string(factor);
    } else if (!add_quotient(factor, dimension_of, term.factor)) {
      return std::nullopt;
    }
    if (star == std::string_view::npos) {
      const bool is_small =
          term.factor.is_valid && term.factor.over <= kGreatest && term.factor.over >= -kGreatest;
      return is_small ? std::optional(std::move(term)) : std::nullopt;
    }
    text.remove_prefix(star + 1);
  }
}

void add_term(std::vector<SizeTerm>& terms, SizeTerm term) {
  for (SizeTerm& known : terms) {
    if (known.rest == term.rest) {
      known.factor.add(term.factor);
      return;
    }
  }
  terms.push_back(std::move(term));
}

std::optional<std::vector<SizeTerm>> read_terms(std::string_view text,
                                                const DimensionOf& dimension_of) {
  std::vector<SizeTerm> terms;
  bool is_negative = false;
  while (true) {
    const std::size_t plus = text.find(" + ");
    const std::size_t minus = text.find(" - ");
    const std::size_t end = std::min(plus, minus);
    std::optional<SizeTerm> term = read_term(text.substr(0, end), dimension_of);
    if (!term) {
      return std::nullopt;
    }
    if (is_negative && term->factor.is_valid) {
      term->factor.over = -term->factor.over;
    }
    add_term(terms, std::move(*term));
    if (end == std::string_view::npos) {
      return terms;
    }
    is_negative = end == minus;
    text.remove_prefix(end + 3);
  }
}

}  // namespace

std::optional<JsonValue> size_of(std::string_view text, const DimensionOf& dimension_of) {
  const std::optional<std::vector<SizeTerm>> terms = read_terms(text, dimension_of);
  if (!terms) {
    return std::nullopt;
  }
  std::string written;
  std::int64_t constant = 0;
  for (const SizeTerm& term : *terms) {
    const Fraction& factor = term.factor;
    if (!factor.is_valid || factor.under != 1 || factor.over > kGreatest ||
        factor.over < -kGreatest) {
      return std::nullopt;
    }
    if (factor.over == 0) {
      continue;
    }
    if (term.rest.empty()) {
      constant = factor.over;
    }
    const std::int64_t size = factor.over < 0 ? -factor.over : factor.over;
    const std::string_view sign =
        factor.over < 0 ? (written.empty() ? "-" : " - ") : (written.empty() ? "" : " + ");
    written += sign;
    if (term.rest.empty() || size != 1) {
      written += std::to_string(size);
    }
    if (!term.rest.empty()) {
      written += (size != 1 ? "*" : "") + term.rest;
    }
  }
  const bool is_number = written == std::to_string(constant) || written.empty();
  return is_number ? JsonValue(constant) : JsonValue(std::move(written));
}

}  // namespace headroom::ir
