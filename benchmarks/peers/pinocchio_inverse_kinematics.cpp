// Inverse kinematics with Pinocchio: the damped least squares of its examples, within the limits, from
// random starts. log6 is its error, and its Jacobian as there.
// in: starts (batch, most, nq); poses (batch, 4, 4); most starts, iterations, tolerances, damping.
#include "pinocchio_loop.h"

#include <pinocchio/algorithm/frames.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/algorithm/kinematics.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    const long most = long(in[2][0]), iterations = long(in[2][1]), nq = model.nq, nv = model.nv;
    const double position = in[2][2], orientation = in[2][3], damping = in[2][4];
    const auto frame = loop.frames[0];
    over_batch(loop, batch, [&](Data& data, long i) {
        const Matrix pose(in[1] + 16 * i, 4, 4);
        const pinocchio::SE3 goal(pose.topLeftCorner<3, 3>(), pose.topRightCorner<3, 1>());
        Vector result(out[0] + i * nq, nq);
        Eigen::VectorXd q(nq), v(nv);
        pinocchio::Data::Matrix6x J(6, nv);
        Eigen::Matrix<double, 6, 6> A, Jlog;
        out[1][i] = 0;
        for (long s = 0; s < most && !out[1][i]; ++s) {
            q = Input(in[0] + (i * most + s) * nq, nq);
            for (long t = 0; t < iterations; ++t) {
                pinocchio::forwardKinematics(model, data, q);
                const auto& here = pinocchio::updateFramePlacement(model, data, frame);
                const pinocchio::SE3 left = here.actInv(goal);
                const auto error = pinocchio::log6(left);
                if (left.translation().norm() < position && error.angular().norm() < orientation) {
                    out[1][i] = 1;
                    break;
                }
                J.setZero();
                pinocchio::computeFrameJacobian(model, data, q, frame, pinocchio::LOCAL, J);
                pinocchio::Jlog6(left.inverse(), Jlog);
                J = -Jlog * J;
                A.noalias() = J * J.transpose();
                A.diagonal().array() += damping * error.toVector().squaredNorm() / 2 + 1e-9;
                v.noalias() = -J.transpose() * A.ldlt().solve(error.toVector());
                q = pinocchio::integrate(model, q, v);
                // Pinocchio's library has allocated the limits, with a smaller alignment than is used here.
                const double* const lower = model.lowerPositionLimit.data();
                const double* const upper = model.upperPositionLimit.data();
                for (long j = 0; j < nq; ++j)
                    q[j] = q[j] < lower[j] ? lower[j] : q[j] > upper[j] ? upper[j] : q[j];
            }
        }
        result = q;
    });
}
