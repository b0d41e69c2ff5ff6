#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/rnea-second-order-derivatives.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    const long n = model.nv;
    over_batch(loop, batch, [&](Data& data, long i) {
        pinocchio::ComputeRNEASecondOrderDerivatives(model, data, Q, V, X);
        const Data::Tensor3x* tensors[] = {&data.d2tau_dqdq, &data.d2tau_dvdv, &data.d2tau_dqdv,
                                           &data.d2tau_dadq};
        for (int t = 0; t < 4; ++t) {
            double* entry = out[t] + i * n * n * n;
            for (long a = 0; a < n; ++a)
                for (long b = 0; b < n; ++b)
                    for (long c = 0; c < n; ++c) *entry++ = (*tensors[t])(a, b, c);
        }
    });
}
