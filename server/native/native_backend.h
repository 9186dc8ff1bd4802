// The "native" backend: one device, the CPU with all its cores.
#ifndef CHX_SERVER_NATIVE_NATIVE_BACKEND_H_
#define CHX_SERVER_NATIVE_NATIVE_BACKEND_H_

#include <memory>

#include "server/engine/backend.h"

namespace chx {

struct NativeOptions {
  int threads = 0;  // of each device, the session's own included; 0: one per core
};

// Devices must not outlive the process's static objects; apart from that nothing ties them.
std::unique_ptr<Backend> CreateNativeBackend(NativeOptions options);

}  // namespace chx

#endif  // CHX_SERVER_NATIVE_NATIVE_BACKEND_H_
