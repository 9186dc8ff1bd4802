// Errors as absl::Status, each with the kind that decides which exception a client raises.
#ifndef CHX_OPS_ERROR_H_
#define CHX_OPS_ERROR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace chx {

// ChainerX's exceptions plus the Python builtins that its bindings raise. On the wire: append only.
enum class ErrorKind : uint8_t {
  kChainerx = 0,
  kContext = 1,
  kBackend = 2,
  kDevice = 3,
  kDimension = 4,
  kDtype = 5,
  kNotImplemented = 6,
  kGradient = 7,
  kGradientCheck = 8,
  kIndex = 9,
  kType = 10,
  kValue = 11,
  kMemory = 12,      // a quota or the device's memory is exhausted
  kConnection = 13,  // the daemon cannot be reached or has gone
  kTimeout = 14,     // a command or a client's function has taken longer than the daemon allows
  kCancelled = 15,   // by the client, before or while it ran
};
// How many there are.
inline constexpr int kNumErrorKinds = 16;

// An error of that kind.
absl::Status MakeError(ErrorKind kind, absl::string_view message);
// kChainerx if the status carries no kind; must not be called on OK.
ErrorKind KindOf(const absl::Status& status);

// Each gives an error of its kind; the arguments are what absl::StrCat takes.
template <typename... Args>
absl::Status DimensionError(const Args&... args) {
  return MakeError(ErrorKind::kDimension, absl::StrCat(args...));
}
// As DimensionError.
template <typename... Args>
absl::Status DtypeError(const Args&... args) {
  return MakeError(ErrorKind::kDtype, absl::StrCat(args...));
}
// As DimensionError.
template <typename... Args>
absl::Status DeviceError(const Args&... args) {
  return MakeError(ErrorKind::kDevice, absl::StrCat(args...));
}
// As DimensionError.
template <typename... Args>
absl::Status ChainerxError(const Args&... args) {
  return MakeError(ErrorKind::kChainerx, absl::StrCat(args...));
}
// As DimensionError.
template <typename... Args>
absl::Status GradientError(const Args&... args) {
  return MakeError(ErrorKind::kGradient, absl::StrCat(args...));
}
// As DimensionError.
template <typename... Args>
absl::Status IndexError(const Args&... args) {
  return MakeError(ErrorKind::kIndex, absl::StrCat(args...));
}
// As DimensionError.
template <typename... Args>
absl::Status TypeError(const Args&... args) {
  return MakeError(ErrorKind::kType, absl::StrCat(args...));
}
// As DimensionError.
template <typename... Args>
absl::Status ValueError(const Args&... args) {
  return MakeError(ErrorKind::kValue, absl::StrCat(args...));
}
// As DimensionError.
template <typename... Args>
absl::Status MemoryError(const Args&... args) {
  return MakeError(ErrorKind::kMemory, absl::StrCat(args...));
}

}  // namespace chx

// Returns from the calling function with the status that `expr` gives, unless it is OK.
#define CHX_RETURN_IF_ERROR(expr)              \
  do {                                         \
    absl::Status chx_status_ = (expr);         \
    if (!chx_status_.ok()) return chx_status_; \
  } while (false)

#define CHX_CONCAT_INNER_(a, b) a##b
#define CHX_CONCAT_(a, b) CHX_CONCAT_INNER_(a, b)
// Assigns the value of a StatusOr to `lhs`, which may declare a variable, or returns its status.
#define CHX_ASSIGN_OR_RETURN(lhs, expr) \
  CHX_ASSIGN_OR_RETURN_IMPL_(CHX_CONCAT_(chx_status_or_, __LINE__), lhs, expr)
#define CHX_ASSIGN_OR_RETURN_IMPL_(statusor, lhs, expr)    \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)

#endif  // CHX_OPS_ERROR_H_
