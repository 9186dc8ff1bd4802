#include "chx/chainerx/context.h"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/chainerx/internal.h"

namespace chainerx {
namespace {

std::atomic<Context*> global_context{nullptr};
thread_local Context* thread_context = nullptr;
thread_local Device* thread_device = nullptr;

std::unique_ptr<internal::Session> Connect(const std::string& address,
                                           const ConnectOptions& options) {
  chx::ConnectOptions client;
  client.client_name = "chainerx";
  client.token = options.token;
  client.tls_roots = options.tls_roots;
  client.tls_cert = options.tls_cert;
  client.tls_key = options.tls_key;
  return std::make_unique<internal::Session>(
      internal::Session{internal::ValueOrThrow(chx::Session::Connect(address, client))});
}

std::string ServerOfEnvironment() {
  const char* const server = std::getenv("CHX_SERVER");
  if (server == nullptr || *server == '\0') {
    throw ConnectionError(
        "[context] expects the daemon's address, as an argument or in $CHX_SERVER, got none");
  }
  return server;
}

}  // namespace

namespace internal {

Session& SessionOf(Context& context) { return *context.session_; }

Device& DeviceOf(Context& context, int number) {
  return *context.devices_[static_cast<size_t>(number)];
}

Device& DefaultDeviceOf(Context& context) {
  for (Device* device : context.devices_) {
    if (device->name() == "native:0") return *device;
  }
  return DeviceOf(context, 0);
}

int NumberOf(const Device& device) { return device.number_; }

Context* GetDefaultContextNoExcept() noexcept {
  return thread_context != nullptr ? thread_context : global_context.load();
}

Device* GetDefaultDeviceNoExcept() noexcept { return thread_device; }

}  // namespace internal

DeviceId::DeviceId(const std::string& name) {
  const size_t colon = name.find(':');
  backend_name_ = name.substr(0, colon);
  const bool valid =
      colon == std::string::npos || absl::SimpleAtoi(name.substr(colon + 1), &index_);
  if (!valid || backend_name_.empty() || index_ < 0) {
    throw DeviceError("[get_device] expects a name as 'native' or 'native:0', got '", name, "'");
  }
}

std::ostream& operator<<(std::ostream& os, const DeviceId& id) { return os << id.ToString(); }

std::string Device::name() const { return absl::StrCat(backend_.GetName(), ":", index_); }
Context& Device::context() const { return backend_.context(); }
void Device::Synchronize() { internal::ThrowIfError(internal::SessionIn(context()).Synchronize()); }

void CheckEqual(const Device& a, const Device& b) {
  if (&a != &b) throw DeviceError("expects equal devices, got ", a.name(), " and ", b.name());
}

Device& Backend::GetDevice(int index) {
  for (const std::unique_ptr<Device>& device : devices_) {
    if (device->index() == index) return *device;
  }
  const auto append_name = [](std::string* out, const std::unique_ptr<Device>& device) {
    out->append(device->name());
  };
  throw std::out_of_range(absl::StrCat("[get_device] expects one of ",
                                       absl::StrJoin(devices_, ", ", append_name), ", got ", name_,
                                       ":", index));
}

std::string BackpropId::GetName() const { return context().GetBackpropName(*this); }
void BackpropId::CheckValid() const { context().CheckValidBackpropId(*this); }

bool operator==(const BackpropId& a, const BackpropId& b) {
  return &a.context() == &b.context() && a.ordinal() == b.ordinal();
}
bool operator<(const BackpropId& a, const BackpropId& b) {
  if (&a.context() != &b.context()) {
    throw ContextError("expects backprop IDs of one context to compare them");
  }
  return a.ordinal() < b.ordinal();
}
std::ostream& operator<<(std::ostream& os, const BackpropId& id) {
  return os << internal::SessionIn(id.context())
                   .graphs()
                   .backprop_ids()
                   .Name(static_cast<chx::BackpropId>(id.ordinal()));
}

Context::Context() : Context(ServerOfEnvironment()) {}

Context::Context(const std::string& address, const ConnectOptions& options)
    : session_(Connect(address, options)) {
  for (const std::string& name : session_->session->devices()) {
    const DeviceId id(name);
    Backend* backend = nullptr;
    for (const std::unique_ptr<Backend>& known : backends_) {
      if (known->GetName() == id.backend_name()) backend = known.get();
    }
    if (backend == nullptr) {
      backends_.push_back(std::make_unique<Backend>(*this, id.backend_name()));
      backend = backends_.back().get();
    }
    backend->devices_.push_back(
        std::make_unique<Device>(*backend, id.index(), static_cast<int>(devices_.size())));
    devices_.push_back(backend->devices_.back().get());
  }
}

Context::~Context() {
  if (thread_context == this) SetDefaultContext(nullptr);
  if (thread_device != nullptr && &thread_device->context() == this) thread_device = nullptr;
  Context* self = this;
  global_context.compare_exchange_strong(self, nullptr);
}

Backend& Context::GetBackend(const std::string& name) {
  for (const std::unique_ptr<Backend>& backend : backends_) {
    if (backend->GetName() == name) return *backend;
  }
  const auto append_name = [](std::string* out, const std::unique_ptr<Backend>& backend) {
    out->append(backend->GetName());
  };
  throw BackendError("[get_backend] expects one of the daemon's backends (",
                     absl::StrJoin(backends_, ", ", append_name), "), got '", name, "'");
}

Device& Context::GetDevice(const DeviceId& id) {
  return GetBackend(id.backend_name()).GetDevice(id.index());
}

BackpropId Context::MakeBackpropId(std::string name) {
  return BackpropId(
      *this, internal::ValueOrThrow(session_->session->graphs().NewBackpropId(std::move(name))));
}

void Context::ReleaseBackpropId(const BackpropId& id) {
  internal::ThrowIfError(session_->session->graphs().ReleaseBackpropId(internal::ToChx(id, *this)));
}

void Context::ReleaseBackpropIdNoExcept(const BackpropId& id) noexcept {
  session_->session->graphs()
      .ReleaseBackpropId(static_cast<chx::BackpropId>(id.ordinal()))
      .IgnoreError();
}

void Context::CheckValidBackpropId(const BackpropId& id) const {
  internal::ThrowIfError(session_->session->graphs().backprop_ids().CheckOpen(
      static_cast<chx::BackpropId>(id.ordinal())));
}

std::string Context::GetBackpropName(const BackpropId& id) {
  CheckValidBackpropId(id);
  return session_->session->graphs().backprop_ids().Name(internal::ToChx(id, *this));
}

std::vector<BackpropId> Context::GetInnerBackpropIds(const BackpropId& id) {
  std::vector<BackpropId> inner;
  for (chx::BackpropId ordinal :
       session_->session->graphs().backprop_ids().OpenAbove(internal::ToChx(id, *this))) {
    inner.push_back(BackpropId(*this, ordinal));
  }
  return inner;
}

Context& GetGlobalDefaultContext() {
  Context* const context = global_context;
  if (context == nullptr) throw ContextError("the global default context is not set");
  return *context;
}

void SetGlobalDefaultContext(Context* context) { global_context = context; }

Context& GetDefaultContext() {
  Context* const context = internal::GetDefaultContextNoExcept();
  if (context == nullptr) {
    throw ContextError("the default context is not set: call SetDefaultContext(&context)");
  }
  return *context;
}

void SetDefaultContext(Context* context) {
  if (thread_context == context) return;
  thread_context = context;
  thread_device = nullptr;
}

Device& GetDefaultDevice() {
  // Without native devices, the first that there is.
  if (thread_device == nullptr) thread_device = &internal::DefaultDeviceOf(GetDefaultContext());
  return *thread_device;
}

void SetDefaultDevice(Device* device) {
  if (device != nullptr && &device->context() != &GetDefaultContext()) {
    throw ContextError("[set_default_device] expects a device of the default context");
  }
  thread_device = device;
}

ContextScope::ContextScope() : context_(thread_context), device_(thread_device) {}

void ContextScope::Exit() {
  if (exited_) return;
  exited_ = true;
  thread_context = context_;
  thread_device = device_;
}

void DeviceScope::Exit() {
  if (exited_) return;
  exited_ = true;
  thread_device = device_;
}

}  // namespace chainerx
