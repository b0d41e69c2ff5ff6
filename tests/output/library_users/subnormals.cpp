// Fails unless float32 subnormals are zero during the lifetime of a NoSubnormals, and only then.
#include "gridgen_simd.h"

int main()
{
    volatile float small = 1e-39f;
    volatile float within = 1;
    {
        const gridgen::NoSubnormals<float> no_subnormals;
        within = small * 0.5f;
    }
    const volatile float after = small * 0.5f;
    return within == 0 && after != 0 ? 0 : 1;
}
