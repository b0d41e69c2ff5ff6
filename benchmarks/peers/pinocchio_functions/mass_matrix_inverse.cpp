#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/aba.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    over_batch(loop, batch, [&](Data& data, long i) {
        computeMinverse(model, data, Q);
        write_symmetric(data.Minv, out[0] + i * model.nv * model.nv);
    });
}
