// The backend of a plug-in whose memory is the host's.
#ifndef CHX_SERVER_NATIVE_HOST_BACKEND_H_
#define CHX_SERVER_NATIVE_HOST_BACKEND_H_

#include <memory>
#include <string>

#include "server/engine/host_plugin.h"
#include "server/native/native_backend.h"

namespace chx::server {

// native's devices under another name, with the plug-in's kernels in place of some. `plugin` must
// outlive the backend. A device doesn't open if the plug-in cannot set its kernels.
std::unique_ptr<Backend> CreateHostBackend(std::string name, const HostPlugin& plugin,
                                           NativeOptions options);

}  // namespace chx::server

#endif  // CHX_SERVER_NATIVE_HOST_BACKEND_H_
