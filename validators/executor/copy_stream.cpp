#include "validators/executor/copy_stream.h"

namespace headroom::exec {
namespace {

/// The tensors of about one unit's step: master copy, two moments and their scales, parameters.
constexpr std::size_t kDownloadsInFlight = 6;

}  // namespace

CopyStream::CopyStream(Context& context) : context_(context) {
  context_.device.run(&HeadroomDeviceTable::stream_create, &stream_);
}

CopyStream::~CopyStream() {
  for (const HeadroomEvent unused : unused_) {
    context_.device.run(&HeadroomDeviceTable::event_destroy, unused);
  }
}

HeadroomEvent CopyStream::event() {
  HeadroomEvent made = 0;
  if (!unused_.empty()) {
    made = unused_.back();
    unused_.pop_back();
    return made;
  }
  context_.device.run(&HeadroomDeviceTable::event_create, &made);
  return made;
}

void CopyStream::follow_compute() {
  const HeadroomEvent now = event();
  context_.device.run(&HeadroomDeviceTable::event_record, now, kComputeStream);
  context_.device.run(&HeadroomDeviceTable::event_wait, now, stream_);
  unused_.push_back(now);  // A wait holds on to what was recorded, not to the event.
}

HeadroomEvent CopyStream::upload(void* to, const std::byte* host, std::int64_t bytes) {
  follow_compute();
  context_.device.run(&HeadroomDeviceTable::copy, stream_, to, static_cast<const void*>(host),
                      bytes, HEADROOM_HOST_TO_DEVICE);
  const HeadroomEvent end = event();
  context_.device.run(&HeadroomDeviceTable::event_record, end, stream_);
  return end;
}

HeadroomEvent CopyStream::download(std::byte* host, const void* from, std::int64_t bytes) {
  follow_compute();
  context_.device.run(&HeadroomDeviceTable::copy, stream_, static_cast<void*>(host), from, bytes,
                      HEADROOM_DEVICE_TO_HOST);
  const HeadroomEvent end = event();
  context_.device.run(&HeadroomDeviceTable::event_record, end, stream_);
  return end;
}

void CopyStream::download(std::byte* host, const Tensor& from) {
  pending_.push_back({.tensor = from, .end = download(host, from.data(), from.bytes())});
  while (pending_.size() > kDownloadsInFlight) {
    drop_oldest();
  }
}

void CopyStream::drop_oldest() {
  wait(pending_.front().end);
  pending_.pop_front();
}

void CopyStream::finish() {
  while (!pending_.empty()) {
    drop_oldest();
  }
}

void CopyStream::wait(HeadroomEvent event) {
  context_.device.run(&HeadroomDeviceTable::event_wait, event, kComputeStream);
  unused_.push_back(event);
}

}  // namespace headroom::exec
