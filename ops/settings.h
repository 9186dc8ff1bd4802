// What a session may ask of the libraries that its operators run on. Clients and the daemon check
// with the same function.
#ifndef CHX_OPS_SETTINGS_H_
#define CHX_OPS_SETTINGS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ops/scalar.h"

namespace chx {

// The names are Chainer's; other devices than GPUs ignore them.
struct Settings {
  // Whether cuDNN is used where it is installed.
  bool use_cudnn = true;
  // Only algorithms that give the same bits each time.
  bool cudnn_deterministic = false;
  // Tries the algorithms for each new shape, instead of believing the library's estimates.
  bool autotune = false;
  // Bytes that one convolution may take beside its arrays, of the session's memory. With less,
  // cuDNN has no algorithms that use tensor cores for most shapes.
  int64_t max_workspace_size = int64_t{256} << 20;
  // Whether tensor cores may round the factors of float32 products to TF32, whose mantissa has 10
  // bits: in products of matrices, and in cuDNN's convolutions. The defaults are PyTorch's.
  bool tf32 = false;
  bool cudnn_tf32 = true;
};

// A kValue error if there is no such setting, kType or kValue if it has no such value: flags are
// bools, or the integers 0 and 1; sizes are integers that are not negative.
absl::Status ChangeSetting(absl::string_view name, Scalar value, Settings* settings);

}  // namespace chx

#endif  // CHX_OPS_SETTINGS_H_
