#define CHX_LOOPS_NAMESPACE update_avx512
#define CHX_LOOPS_FUNCTION UpdateLoopsAvx512
#include "server/native/update_loops.inc"
