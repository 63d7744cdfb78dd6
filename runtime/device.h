// The device table: what a backend must supply so that memory, copies, streams and events work on
// it. Everything above (arena, Context, engine, comm) speaks to a device only through this class.
#pragma once

#include <cstddef>
#include <string>

namespace ringgrad {

enum class CopyKind { host_to_host, host_to_device, device_to_host, device_to_device };

// Opaque handles, owned by Stream and Event below. A device whose work is done at call time (the
// CPU) uses the address of a dummy.
using StreamHandle = void*;
using EventHandle = void*;

class DeviceTable {
 public:
  DeviceTable() = default;
  DeviceTable(const DeviceTable&) = delete;
  DeviceTable& operator=(const DeviceTable&) = delete;
  virtual ~DeviceTable() = default;

  // As the user would name it, with index and profile: "cpu", "cuda:0", "emulated:k80:1".
  virtual std::string name() const = 0;
  // One line for `ringgrad info` and run logs: the product and what matters of its limits.
  virtual std::string description() const = 0;
  // True where device memory may be read and written by host code between kernels (the CPU).
  virtual bool host_accessible() const = 0;

  // Device memory of `bytes` bytes, aligned to 256; throws Error with the size when there is none.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* memory, std::size_t bytes) noexcept = 0;
  // Host memory that copies to and from the device may use asynchronously.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void deallocate_pinned(void* memory, std::size_t bytes) noexcept = 0;

  virtual StreamHandle create_stream() = 0;
  virtual void destroy_stream(StreamHandle stream) noexcept = 0;
  virtual void synchronize(StreamHandle stream) = 0;

  virtual EventHandle create_event() = 0;
  virtual void destroy_event(EventHandle event) noexcept = 0;
  virtual void record(EventHandle event, StreamHandle stream) = 0;
  // Work put on `stream` from now on starts after the event's latest record.
  virtual void wait(StreamHandle stream, EventHandle event) = 0;
  // Blocks the host until the event's latest record is done.
  virtual void synchronize_event(EventHandle event) = 0;

  virtual void copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
                    StreamHandle stream) = 0;
  virtual void fill_zero(void* memory, std::size_t bytes, StreamHandle stream) = 0;

  // Makes this device current for the calling thread; every thread that drives a replica calls it
  // once.
  virtual void make_current() = 0;
};

// A stream of a device; moves, never copies. The device must outlive it.
class Stream {
 public:
  explicit Stream(DeviceTable& device) : device_(&device), handle_(device.create_stream()) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { device_->destroy_stream(handle_); }

  StreamHandle handle() const { return handle_; }
  DeviceTable& device() const { return *device_; }
  void synchronize() const { device_->synchronize(handle_); }

 private:
  DeviceTable* device_;
  StreamHandle handle_;
};

// A point on a stream that other streams, or the host, wait for.
class Event {
 public:
  explicit Event(DeviceTable& device) : device_(&device), handle_(device.create_event()) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { device_->destroy_event(handle_); }

  void record(const Stream& stream) const { device_->record(handle_, stream.handle()); }
  void wait_on(const Stream& stream) const { device_->wait(stream.handle(), handle_); }
  void synchronize() const { device_->synchronize_event(handle_); }

 private:
  DeviceTable* device_;
  EventHandle handle_;
};

}  // namespace ringgrad
