#include "validators/executor/memory.h"

#include <algorithm>
#include <iterator>
#include <variant>

#include "model_ir/base/check.h"

namespace headroom::exec {

Memory::Memory(Device& device, const ir::AllocatorSettings& settings, Bytes capacity,
               Backing backing)
    : device_(device),
      backing_(backing),
      replay_(program_, settings, cost::DeviceMemory{.capacity = capacity}) {
  if (backing_ == Backing::kDevice) {
    replay_.allocator().serve_from(*this);
  }
  set_site("load", -1, false);
  program_.work.streams = {"compute"};
}

Memory::~Memory() {
  for (const auto& [address, segment] : segments_) {
    device_.table().memory_free(device_.handle(), segment.memory);
  }
  for (std::byte* const host : host_) {
    device_.table().host_free(device_.handle(), host);
  }
}

bool Memory::open(std::int64_t address, Bytes bytes) {
  void* memory = nullptr;
  device_.run(&HeadroomDeviceTable::memory_allocate, bytes.value(), &memory);
  if (memory == nullptr) {
    return false;
  }
  segments_[address] = {.memory = static_cast<std::byte*>(memory), .bytes = bytes.value()};
  std::int64_t free_bytes = 0;
  std::int64_t total = 0;
  device_.run(&HeadroomDeviceTable::memory_info, &free_bytes, &total);
  if (device_.failed()) {
    return true;
  }
  least_free_ = std::min(least_free_.value_or(Bytes{free_bytes}), Bytes{free_bytes});
  return true;
}

void Memory::close(std::int64_t address) {
  const auto segment = segments_.find(address);
  HEADROOM_ASSERT(segment != segments_.end());
  void* const memory = segment->second.memory;
  if (device_.failed()) {
    // `run` does nothing any more; the segment is given back all the same.
    device_.table().memory_free(device_.handle(), memory);
  } else {
    device_.run(&HeadroomDeviceTable::memory_free, memory);
  }
  segments_.erase(segment);
}

std::byte* Memory::address_of(ir::BlockId block) const {
  const std::int64_t address = replay_.allocator().address_of(block);
  if (backing_ != Backing::kDevice) {
    return reinterpret_cast<std::byte*>(address);  // It is never read, because no kernel runs.
  }
  const auto segment = std::prev(segments_.upper_bound(address));
  const std::int64_t offset = address - segment->first;
  HEADROOM_ASSERT(offset < segment->second.bytes);
  return segment->second.memory + offset;
}

bool Memory::step() {
  const std::size_t event = program_.events.size() - 1;
  return meter_ ? meter_->step(event) : replay_.step(event);
}

Block Memory::allocate(std::int64_t bytes, ir::TensorRole role) {
  const Block none{};
  if (device_.failed() || failed_) {
    return none;
  }
  const ir::BlockId id = program_.blocks++;
  program_.events.push_back({.kind = ir::EventKind::kAllocate,
                             .role = role,
                             .stream = 0,
                             .reserved = 0,
                             .block = id,
                             .bytes = bytes,
                             .site = site_});
  if (!step()) {
    if (device_.failed()) {
      return none;  // The device has a fault of its own and says which.
    }
    failed_ = cost::OutOfMemory{.event = program_.events.size() - 1,
                                .phase = phases_.size(),
                                .requested = Bytes{bytes},
                                .allocated = replay_.allocated(),
                                .reserved = replay_.allocator().state().reserved};
    device_.stop("out of memory: " + to_text(Bytes{bytes}) + " for " +
                 program_.operations[program_.sites[site_].operation] + ", with " +
                 to_text(replay_.allocated()) + " allocated");
    return none;
  }
  return {.id = id, .address = bytes > 0 ? address_of(id) : nullptr};
}

void Memory::free(const Block& block) {
  if (failed_ || device_.failed()) {
    return;  // The program ends with the request that failed.
  }
  program_.events.push_back({.kind = ir::EventKind::kFree,
                             .role = ir::TensorRole::kTemporary,
                             .stream = 0,
                             .reserved = 0,
                             .block = block.id,
                             .bytes = 0,
                             .site = site_});
  HEADROOM_ASSERT(step());
}

std::byte* Memory::allocate_host(std::int64_t bytes, ir::HostUse use) {
  ir::hold_on_host(program_, use, ir::HostPages::kPinned, bytes);
  void* host = nullptr;
  device_.run(&HeadroomDeviceTable::host_allocate, bytes, &host);
  if (host == nullptr) {
    device_.stop("no " + to_text(Bytes{bytes}) + " of page-locked host memory");
    return nullptr;
  }
  host_.push_back(static_cast<std::byte*>(host));
  return host_.back();
}

void Memory::add_work(const ir::WorkShape& shape, std::uint8_t stream) {
  // There are a few dozen distinct shapes; neighbours are often alike.
  std::vector<ir::WorkShape>& shapes = program_.work.shapes;
  const auto known = std::find(shapes.rbegin(), shapes.rend(), shape);
  auto index = static_cast<std::uint32_t>(shapes.size());
  if (known == shapes.rend()) {
    shapes.push_back(shape);
  } else {
    index = static_cast<std::uint32_t>(std::distance(known, shapes.rend())) - 1;
  }
  add_mark(ir::WorkItem::Kind::kRun, stream, index);
  if (meter_) {
    std::visit([this](const auto& work) { program_.phases.back().work.add(work); }, shape);
  }
}

void Memory::add_mark(ir::WorkItem::Kind kind, std::uint8_t stream, std::uint32_t mark) {
  program_.work.items.push_back({.kind = kind,
                                 .stream = stream,
                                 .loop = 0,
                                 .index = mark,
                                 .event = static_cast<std::uint32_t>(program_.events.size()),
                                 .site = site_});
}

std::uint8_t Memory::new_stream(std::string_view name) {
  program_.work.streams.emplace_back(name);
  return static_cast<std::uint8_t>(program_.work.streams.size() - 1);
}

void Memory::begin_phase(const ir::PhaseName& name) {
  end_phase();
  const std::size_t begin = program_.events.size();
  program_.phases.push_back({.name = name,
                             .begin = begin,
                             .end = begin,
                             .work = {},
                             .first_item = program_.work.items.size(),
                             .end_item = program_.work.items.size()});
  meter_.emplace(replay_, name, begin);
}

void Memory::end_phase() {
  if (meter_) {
    program_.phases.back().end = program_.events.size();
    program_.phases.back().end_item = program_.work.items.size();
    phases_.push_back(meter_->result());
    meter_.reset();
  }
}

void Memory::set_site(std::string_view operation, int layer, bool backward) {
  const auto known = operations_.find(operation);
  std::uint16_t number = 0;
  if (known != operations_.end()) {
    number = known->second;
  } else {
    number = static_cast<std::uint16_t>(program_.operations.size());
    operations_.emplace(operation, number);
    program_.operations.emplace_back(operation);
  }
  const std::uint64_t key = (static_cast<std::uint64_t>(layer + 1) << 20) |
                            (static_cast<std::uint64_t>(number) << 1) | (backward ? 1U : 0U);
  const auto [site, added] = sites_.emplace(key, static_cast<std::uint32_t>(program_.sites.size()));
  if (added) {
    program_.sites.push_back({.layer = layer, .operation = number, .backward = backward});
  }
  site_ = site->second;
}

}  // namespace headroom::exec
