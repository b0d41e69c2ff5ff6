#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/center-of-mass.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    over_batch(loop, batch, [&](Data& data, long i) {
        Matrix(out[0] + i * 3 * model.nv, 3, model.nv) =
            jacobianCenterOfMass(model, data, Q, false);
    });
}
