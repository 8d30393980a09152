#include "cli/report/outside_json.h"

#include <utility>

#include "model_ir/json/json_writer.h"

namespace headroom::cli {

using ir::JsonFields;
using ir::JsonValue;

JsonValue outside_json(const std::vector<cost::OutsideTerm>& terms) {
  JsonValue::Array array;
  for (const cost::OutsideTerm& term : terms) {
    JsonFields fields;
    fields.add("name", term.name);
    fields.add("bytes", term.bytes);
    fields.add("bound_bytes", term.bound);
    fields.add("basis", name_of(term.basis));
    fields.add("source", term.source);
    array.push_back(std::move(fields).finish());
  }
  return JsonValue{std::move(array)};
}

}  // namespace headroom::cli
