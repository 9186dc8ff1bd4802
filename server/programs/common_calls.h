// Finds calls of a step whose results are there already (common subexpressions, x / 1).
#ifndef CHX_SERVER_PROGRAMS_COMMON_CALLS_H_
#define CHX_SERVER_PROGRAMS_COMMON_CALLS_H_

#include <vector>

#include "server/programs/trace.h"

namespace chx::server {

// Leaves out each call of the same kernel with the same attributes on the same values as an earlier
// one, if its outputs are temporaries: those of the earlier call stand for them. And each that
// gives its input as it is, for which that stands. Objects are only added. Returns the operators of
// the calls that were left out.
std::vector<const OpDef*> ShareCommonCalls(Trace* trace);

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_COMMON_CALLS_H_
