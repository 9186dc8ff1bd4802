#include "server/cuda/loops/late_check.h"

#include <string>
#include <utility>

#include "ops/error.h"
#include "ops/registry.h"
#include "server/kernels/axis.h"

namespace chx::server::cuda {

absl::optional<LateError> TakeFinding(Finding* finding) {
  if (finding->kind == Finding::Kind::kNone) return absl::nullopt;
  const Finding found = std::exchange(*finding, Finding());
  const auto id = static_cast<OpId>(found.op);
  const std::string& op = OpRegistry::Global().at(id).name;
  absl::Status status = found.kind == Finding::Kind::kLabel
                            ? IndexError("[", op, "] expects labels below ", found.limit,
                                         " or -1 to ignore a sample, got ", found.value)
                            : kernels::BadIndexError(op, found.value, found.limit);
  return LateError{id, found.origin, std::move(status)};
}

}  // namespace chx::server::cuda
