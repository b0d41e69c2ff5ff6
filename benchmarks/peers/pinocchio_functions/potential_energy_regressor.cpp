#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/regressor.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    const long columns = 10 * (model.njoints - 1);
    over_batch(loop, batch, [&](Data& data, long i) {
        Vector(out[0] + i * columns, columns) =
            computePotentialEnergyRegressor(model, data, Q).transpose();
    });
}
