// Optimizers' steps that change the rows of a parameter that its gradient has, and no others.
#ifndef CHX_SERVER_PROGRAMS_ROW_UPDATES_H_
#define CHX_SERVER_PROGRAMS_ROW_UPDATES_H_

#include <functional>
#include <vector>

#include "server/engine/devices.h"
#include "server/programs/trace.h"

namespace chx::server {

// Where a gradient of rows (take_grad along axis 0, as an embedding's) is a `temporary` that only
// an sgd_update reads, the gradient is not made: sgd_update_rows takes its rows. Devices without
// that kernel keep their calls.
void UpdateRowsOnly(const Devices& devices, const std::function<bool(int object)>& temporary,
                    std::vector<TraceCall>* calls);

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_ROW_UPDATES_H_
