#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/frames.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    over_batch(loop, batch, [&](Data& data, long i) {
        thread_local Data::Matrix6x jacobian;
        jacobian.setZero(6, model.nv);
        computeFrameJacobian(model, data, Q, loop.frames[0], pinocchio::LOCAL, jacobian);
        Matrix(out[0] + i * 6 * model.nv, 6, model.nv) = jacobian;
    });
}
