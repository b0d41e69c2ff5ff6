#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/crba.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    over_batch(loop, batch, [&](Data& data, long i) {
        crba(model, data, Q, Convention::WORLD);
        write_symmetric(data.M, out[0] + i * model.nv * model.nv);
    });
}
