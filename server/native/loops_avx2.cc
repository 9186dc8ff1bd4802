#define CHX_LOOPS_NAMESPACE avx2
#define CHX_LOOPS_FUNCTION LoopsAvx2
#include "server/native/loops.inc"
