#define CHX_LOOPS_NAMESPACE pooling_baseline
#define CHX_LOOPS_FUNCTION PoolingLoopsBaseline
#include "server/native/pooling_loops.inc"
