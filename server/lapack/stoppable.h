// Calls of LAPACK that come to an end when their command is to stop.
#ifndef CHX_SERVER_LAPACK_STOPPABLE_H_
#define CHX_SERVER_LAPACK_STOPPABLE_H_

#include "absl/functional/function_ref.h"

namespace chx::server::lapack {

// Makes one call of LAPACK's reference code; false if it has been left in the middle, and what it
// was to write is unspecified. That code does most of its work by products of matrices and vectors,
// which are ours (stoppable.cc): each asks whether to stop, and then leaves the call by longjmp.
// `call` must make no objects that need to be destroyed, and must not call functions of OpenBLAS's
// own that hold memory while they multiply: those of blocked.h are for these.
bool CallStoppably(absl::FunctionRef<void()> call);

}  // namespace chx::server::lapack

#endif  // CHX_SERVER_LAPACK_STOPPABLE_H_
