// Valid calls of every operator, for tests of the table.
#ifndef CHX_OPS_TESTING_SAMPLES_H_
#define CHX_OPS_TESTING_SAMPLES_H_

#include <vector>

#include "ops/testing/shape_only.h"

namespace chx {

// Calls of an operator: elementwise operators and those that need no more than arrays of one shape
// get theirs made up, the others are in a table. Inference accepts most of them (an operator may
// refuse bool, say); of each operator at least one.
std::vector<Call> SampleCalls(const OpDef& op);

}  // namespace chx

#endif  // CHX_OPS_TESTING_SAMPLES_H_
