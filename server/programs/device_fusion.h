// Neighbouring elementwise calls that a device computes as one kernel (KernelTable::SetFused).
#ifndef CHX_SERVER_PROGRAMS_DEVICE_FUSION_H_
#define CHX_SERVER_PROGRAMS_DEVICE_FUSION_H_

#include <functional>
#include <vector>

#include "server/engine/devices.h"
#include "server/programs/trace.h"

namespace chx::server {

// Makes one call of each run of such calls, which has them in `fused`. Results of theirs that are
// `temporary` and used in the run only have no memory any more.
void FuseOnDevices(const Devices& devices, const std::function<bool(int object)>& temporary,
                   std::vector<TraceCall>* calls);

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_DEVICE_FUSION_H_
