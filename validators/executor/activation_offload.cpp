#include "validators/executor/stage.h"

#include <utility>

namespace headroom::exec {

std::byte* ActivationOffload::host_block(std::int64_t bytes) {
  const auto found = unused_.find(bytes);
  if (found == unused_.end()) {
    return context_.memory.allocate_host(bytes, ir::HostUse::kActivations);
  }
  std::byte* const block = found->second;
  unused_.erase(found);
  return block;
}

void ActivationOffload::leave(Pass& pass, Saved saved) {
  Pass::Layer layer;
  for (std::shared_ptr<Storage>& storage : saved) {
    layer.host.push_back(host_block(storage->bytes()));
    layer.events.push_back(
        copies_.download(layer.host.back(), storage->address(), storage->bytes()));
  }
  layer.saved = std::move(saved);
  pass.layers.push_back(std::move(layer));
  if (pass.layers.size() > 1) {
    free_blocks(pass.layers[pass.layers.size() - 2]);
  }
}

void ActivationOffload::settle(Pass& pass) {
  if (!pass.layers.empty()) {
    free_blocks(pass.layers.back());
  }
}

void ActivationOffload::free_blocks(Pass::Layer& layer) {
  if (layer.on_host) {
    return;
  }
  for (const HeadroomEvent event : std::exchange(layer.events, {})) {
    copies_.wait(event);
  }
  for (const std::shared_ptr<Storage>& storage : layer.saved) {
    storage->give_back();
  }
  layer.on_host = true;
}

void ActivationOffload::fetch(Pass::Layer& layer) {
  if (!layer.on_host) {
    return;
  }
  for (std::size_t index = 0; index < layer.saved.size(); ++index) {
    Storage& storage = *layer.saved[index];
    storage.obtain();
    layer.events.push_back(copies_.upload(storage.address(), layer.host[index], storage.bytes()));
  }
  layer.on_host = false;
}

void ActivationOffload::enter(Pass& pass, std::size_t index) {
  if (index < pass.layers.size()) {
    Pass::Layer& layer = pass.layers[index];
    context_.begin("upload");
    fetch(layer);
    for (const HeadroomEvent event : std::exchange(layer.events, {})) {
      copies_.wait(event);
    }
    for (std::size_t block = 0; block < layer.saved.size(); ++block) {
      unused_.emplace(layer.saved[block]->bytes(), layer.host[block]);
    }
    layer.saved.clear();
  }
  if (index > 0 && index - 1 < pass.layers.size()) {
    context_.begin("upload");
    fetch(pass.layers[index - 1]);
  }
}

}  // namespace headroom::exec
