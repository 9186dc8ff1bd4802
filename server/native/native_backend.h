// The "native" backend: one device, the CPU with all its cores.
#ifndef CHX_SERVER_NATIVE_NATIVE_BACKEND_H_
#define CHX_SERVER_NATIVE_NATIVE_BACKEND_H_

#include <memory>

#include "server/engine/backend.h"

namespace chx::server {

struct NativeOptions {
  int threads = 0;  // of each device, the session's own included; 0: one per core
};

// As many as ChainerX has, so that its programs run. They share the machine's cores and memory:
// only those that the daemon is told to serve are opened.
inline constexpr int kNativeDevices = 4;
// `threads`, or as many as there are cores for this process.
int NativeThreads(NativeOptions options);

// Devices must not outlive the process's static objects; apart from that nothing ties them.
std::unique_ptr<Backend> CreateNativeBackend(NativeOptions options);

}  // namespace chx::server

#endif  // CHX_SERVER_NATIVE_NATIVE_BACKEND_H_
