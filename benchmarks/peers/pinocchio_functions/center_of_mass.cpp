#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/center-of-mass.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    over_batch(loop, batch, [&](Data& data, long i) {
        Vector(out[0] + i * 3, 3) = centerOfMass(model, data, Q, false);
    });
}
