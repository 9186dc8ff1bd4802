#define CHX_LOOPS_NAMESPACE pooling_avx512
#define CHX_LOOPS_FUNCTION PoolingLoopsAvx512
#include "server/native/pooling_loops.inc"
