// The exceptions of ChainerX, and those for errors that only a client of a daemon can have.
#ifndef CHX_CHAINERX_ERROR_H_
#define CHX_CHAINERX_ERROR_H_

#include <cstdint>
#include <ios>
#include <sstream>
#include <stdexcept>
#include <string>

namespace chainerx {
namespace internal {

template <typename T>
void Print(std::ostream& os, const T& part) {
  os << part;
}
inline void Print(std::ostream& os, int8_t part) { os << static_cast<int>(part); }
inline void Print(std::ostream& os, uint8_t part) { os << static_cast<int>(part); }

template <typename... Parts>
std::string Message(const Parts&... parts) {
  std::ostringstream os;
  os << std::boolalpha;
  (Print(os, parts), ...);
  return os.str();
}

}  // namespace internal

// All of the others derive from it. The message is the parts, one after the other.
class ChainerxError : public std::runtime_error {
 public:
  template <typename... Parts>
  explicit ChainerxError(const Parts&... parts) : std::runtime_error(internal::Message(parts...)) {}
};

// Arrays, graphs or devices of different contexts, or no context.
class ContextError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
// A backend that the daemon does not have.
class BackendError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
// Arrays on different devices, or a name that is none.
class DeviceError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
// Shapes or axes that do not fit.
class DimensionError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
class DtypeError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
class IndexError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
class NotImplementedError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
// A gradient that does not fit, or a pass that is not allowed.
class GradientError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
// From CheckBackward.
class GradientCheckError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
// An argument whose value is not allowed.
class ValueError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};

// The quota or the device's memory is exhausted.
class OutOfMemoryError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
// The daemon cannot be reached or has gone.
class ConnectionError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
// A command has taken longer than the daemon allows.
class TimeoutError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};
// A command was cancelled.
class CancelledError : public ChainerxError {
 public:
  using ChainerxError::ChainerxError;
};

}  // namespace chainerx

#endif  // CHX_CHAINERX_ERROR_H_
