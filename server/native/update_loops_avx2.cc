#define CHX_LOOPS_NAMESPACE update_avx2
#define CHX_LOOPS_FUNCTION UpdateLoopsAvx2
#include "server/native/update_loops.inc"
