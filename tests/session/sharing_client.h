// A client of a session that shares arrays with others, by commands, without a wire.
#ifndef CHX_TESTS_SESSION_SHARING_CLIENT_H_
#define CHX_TESTS_SESSION_SHARING_CLIENT_H_

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/registry.h"
#include "proto/shared_names.h"
#include "server/session/session.h"
#include "server/sharing/shared_store.h"

namespace chx::server {

inline TenantPtr NewTenant(const std::string& name, bool may_share = true) {
  auto tenant = std::make_shared<Tenant>();
  tenant->name = name;
  if (!may_share) tenant->features.clear();
  return tenant;
}

// A client of a session of its own.
class Client {
 public:
  Client(const Devices* devices, SharedStore* store, TenantPtr tenant = NewTenant("lab"),
         int64_t memory = int64_t{64} << 20)
      : account_(std::make_shared<MemoryAccount>(memory)),
        session_(std::make_unique<Session>(
            devices, SessionLimits(),
            SessionResources{/*share=*/true, account_, nullptr,
                             store->Join(std::move(tenant), account_)})) {}

  void End() { session_.reset(); }
  Session& session() { return *session_; }
  int64_t memory() const { return account_->used_for(MemoryUse::kArrays); }

  // The answer to a command, or its error.
  template <typename C>
  absl::StatusOr<std::string> Ask(C command) {
    command.request_id = ++request_;
    SessionOutput output;
    session_->Execute({Command(std::move(command))}, &output);
    const SessionOutput::Value& value = output.values.back();
    EXPECT_EQ(value.request_id, request_);
    if (value.error != nullptr) return value.error->status;
    return value.data;
  }
  absl::Status Do(Command command) {
    SessionOutput output;
    session_->Execute({std::move(command)}, &output);
    return output.errors.empty() ? absl::OkStatus() : output.errors.back().error->status;
  }
  void Fill(Handle handle, int64_t size, float value) {
    const std::vector<float> values(static_cast<size_t>(size), value);
    command::Upload upload;
    upload.result = handle;
    upload.shape.assign(1, size);
    upload.data = absl::string_view(reinterpret_cast<const char*>(values.data()),
                                    values.size() * sizeof(float));
    ASSERT_TRUE(Do(upload).ok());
  }
  absl::StatusOr<std::vector<float>> Read(Handle handle) {
    absl::StatusOr<Session::HostCopy> copy = session_->ReadArray(handle);
    if (!copy.ok()) return copy.status();
    std::vector<float> values(copy->data.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), copy->data.data(), copy->data.size());
    return values;
  }
  absl::StatusOr<std::string> Share(Handle handle, bool write = false, bool keep = false,
                                    const std::string& tenant = "") {
    command::GrantAccess grant;
    grant.handle = handle;
    grant.write = write;
    grant.keep = keep;
    grant.tenant = tenant;
    return Ask(grant);
  }
  absl::Status Open(const std::string& capability, Handle result, bool copy = false) {
    return Ask(command::OpenShared{0, capability, copy, result}).status();
  }
  absl::Status AddOne(Handle handle) {
    command::ApplyOp add;
    add.op = static_cast<uint16_t>(OpRegistry::Global().Find("add_")->id + 1);
    add.inputs.push_back(HandleOperand(handle));
    add.inputs.push_back(HandleOperand(Scalar(1.0)));
    return Do(add);
  }
  absl::StatusOr<std::string> Publish(const std::string& name, Handles handles, bool keep = false,
                                      const std::string& readers = "") {
    command::Publish publish;
    publish.name = name;
    publish.readers = readers;
    publish.structure = "{}";
    publish.keep = keep;
    std::vector<std::string> paths;
    for (Handle handle : handles) paths.push_back("layers/" + std::to_string(handle));
    const std::string text = JoinPaths(paths);
    publish.paths = text;
    publish.handles = std::move(handles);
    return Ask(publish);
  }

 private:
  MemoryAccountPtr account_;
  std::unique_ptr<Session> session_;
  uint64_t request_ = 0;
};

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_SHARING_CLIENT_H_
