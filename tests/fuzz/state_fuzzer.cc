// Snapshots of sessions: any file, and any contents with the right checksums around them. A session
// that can be read must be usable.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/registry.h"
#include "server/native/native_backend.h"
#include "server/session/session.h"
#include "server/state/run_messages.h"
#include "server/state/session_reader.h"
#include "server/state/session_writer.h"
#include "tests/fuzz/target.h"

namespace chx::server {
namespace {

constexpr int64_t kMemory = 8 << 20;

int64_t refused = 0;
int64_t restored = 0;

const Devices& SharedDevices() {
  static const Devices* const devices = [] {
    static Backend* const backend = CreateNativeBackend({1}).release();
    auto* const opened = new Devices;
    if (!opened->Open("native:0", {backend}).ok()) std::abort();
    return opened;
  }();
  return *devices;
}

SessionLimits Limits() {
  SessionLimits limits;
  limits.memory_bytes = kMemory;
  limits.max_handles = 64;
  return limits;
}

// Everything that a client may do first with what it finds.
void Use(Session* session) {
  std::vector<Handle> handles;
  session->Inspect([&](SessionState& state) {
    state.handles.ForEach(
        [&](Handle handle, const HandleTable::Entry& /*entry*/) { handles.push_back(handle); });
  });
  SessionOutput output;
  for (Handle handle : handles) {
    command::Backward backward;
    backward.outputs.push_back(handle);
    session->Execute({command::Fetch{1, handle}, command::DumpGraph{2, handle, 0}, backward,
                      command::GetGrad{handle, 0, handle + 1000}},
                     &output);
  }
  session->Execute({command::QuerySaved{3, ""}}, &output);
  session->BeginAnew();
}

void Read(int fd) {
  if (lseek(fd, 0, SEEK_SET) != 0) std::abort();
  PartReader reader(fd);
  const absl::StatusOr<state::Head> head = ReadHead(&reader);
  absl::Status status = head.status();
  Session session(&SharedDevices(), Limits());
  if (status.ok()) {
    session.Inspect([&](SessionState& state) { status = ReadSession(*head, &reader, &state); });
    if (status.ok()) static_cast<void>(ReadRuns(*head, &session));
  }
  if (session.stats().memory_bytes > 2 * kMemory) std::abort();
  if (!status.ok()) {
    ++refused;
    return;
  }
  ++restored;
  Use(&session);
}

std::string FileOf(Session* session) {
  const OwnedFd fd(memfd_create("snapshot", 0));
  PartWriter writer(fd.get());
  absl::Status status;
  session->Inspect([&](SessionState& state) {
    state::Head head;
    status = WriteSession(&state, head, &writer);
  });
  if (!status.ok()) std::abort();
  std::string data(writer.bytes(), '\0');
  if (pread(fd.get(), &data[0], data.size(), 0) != static_cast<ssize_t>(data.size())) std::abort();
  return data;
}

// The parts of a file, each as {kind, u24 size, bytes}: what a fuzzer changes, and gets checksums.
std::string PartsOf(const std::string& file) {
  std::string parts = "p";
  size_t at = 16;
  while (at + 16 <= file.size()) {
    const auto kind = static_cast<unsigned char>(file[at]);
    uint64_t size = 0;
    for (int i = 0; i < 8; ++i) {
      size |= static_cast<uint64_t>(static_cast<unsigned char>(file[at + 8 + i])) << 8 * i;
    }
    if (kind == 0) break;
    parts.push_back(static_cast<char>(kind));
    for (int i = 0; i < 3; ++i) parts.push_back(static_cast<char>(size >> 8 * i));
    parts.append(file, at + 16, size);
    at += 16 + size + 8;
  }
  return parts;
}

}  // namespace
}  // namespace chx::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace chx::server;  // NOLINT
  absl::string_view input(reinterpret_cast<const char*>(data), size);
  const chx::OwnedFd fd(memfd_create("snapshot", 0));
  if (input.empty() || input[0] != 'p') {
    if (write(fd.get(), data, size) != static_cast<ssize_t>(size)) std::abort();
    Read(fd.get());
    return 0;
  }
  input.remove_prefix(1);
  PartWriter writer(fd.get());
  while (input.size() >= 4) {
    const auto byte = [&](int i) {
      return static_cast<size_t>(static_cast<unsigned char>(input[i]));
    };
    const auto kind = static_cast<PartKind>(byte(0) & 3);
    const size_t bytes = byte(1) | byte(2) << 8 | byte(3) << 16;
    input.remove_prefix(4);
    const absl::string_view part = input.substr(0, bytes);
    input.remove_prefix(part.size());
    if (!writer.Write(kind, part).ok()) std::abort();
  }
  if (!writer.End().ok()) std::abort();
  Read(fd.get());
  return 0;
}

namespace chx {

std::string FuzzCounts() {
  return absl::StrCat("refused ", server::refused, "\nrestored ", server::restored, "\n");
}

// A small session with a graph, gradients, an error and names, as a file and as its parts.
std::vector<std::string> FuzzSeeds() {
  using namespace server;  // NOLINT
  Session session(&SharedDevices(), Limits());
  const float values[] = {1, 2, 3, 4};
  command::Upload upload;
  upload.result = 1;
  upload.shape = {2, 2};
  upload.data = absl::string_view(reinterpret_cast<const char*>(values), sizeof(values));
  const auto apply = [](const char* name, Handle input, Handle result) {
    const OpDef& op = *OpRegistry::Global().Find(name);
    command::ApplyOp call;
    call.op = static_cast<uint16_t>(op.id + 1);
    call.inputs.push_back(HandleOperand(input));
    call.results.push_back(result);
    for (const AttrDef& attr : op.attrs) call.attrs.push_back(attr.default_value);
    return call;
  };
  command::Backward backward;
  backward.outputs.push_back(3);
  command::SaveArrays save;
  save.request_id = 1;
  save.name = "w";
  save.tree = "tree";
  save.handles.push_back(1);
  SessionOutput output;
  session.Execute(
      {upload, command::RequireGrad{1, 0}, apply("tanh", 1, 2), apply("sum", 2, 3), backward,
       apply("sum", 999, 4), save, command::NewBackpropId{2}, command::RequireGrad{1, 2}},
      &output);
  const std::string file = FileOf(&session);
  return {file, PartsOf(file)};
}

}  // namespace chx
