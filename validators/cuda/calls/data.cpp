#include "validators/cuda/arguments.h"
#include "validators/cuda/calls/launch.h"

namespace headroom::cuda {
namespace {

std::int32_t fill(HeadroomDevice* d, HeadroomStream stream, void* out, std::int32_t type,
                  std::int64_t count, double value) {
  return launch(d, stream, {type}, grid_of_elements(count),
                FillArguments{.out = out, .count = count, .value = static_cast<float>(value)});
}

std::int32_t random_normal(HeadroomDevice* d, HeadroomStream stream, void* out, std::int32_t type,
                           std::int64_t begin, std::int64_t count, std::int64_t columns,
                           std::int64_t row_offset, std::int64_t column_offset,
                           std::int64_t whole_columns, std::uint64_t seed, double mean,
                           double deviation) {
  return launch(d, stream, {type}, grid_of_elements(count),
                RandomNormalArguments{.out = out,
                                      .begin = begin,
                                      .count = count,
                                      .columns = columns,
                                      .row_offset = row_offset,
                                      .column_offset = column_offset,
                                      .whole_columns = whole_columns,
                                      .seed = seed,
                                      .mean = mean,
                                      .deviation = deviation});
}

std::int32_t random_tokens(HeadroomDevice* d, HeadroomStream stream, std::int32_t* out,
                           std::int64_t begin, std::int64_t count, std::int64_t limit,
                           std::uint64_t seed) {
  return launch(d, stream, {}, grid_of_elements(count),
                RandomTokensArguments{
                    .out = out, .begin = begin, .count = count, .limit = limit, .seed = seed});
}

std::int32_t embedding(HeadroomDevice* d, HeadroomStream stream, void* out, const void* table,
                       std::int32_t type, const std::int32_t* ids, std::int64_t tokens,
                       std::int64_t columns, std::int64_t first, std::int64_t table_rows) {
  return launch(d, stream, {type}, grid_of_rows(tokens, columns),
                EmbeddingArguments{.out = out,
                                   .table = table,
                                   .ids = ids,
                                   .tokens = tokens,
                                   .columns = columns,
                                   .first = first,
                                   .table_rows = table_rows});
}

std::int32_t embedding_backward(HeadroomDevice* d, HeadroomStream stream, void* dtable,
                                std::int32_t dtable_type, const void* dout, std::int32_t type,
                                const std::int32_t* ids, std::int64_t tokens, std::int64_t columns,
                                std::int64_t first, std::int64_t table_rows) {
  return launch(d, stream, {dtable_type, type}, Grid{.x = tokens, .threads = 256},
                EmbeddingBackwardArguments{.dtable = dtable,
                                           .dout = dout,
                                           .ids = ids,
                                           .tokens = tokens,
                                           .columns = columns,
                                           .first = first,
                                           .table_rows = table_rows});
}

std::int32_t add_positions(HeadroomDevice* d, HeadroomStream stream, void* x, const void* table,
                           std::int32_t type, std::int64_t tokens, std::int64_t columns,
                           std::int64_t sequence) {
  return launch(
      d, stream, {type}, grid_of_matrix(tokens, columns),
      AddPositionsArguments{
          .x = x, .table = table, .tokens = tokens, .columns = columns, .sequence = sequence});
}

std::int32_t add_positions_backward(HeadroomDevice* d, HeadroomStream stream, void* dtable,
                                    std::int32_t dtable_type, const void* dout, std::int32_t type,
                                    std::int64_t tokens, std::int64_t columns,
                                    std::int64_t sequence) {
  return launch(d, stream, {dtable_type, type}, grid_of_all(sequence * columns),
                AddPositionsBackwardArguments{.dtable = dtable,
                                              .dout = dout,
                                              .tokens = tokens,
                                              .columns = columns,
                                              .sequence = sequence});
}

}  // namespace

void add_data(HeadroomDeviceTable& table) {
  table.fill = fill;
  table.random_normal = random_normal;
  table.random_tokens = random_tokens;
  table.embedding = embedding;
  table.embedding_backward = embedding_backward;
  table.add_positions = add_positions;
  table.add_positions_backward = add_positions_backward;
}

}  // namespace headroom::cuda
