#include "validators/snapshot/pickle_document.h"

#include <array>

#include "model_ir/base/check.h"

namespace headroom::check {
namespace {

/// The first bytes of files that are mistaken for snapshots.
struct Magic {
  std::string_view bytes;
  std::string_view kind;
};

constexpr std::array<Magic, 10> kMagics = {{
    {"PK\x03\x04", "a zip archive, such as torch.save writes for tensors"},
    {"\x1f\x8b", "a gzip file, which has to be unpacked first"},
    {"SQLite format 3", "an SQLite database, such as Nsight Systems exports"},
    {"\x89HDF", "an HDF5 file"},
    {"\x7f"
     "ELF",
     "a program"},
    {"<!DOCTYPE", "an HTML page"},
    {"<html", "an HTML page"},
    {"\n<!DOCTYPE", "an HTML page, such as torch.cuda._memory_viz writes for a browser"},
    {"{", "a JSON text"},
    {"[", "a JSON text"},
}};

}  // namespace

std::int64_t PickleDocument::integer(PickleValue value) {
  HEADROOM_ASSERT(value.kind() == PickleKind::kInteger);
  // The payload has 60 bits, the highest of which is the sign.
  constexpr int kSpare = 4;
  return static_cast<std::int64_t>(value.payload() << kSpare) >> kSpare;
}

std::span<const PickleValue> PickleDocument::items(PickleValue value) const {
  HEADROOM_ASSERT(value.kind() == PickleKind::kList || value.kind() == PickleKind::kDict);
  const Container& container = containers_[value.payload()];
  return std::span(items_).subspan(container.begin, container.count);
}

std::string_view PickleDocument::text(PickleValue value) const {
  HEADROOM_ASSERT(value.kind() == PickleKind::kText);
  return texts_[value.payload()];
}

std::size_t PickleDocument::bytes() const {
  return file_.size() + texts_.capacity() * sizeof(std::string_view) +
         reals_.capacity() * sizeof(double) + containers_.capacity() * sizeof(Container) +
         items_.capacity() * sizeof(PickleValue);
}

std::string_view kind_of_file(std::string_view bytes) {
  for (const Magic& magic : kMagics) {
    if (bytes.starts_with(magic.bytes)) {
      return magic.kind;
    }
  }
  return {};
}

}  // namespace headroom::check
