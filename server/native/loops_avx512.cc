#define CHX_LOOPS_NAMESPACE avx512
#define CHX_LOOPS_FUNCTION LoopsAvx512
#include "server/native/loops.inc"
