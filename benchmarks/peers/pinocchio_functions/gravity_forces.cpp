#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/rnea.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    over_batch(loop, batch, [&](Data& data, long i) {
        Vector(out[0] + i * model.nv, model.nv) = computeGeneralizedGravity(model, data, Q);
    });
}
