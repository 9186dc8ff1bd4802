// Contexts, backends and devices, and which of them a thread uses by default.
#ifndef CHX_CHAINERX_CONTEXT_H_
#define CHX_CHAINERX_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "chx/chainerx/error.h"

namespace chainerx {

class Backend;
class Context;
class Device;

namespace internal {
struct Session;  // of a context
Session& SessionOf(Context& context);
// A context's device by its number in the session.
Device& DeviceOf(Context& context, int number);
Device& DefaultDeviceOf(Context& context);
int NumberOf(const Device& device);
}  // namespace internal

// "native:0", or "native" for its first device. A DeviceError if it is none.
class DeviceId {
 public:
  DeviceId(const std::string& name);                           // NOLINT
  DeviceId(const char* name) : DeviceId(std::string(name)) {}  // NOLINT
  DeviceId(std::string backend_name, int index)
      : backend_name_(std::move(backend_name)), index_(index) {}

  const std::string& backend_name() const { return backend_name_; }
  int index() const { return index_; }
  std::string ToString() const { return backend_name_ + ":" + std::to_string(index_); }

 private:
  std::string backend_name_;
  int index_ = 0;
};
inline bool operator==(const DeviceId& a, const DeviceId& b) {
  return a.index() == b.index() && a.backend_name() == b.backend_name();
}
inline bool operator!=(const DeviceId& a, const DeviceId& b) { return !(a == b); }
std::ostream& operator<<(std::ostream& os, const DeviceId& id);

// One of the daemon's devices. Owned by a Context.
class Device {
 public:
  Device(Backend& backend, int index, int number)
      : backend_(backend), index_(index), number_(number) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  std::string name() const;
  Backend& backend() const { return backend_; }
  Context& context() const;
  int index() const { return index_; }
  // Waits until all that was called in the context is done.
  void Synchronize();

 private:
  friend int internal::NumberOf(const Device& device);

  Backend& backend_;
  const int index_;
  const int number_;  // in the session
};
// A DeviceError unless they are the same.
void CheckEqual(const Device& a, const Device& b);

// The devices of one kind. Owned by a Context.
class Backend {
 public:
  Backend(Context& context, std::string name) : context_(context), name_(std::move(name)) {}
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  std::string GetName() const { return name_; }
  int GetDeviceCount() const { return static_cast<int>(devices_.size()); }
  Context& context() const { return context_; }
  // std::out_of_range if there is none of that index.
  Device& GetDevice(int index);
  // Any of a session's devices can send arrays to any other one.
  bool SupportsTransfer(Device&, Device&) const { return true; }

 private:
  friend class Context;

  Context& context_;
  const std::string name_;
  std::vector<std::unique_ptr<Device>> devices_;
};

using BackpropOrdinal = uint64_t;

// Names a graph. Made by a Context, which must outlive it.
class BackpropId {
 public:
  Context& context() const { return context_; }
  BackpropOrdinal ordinal() const { return ordinal_; }
  // ChainerxErrors if the id was released.
  std::string GetName() const;
  void CheckValid() const;

 private:
  friend class Context;
  BackpropId(Context& context, BackpropOrdinal ordinal) : context_(context), ordinal_(ordinal) {}

  std::reference_wrapper<Context> context_;
  BackpropOrdinal ordinal_;
};
bool operator==(const BackpropId& a, const BackpropId& b);
inline bool operator!=(const BackpropId& a, const BackpropId& b) { return !(a == b); }
// By age; a ContextError if the contexts differ.
bool operator<(const BackpropId& a, const BackpropId& b);
inline bool operator>(const BackpropId& a, const BackpropId& b) { return b < a; }
inline bool operator<=(const BackpropId& a, const BackpropId& b) { return !(b < a); }
inline bool operator>=(const BackpropId& a, const BackpropId& b) { return !(a < b); }
std::ostream& operator<<(std::ostream& os, const BackpropId& id);

// Any graph, as an argument.
class AnyGraph {};

struct ConnectOptions {
  std::string token;
  std::string tls_roots;  // PEM; empty: no TLS
  std::string tls_cert;   // the client's own, and its key; empty: none
  std::string tls_key;
};

// A session with a daemon. Arrays keep the session; their devices belong to the context, which must
// live as long as arrays are used.
class Context {
 public:
  // With the daemon at $CHX_SERVER. A ConnectionError if it is not set or cannot be reached.
  Context();
  // With the daemon at "unix:PATH" or "HOST:PORT".
  explicit Context(const std::string& address, const ConnectOptions& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // A BackendError if the daemon has no such devices.
  Backend& GetBackend(const std::string& name);
  Backend& GetNativeBackend() { return GetBackend("native"); }
  Device& GetDevice(const DeviceId& id);

  BackpropId MakeBackpropId(std::string name);
  void ReleaseBackpropId(const BackpropId& id);
  void ReleaseBackpropIdNoExcept(const BackpropId& id) noexcept;
  // ChainerxErrors if the id was released.
  void CheckValidBackpropId(const BackpropId& id) const;
  std::string GetBackpropName(const BackpropId& id);
  // Those made after it.
  std::vector<BackpropId> GetInnerBackpropIds(const BackpropId& id);
  BackpropId default_backprop_id() { return BackpropId(*this, 0); }

 private:
  friend internal::Session& internal::SessionOf(Context& context);
  friend Device& internal::DeviceOf(Context& context, int number);
  friend Device& internal::DefaultDeviceOf(Context& context);

  const std::unique_ptr<internal::Session> session_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<Device*> devices_;  // by number
};

// What threads use that have not set their own. A ContextError if there is none.
Context& GetGlobalDefaultContext();
void SetGlobalDefaultContext(Context* context);
// Of the calling thread. Setting another one forgets the thread's default device.
Context& GetDefaultContext();
void SetDefaultContext(Context* context);
// Of the calling thread. If none was set: native:0 of the default context, or what it has first.
Device& GetDefaultDevice();
// A ContextError unless the device is one of the default context.
void SetDefaultDevice(Device* device);

namespace internal {
// Null: none was set.
Context* GetDefaultContextNoExcept() noexcept;
Device* GetDefaultDeviceNoExcept() noexcept;
}  // namespace internal

// Of the default context.
inline Device& GetDevice(const DeviceId& id) { return GetDefaultContext().GetDevice(id); }
inline Backend& GetBackend(const std::string& name) { return GetDefaultContext().GetBackend(name); }
inline Backend& GetNativeBackend() { return GetDefaultContext().GetNativeBackend(); }

// The calling thread's default context until the end of the scope.
class ContextScope {
 public:
  ContextScope();
  explicit ContextScope(Context& context) : ContextScope() { SetDefaultContext(&context); }
  ContextScope(ContextScope&& other) noexcept
      : context_(other.context_), device_(other.device_), exited_(other.exited_) {
    other.exited_ = true;
  }
  ~ContextScope() { Exit(); }
  ContextScope& operator=(const ContextScope&) = delete;

  // Ends it earlier.
  void Exit();

 private:
  Context* context_;
  Device* device_;
  bool exited_ = false;
};

// The calling thread's default device until the end of the scope.
class DeviceScope {
 public:
  DeviceScope() : device_(internal::GetDefaultDeviceNoExcept()) {}
  explicit DeviceScope(Device& device) : DeviceScope() { SetDefaultDevice(&device); }
  explicit DeviceScope(Backend* backend, int index = 0) : DeviceScope(backend->GetDevice(index)) {}
  DeviceScope(DeviceScope&& other) noexcept : device_(other.device_), exited_(other.exited_) {
    other.exited_ = true;
  }
  ~DeviceScope() { Exit(); }
  DeviceScope& operator=(const DeviceScope&) = delete;

  // Ends it earlier.
  void Exit();

 private:
  Device* device_;
  bool exited_ = false;
};

}  // namespace chainerx

template <>
struct std::hash<chainerx::BackpropId> {
  size_t operator()(const chainerx::BackpropId& id) const noexcept {
    return std::hash<chainerx::BackpropOrdinal>()(id.ordinal());
  }
};

#endif  // CHX_CHAINERX_CONTEXT_H_
