#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/aba-derivatives.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    const long size = model.nv * model.nv;
    over_batch(loop, batch, [&](Data& data, long i) {
        pinocchio::computeABADerivatives(model, data, Q, V, X);
        Matrix(out[0] + i * size, model.nv, model.nv) = data.ddq_dq;
        Matrix(out[1] + i * size, model.nv, model.nv) = data.ddq_dv;
        write_symmetric(data.Minv, out[2] + i * size);
    });
}
