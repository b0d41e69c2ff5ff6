#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/frames.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    const long count = long(loop.frames.size());
    over_batch(loop, batch, [&](Data& data, long i) {
        forwardKinematics(model, data, Q);
        for (long k = 0; k < count; ++k)
            Matrix(out[0] + 16 * (count * i + k), 4, 4) =
                updateFramePlacement(model, data, loop.frames[k]).toHomogeneousMatrix();
    });
}
