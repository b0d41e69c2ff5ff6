// Rollouts with Pinocchio: aba and integrate in turn, whose results stay in Eigen's vectors.
// in: q, qd, efforts (batch, steps, nv), and the time of a step with the number of steps.
#include "pinocchio_loop.h"

#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>

void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    const double dt = in[3][0];
    const long steps = long(in[3][1]), nq = model.nq, nv = model.nv;
    over_batch(loop, batch, [&](Data& data, long i) {
        Eigen::VectorXd q = Q, v = V, next(nq);
        double* q_path = out[0] + i * (steps + 1) * nq;
        double* v_path = out[1] + i * (steps + 1) * nv;
        for (long t = 0; t <= steps; ++t) {
            Vector(q_path + t * nq, nq) = q;
            Vector(v_path + t * nv, nv) = v;
            if (t == steps) break;
            v += dt * aba(model, data, q, v, Input(in[2] + (i * steps + t) * nv, nv),
                          Convention::WORLD);
            pinocchio::integrate(model, q, dt * v, next);
            q.swap(next);
        }
    });
}
