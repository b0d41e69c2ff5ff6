#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/energy.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    over_batch(loop, batch, [&](Data& data, long i) {
        out[0][i] = computeKineticEnergy(model, data, Q, V);
    });
}
