// A loop over the program of a step in a generated header, as its users write it: packs of states,
// kept in registers and on the stack from step to step. ROBOT, NQ and NV come from the compiler.
#pragma once

extern "C" void roll_out(const float* q0, const float* qd0, const float* tau, const float* dt,
                         const float* gravity, long batch, long steps, float* q_path,
                         float* qd_path)
{
    using T = gridgen::Pack<float>;
    constexpr long lanes = gridgen::pack_size<float>;
    const auto at = [](const float* array, long stride) {
        return gridgen::Array{const_cast<float*>(array), stride, 1};
    };
    for (long i = 0; i < batch; i += lanes) {
        const long count = batch - i < lanes ? batch - i : lanes;
        gridgen::Argument<float, NQ> q;
        gridgen::Argument<float, NV> qd, efforts;
        gridgen::Argument<float, 1> step;
        gridgen::Argument<float, 3> down;
        gridgen::Result<float, NQ> q_next;
        gridgen::Result<float, NV> qd_next;
        q.load(at(q0, NQ), i, count);
        qd.load(at(qd0, NV), i, count);
        step.load(at(dt, 0), i, count);
        down.load(at(gravity, 0), i, count);
        for (int j = 0; j < NQ; ++j) q_next.x[j] = q.x[j];
        for (int j = 0; j < NV; ++j) qd_next.x[j] = qd.x[j];
        for (long t = 0;; ++t) {
            q_next.store(at(q_path + t * NQ, (steps + 1) * NQ), i, count, false);
            qd_next.store(at(qd_path + t * NV, (steps + 1) * NV), i, count, false);
            if (t == steps) break;
            efforts.load(at(tau + t * NV, steps * NV), i, count);
            ROBOT::step_semi_implicit<T, const T*>(q.x, qd.x, efforts.x, step.x, down.x,
                                                   q_next.elements(), qd_next.elements());
            for (int j = 0; j < NQ; ++j) q.x[j] = q_next.x[j];
            for (int j = 0; j < NV; ++j) qd.x[j] = qd_next.x[j];
        }
    }
}
