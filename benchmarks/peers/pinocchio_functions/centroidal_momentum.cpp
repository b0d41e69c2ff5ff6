#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/centroidal.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    over_batch(loop, batch, [&](Data& data, long i) {
        Vector(out[0] + i * 6, 6) = computeCentroidalMomentum(model, data, Q, V).toVector();
    });
}
