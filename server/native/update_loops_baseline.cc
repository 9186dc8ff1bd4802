#define CHX_LOOPS_NAMESPACE update_baseline
#define CHX_LOOPS_FUNCTION UpdateLoopsBaseline
#include "server/native/update_loops.inc"
