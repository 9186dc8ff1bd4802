// The members of a .npz file, before they are sent anywhere.
#ifndef CHX_CLIENT_FILES_NPZ_READER_H_
#define CHX_CLIENT_FILES_NPZ_READER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/files/host_array.h"

namespace chx {

// In the file's order, without ".npy" in their names. An error of `sink` ends the reading.
absl::Status ReadNpzFile(const std::string& path, ArraySink sink);
// The same of a file's bytes.
absl::Status ReadNpzBytes(absl::string_view bytes, ArraySink sink);

}  // namespace chx

#endif  // CHX_CLIENT_FILES_NPZ_READER_H_
