#include "tests/fuzz/small_session.h"

#include <cstdlib>
#include <string>

namespace chx {
namespace {

constexpr int64_t kMemory = 8 << 20;
constexpr int64_t kHandles = 64;
constexpr int64_t kInlineBytes = 1024;

const Devices& SharedDevices() {
  static const Devices* const devices = [] {
    // Static too: Devices keeps no pointer to it, and LeakSanitizer looks for one.
    static Backend* const backend = CreateNativeBackend({1}).release();
    auto* const opened = new Devices;
    if (!opened->Open("native:0", {backend}).ok()) std::abort();
    return opened;
  }();
  return *devices;
}

}  // namespace

SmallSession::SmallSession() {
  SessionLimits limits;
  limits.memory_bytes = kMemory;
  limits.max_handles = kHandles;
  limits.max_inline_bytes = kInlineBytes;
  session_ = std::make_unique<Session>(&SharedDevices(), limits, true);
  Command stage;
  stage.kind = CommandKind::kShare;
  stage.flags = static_cast<uint8_t>(ShareAction::kAllocate);
  stage.dtype = Dtype::kUint8;
  stage.shape = {4096};
  stage.outputs.push_back(5);
  Execute({&stage, 1});
  if (session_->stats().errors != 0) std::abort();
  const std::string data(6 * sizeof(float), '\x3f');  // 0.747...
  for (Handle handle = 1; handle <= 4; ++handle) {
    Command upload;
    upload.kind = CommandKind::kUpload;
    upload.handle = handle;
    upload.shape = {2, 3};
    upload.data = data;
    Command require_grad;
    require_grad.kind = CommandKind::kRequireGrad;
    require_grad.handle = handle;
    const Command commands[] = {upload, require_grad};
    Execute(absl::MakeConstSpan(commands, handle <= 2 ? 2 : 1));
  }
}

void SmallSession::Execute(absl::Span<const Command> window) {
  output_.Clear();
  session_->Execute(window, &output_);
  size_t answers = 0;
  for (const Command& command : window) {
    answers += IsAnswered(command);
  }
  if (output_.values.size() != answers) std::abort();
  for (const SessionOutput::Value& value : output_.values) {
    if (value.data.size() > kInlineBytes) std::abort();
  }
  const SessionStats stats = session_->stats();
  if (stats.handles > kHandles || stats.memory_bytes > kMemory) std::abort();
}

bool TakesLong(const Command& command) {
  for (const AttrValue& attr : command.attrs) {
    double product = 1;
    for (int64_t value : attr.ints()) product *= value > 1 ? static_cast<double>(value) : 1;
    // Beyond 2^62 it is an error again.
    if (product > 1e6 && product < 4e18) return true;
  }
  return false;
}

}  // namespace chx
