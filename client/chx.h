// The C++ client of chxd in one header: #include <chx/chx.h>. See docs/cpp_sdk.md.
#ifndef CHX_CLIENT_CHX_H_
#define CHX_CLIENT_CHX_H_

#include "client/array.h"            // IWYU pragma: export
#include "client/autocast.h"         // IWYU pragma: export
#include "client/autograd.h"         // IWYU pragma: export
#include "client/connect_options.h"  // IWYU pragma: export
#include "client/convolution.h"      // IWYU pragma: export
#include "client/distributed.h"      // IWYU pragma: export
#include "client/dropout.h"          // IWYU pragma: export
#include "client/file_array.h"       // IWYU pragma: export
#include "client/function.h"         // IWYU pragma: export
#include "client/log.h"              // IWYU pragma: export
#include "client/modes.h"            // IWYU pragma: export
#include "client/ops.h"              // IWYU pragma: export
#include "client/optimizers.h"       // IWYU pragma: export
#include "client/program.h"          // IWYU pragma: export
#include "client/run.h"              // IWYU pragma: export
#include "client/schedules.h"        // IWYU pragma: export
#include "client/session.h"          // IWYU pragma: export
#include "client/sharing.h"          // IWYU pragma: export
#include "client/trace.h"            // IWYU pragma: export
#include "client/user_function.h"    // IWYU pragma: export

#endif  // CHX_CLIENT_CHX_H_
