#define CHX_LOOPS_NAMESPACE baseline
#define CHX_LOOPS_FUNCTION LoopsBaseline
#include "server/native/loops.inc"
