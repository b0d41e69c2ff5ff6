#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/regressor.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    const long columns = 10 * (model.njoints - 1);
    over_batch(loop, batch, [&](Data& data, long i) {
        Matrix(out[0] + i * model.nv * columns, model.nv, columns) =
            computeJointTorqueRegressor(model, data, Q, V, X);
    });
}
