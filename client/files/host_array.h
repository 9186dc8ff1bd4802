// An array in this process, on its way from a file to the daemon or back.
#ifndef CHX_CLIENT_FILES_HOST_ARRAY_H_
#define CHX_CLIENT_FILES_HOST_ARRAY_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/array.h"
#include "client/session.h"
#include "formats/npy_header.h"

namespace chx {

// Elements in C order, in this machine's byte order.
struct HostArray {
  Dtype dtype = Dtype::kFloat32;
  Shape shape;
  std::string data;
};

// Takes an array of a file.
using ArraySink = absl::FunctionRef<absl::Status(const std::string& name, HostArray array)>;

// Changes the elements to what a HostArray has. Bools become 0 or 1.
void NormalizeElements(const ElementOrder& order, HostArray* array);

Array UploadHostArray(Session& session, const HostArray& array, DeviceId device);
absl::StatusOr<HostArray> FetchHostArray(const Array& array);

}  // namespace chx

#endif  // CHX_CLIENT_FILES_HOST_ARRAY_H_
