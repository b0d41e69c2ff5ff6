#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/frames.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    const Eigen::VectorXd rest = Eigen::VectorXd::Zero(model.nv);
    over_batch(loop, batch, [&](Data& data, long i) {
        forwardKinematics(model, data, Q, V, rest);
        Vector(out[0] + i * 6, 6) =
            getFrameAcceleration(model, data, loop.frames[0], pinocchio::LOCAL).toVector();
    });
}
