// Arrays in NumPy's files: .npy has one, .npz several by name.
//
//   status = chx::SaveNpz("model.npz", {{"w", w}, {"b", b}});
//   absl::StatusOr<chx::ArrayMap> arrays = chx::LoadNpz(*session, "model.npz");
//
// A separate library, //client/files: the client itself needs neither libzip nor JSON.
//
// Files are read with suspicion: what they say is compared with their size before memory is
// allocated, and nothing in them is ever run. An error names the file and the member. Arrays are
// fetched and sent one after the other, so that there is one at a time in this process. Each
// function waits for the daemon.
#ifndef CHX_CLIENT_FILES_NPZ_H_
#define CHX_CLIENT_FILES_NPZ_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/array.h"
#include "client/array_map.h"
#include "client/session.h"

namespace chx {

// For SaveNpz.
struct NpzOptions {
  bool compressed = false;  // by deflate, as numpy.savez_compressed
};

// Writes a file of the arrays' members NAME.npy, as numpy.savez does. A file of that name is
// replaced once all is written, and stays as it is after an error.
absl::Status SaveNpz(const std::string& path, const ArrayMap& arrays,
                     const NpzOptions& options = {});
// The arrays of a .npz file, on `device`. Any byte and element order is understood. kDtype for a
// dtype that chx does not have.
absl::StatusOr<ArrayMap> LoadNpz(Session& session, const std::string& path, DeviceId device = 0);

// One array, to a .npy file.
absl::Status SaveNpy(const std::string& path, const Array& array);
// An array that holds the error if there is one.
Array LoadNpy(Session& session, const std::string& path, DeviceId device = 0);

}  // namespace chx

#endif  // CHX_CLIENT_FILES_NPZ_H_
