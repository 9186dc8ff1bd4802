#include "server/engine/host_plugin.h"

#include "ops/error.h"
#include "ops/registry.h"

namespace chx::server {

Kernel HostKernels::Find(absl::string_view op) const {
  const OpDef* const def = OpRegistry::Global().Find(op);
  return def == nullptr ? nullptr : table_->Find(*def);
}

absl::Status HostKernels::Set(absl::string_view op, Kernel kernel) {
  const OpDef* const def = OpRegistry::Global().Find(op);
  if (def == nullptr) {
    return MakeError(ErrorKind::kBackend, absl::StrCat("there is no operator '", op, "'"));
  }
  if (!def->in_place_of.empty()) {
    return MakeError(ErrorKind::kBackend,
                     absl::StrCat("'", op, "' runs by the kernel of '", def->in_place_of, "'"));
  }
  if (def->kind != OpKind::kKernel || kernel == nullptr) {
    return MakeError(
        ErrorKind::kBackend,
        absl::StrCat("'", op, "' ", kernel == nullptr ? "needs" : "runs without", " a kernel"));
  }
  table_->Set(op, kernel);
  return absl::OkStatus();
}

}  // namespace chx::server
