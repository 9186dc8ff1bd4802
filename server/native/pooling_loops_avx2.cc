#define CHX_LOOPS_NAMESPACE pooling_avx2
#define CHX_LOOPS_FUNCTION PoolingLoopsAvx2
#include "server/native/pooling_loops.inc"
