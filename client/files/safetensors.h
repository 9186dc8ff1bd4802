// Arrays in .safetensors files, the format of Hugging Face: a header in JSON, then the elements.
//
//   status = chx::SaveSafetensors("model.safetensors", {{"w", w}, {"b", b}});
//   absl::StatusOr<chx::ArrayMap> arrays = chx::LoadSafetensors(*session, "model.safetensors");
//
// What client/files/npz.h says of files and waits holds here too.
#ifndef CHX_CLIENT_FILES_SAFETENSORS_H_
#define CHX_CLIENT_FILES_SAFETENSORS_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/array_map.h"
#include "client/session.h"

namespace chx {

// Texts by name, beside the arrays.
using SafetensorsMetadata = std::map<std::string, std::string>;

// Names and metadata are UTF-8. A file of that name is replaced once all is written, and stays as
// it is after an error.
absl::Status SaveSafetensors(const std::string& path, const ArrayMap& arrays,
                             const SafetensorsMetadata& metadata = {});
// The arrays of a file, on `device`, and its metadata where `metadata` is not null.
absl::StatusOr<ArrayMap> LoadSafetensors(Session& session, const std::string& path,
                                         DeviceId device = 0,
                                         SafetensorsMetadata* metadata = nullptr);

}  // namespace chx

#endif  // CHX_CLIENT_FILES_SAFETENSORS_H_
