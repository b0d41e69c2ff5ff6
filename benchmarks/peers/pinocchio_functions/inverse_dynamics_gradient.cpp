#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/rnea-derivatives.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    const long size = model.nv * model.nv;
    over_batch(loop, batch, [&](Data& data, long i) {
        pinocchio::computeRNEADerivatives(model, data, Q, V, X);
        Matrix(out[0] + i * size, model.nv, model.nv) = data.dtau_dq;
        Matrix(out[1] + i * size, model.nv, model.nv) = data.dtau_dv;
    });
}
