#include <algorithm>

#include "validators/executor/cpu/values.h"

namespace headroom::exec::cpu {
namespace {

std::int32_t square_sum(HeadroomDevice* d, HeadroomStream, void* sum, std::int32_t stat_type,
                        const void* x, std::int32_t type, std::int64_t count, double factor,
                        void*) {
  const Stat total(sum, stat_type);
  return typed(d, type, [&](auto* e) {
    using T = Element<decltype(e)>;
    double squares = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      squares += load(in<T>(x)[i]) * load(in<T>(x)[i]);
    }
    total.set(0, total[0] + factor * squares);
  });
}

std::int32_t gradient_factor(HeadroomDevice*, HeadroomStream, void* factor, const void* square_sum,
                             std::int32_t stat_type, double max_norm, double inverse_scale) {
  const Stat result(factor, stat_type);
  const double squares = Stat(square_sum, stat_type)[0];
  if (!std::isfinite(squares)) {
    result.set(0, 0);
    return 0;
  }
  const double norm = std::sqrt(squares) * inverse_scale;
  result.set(0, inverse_scale * (max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0));
  return 0;
}

/// One element of AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2).
struct Moments {
  double first = 0;
  double second = 0;
};
double step_of(const HeadroomAdamW& v, double parameter, double gradient, Moments& moments) {
  moments.first = v.beta1 * moments.first + (1 - v.beta1) * gradient;
  moments.second = v.beta2 * moments.second + (1 - v.beta2) * gradient * gradient;
  const auto step = static_cast<double>(v.step);
  const double first = moments.first / (1 - std::pow(v.beta1, step));
  const double second = moments.second / (1 - std::pow(v.beta2, step));
  return parameter * (1 - v.learning_rate * v.weight_decay) -
         v.learning_rate * first / (std::sqrt(second) + v.epsilon);
}

/// A parameter, or its master copy, and what becomes of both.
template <typename T>
struct Updated {
  T* parameters;
  Stat master;
  bool has_master;
  [[nodiscard]] double value(std::int64_t i) const {
    return has_master ? master[i] : load(parameters[i]);
  }
  void set(std::int64_t i, double value) const {
    if (has_master) {
      master.set(i, value);
    }
    if (parameters != nullptr) {
      store(parameters[i], value);
    }
  }
};

std::int32_t adamw(HeadroomDevice* d, HeadroomStream, void* parameters, std::int32_t parameter_type,
                   void* master, void* first_moment, void* second_moment, std::int32_t state_type,
                   const void* gradients, std::int32_t gradient_type, std::int64_t count,
                   const HeadroomAdamW* values) {
  const double factor = Stat(values->gradient_factor, parameter_type)[0];
  if (factor == 0) {
    return 0;
  }
  bool known = true;
  const std::int32_t code = typed(d, parameter_type, gradient_type, [&](auto* e, auto* g) {
    using T = Element<decltype(e)>;
    const auto* const gradient = in<Element<decltype(g)>>(gradients);
    const Updated<T> updated{.parameters = out<T>(parameters),
                             .master = Stat(master, parameter_type),
                             .has_master = master != nullptr};
    known = with_type(state_type, [&](auto* s) {
      auto* const first = out<Element<decltype(s)>>(first_moment);
      auto* const second = out<Element<decltype(s)>>(second_moment);
      for (std::int64_t i = 0; i < count; ++i) {
        Moments moments{.first = load(first[i]), .second = load(second[i])};
        updated.set(i, step_of(*values, updated.value(i), factor * load(gradient[i]), moments));
        store(first[i], moments.first);
        store(second[i], moments.second);
      }
    });
  });
  return code != 0 ? code : answer(d, known);
}

/// The byte whose number is nearest to `value`; the lower one of two.
std::uint8_t nearest(const float* code, double value) {
  const float* const end = code + 256;
  const float* const above = std::lower_bound(
      code, end, value, [](float a, double b) { return static_cast<double>(a) < b; });
  if (above == code) {
    return 0;
  }
  if (above == end) {
    return 255;
  }
  const double up = static_cast<double>(*above) - value;
  const double down = value - static_cast<double>(above[-1]);
  return static_cast<std::uint8_t>((down <= up ? above - 1 : above) - code);
}

void pack(std::uint8_t* bytes, float& scale, const float* code, const double* values,
          std::int64_t count) {
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(values[i]));
  }
  scale = static_cast<float>(largest);
  for (std::int64_t i = 0; i < count; ++i) {
    bytes[i] = nearest(code, largest > 0 ? values[i] / static_cast<double>(scale) : 0);
  }
}

std::int32_t adamw_8bit(HeadroomDevice* d, HeadroomStream, void* parameters,
                        std::int32_t parameter_type, void* master, std::uint8_t* first_moment,
                        std::uint8_t* second_moment, float* first_scale, float* second_scale,
                        const float* signed_code, const float* unsigned_code, const void* gradients,
                        std::int32_t gradient_type, std::int64_t count,
                        const HeadroomAdamW* values) {
  const double factor = Stat(values->gradient_factor, parameter_type)[0];
  if (factor == 0) {
    return 0;
  }
  return typed(d, parameter_type, gradient_type, [&](auto* e, auto* g) {
    using T = Element<decltype(e)>;
    const auto* const gradient = in<Element<decltype(g)>>(gradients);
    const Updated<T> updated{.parameters = out<T>(parameters),
                             .master = Stat(master, parameter_type),
                             .has_master = master != nullptr};
    for (std::int64_t begin = 0; begin < count; begin += HEADROOM_STATE_BLOCK) {
      const std::int64_t size = std::min<std::int64_t>(HEADROOM_STATE_BLOCK, count - begin);
      const std::int64_t block = begin / HEADROOM_STATE_BLOCK;
      double first[HEADROOM_STATE_BLOCK];
      double second[HEADROOM_STATE_BLOCK];
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t place = begin + i;
        Moments moments{
            .first = static_cast<double>(first_scale[block] * signed_code[first_moment[place]]),
            .second =
                static_cast<double>(second_scale[block] * unsigned_code[second_moment[place]])};
        updated.set(
            place, step_of(*values, updated.value(place), factor * load(gradient[place]), moments));
        first[i] = moments.first;
        second[i] = moments.second;
      }
      pack(first_moment + begin, first_scale[block], signed_code, first, size);
      pack(second_moment + begin, second_scale[block], unsigned_code, second, size);
    }
  });
}

}  // namespace

void add_optimizer(HeadroomDeviceTable& table) {
  table.square_sum = square_sum;
  table.gradient_factor = gradient_factor;
  table.adamw = adamw;
  table.adamw_8bit = adamw_8bit;
}

}  // namespace headroom::exec::cpu
