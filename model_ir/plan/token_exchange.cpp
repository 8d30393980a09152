#include "model_ir/plan/token_exchange.h"

#include <algorithm>

namespace headroom::ir {

double reached_share(const CollectiveShape& shape, double parts) {
  const double elsewhere = shape.experts - shape.experts / parts;
  double none = 1;
  for (int drawn = 0; drawn < shape.top_k; ++drawn) {
    none *= std::max(0.0, elsewhere - drawn) / std::max(1, shape.experts - drawn);
  }
  return 1 - none;
}

}  // namespace headroom::ir
