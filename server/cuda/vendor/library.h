// NVIDIA's libraries are opened when a kernel first needs them. So the plug-in also loads on
// machines without them, and can say what is missing.
#ifndef CHX_SERVER_CUDA_VENDOR_LIBRARY_H_
#define CHX_SERVER_CUDA_VENDOR_LIBRARY_H_

#include <dlfcn.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "ops/error.h"
#include "server/cuda/loops/kernel_stream.h"

namespace chx::server::cuda {

struct LibraryNames {
  std::string title;               // "cuBLAS 12 or 13"
  std::string without;             // "there are no products of float matrices"
  std::string variable;            // names a file to be tried first, or is "off"
  std::vector<std::string> files;  // possible file names, the best first
};

// Looks for the library beside the plug-in, where the dynamic linker looks, and in the toolkit's
// usual folders. `load` loads its functions, and returns false if some are missing. The library is
// never closed. The outcome is printed to standard error; a kBackend error also says what was
// tried.
absl::Status OpenLibrary(const LibraryNames& names, absl::FunctionRef<bool(void* library)> load);

// Opens the library and returns its functions, which live as long as the process.
template <typename Functions>
absl::StatusOr<const Functions*> OpenFunctions(const LibraryNames& names,
                                               bool (*load)(void* library, Functions*)) {
  auto functions = std::make_unique<Functions>();
  CHX_RETURN_IF_ERROR(
      OpenLibrary(names, [&](void* library) { return load(library, functions.get()); }));
  return functions.release();
}

// make(), and once more after sessions have given back what they keep of the device's memory, if it
// finds none: libraries allocate outside of the pool.
template <typename Make>
absl::Status WithRoom(KernelStream& stream, const Make& make) {
  absl::Status status = make();
  if (KindOf(status) == ErrorKind::kMemory && stream.MakeRoom()) status = make();
  return status;
}

template <typename Function>
bool LoadFunction(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_LIBRARY_H_
