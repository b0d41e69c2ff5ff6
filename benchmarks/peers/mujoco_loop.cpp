// MuJoCo's routines over a batch of states: only those that a function needs, no contacts, no
// actuators, no passive forces. Arrays are row-major, one state per row, in MuJoCo's conventions.
#include <omp.h>

#include <cstring>
#include <vector>

#include <mujoco/mujoco.h>

namespace {

struct Loop {
    const mjModel* model;
    std::vector<mjData*> data;  // one for each thread
    std::vector<double> identity;
};

template <class State> void over_batch(Loop& loop, long batch, const State& state)
{
    constexpr long least_share = 32;  // states; a few microseconds, as long as waking a thread
    const long available = long(loop.data.size()), enough = 1 + (batch - 1) / least_share;
    const long threads = enough < available ? enough : available;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const long thread = omp_get_thread_num();
        mjData* data = loop.data[thread];
        const long end = batch * (thread + 1) / threads;
        for (long i = batch * thread / threads; i < end; ++i) state(data, i);
    }
}

void set(mjtNum* target, const double* batch, long i, long size)
{
    std::memcpy(target, batch + i * size, size * sizeof(double));
}

void set_position(const mjModel* m, mjData* d, const double* q, long i)
{
    set(d->qpos, q, i, m->nq);
    mj_kinematics(m, d);
    mj_comPos(m, d);
}

void set_velocity(const mjModel* m, mjData* d, const double* v, long i)
{
    set(d->qvel, v, i, m->nv);
    mj_comVel(m, d);
}

}  // namespace

extern "C" {

Loop* make_loop(const mjModel* model, int threads)
{
    auto* loop = new Loop{model, {}, std::vector<double>(model->nv * model->nv)};
    for (int i = 0; i < threads; ++i) loop->data.push_back(mj_makeData(model));
    for (int i = 0; i < model->nv; ++i) loop->identity[i * model->nv + i] = 1.0;
    return loop;
}

void inverse_dynamics(Loop& loop, long batch, double** in, double** out)
{
    const mjModel* m = loop.model;
    over_batch(loop, batch, [&](mjData* d, long i) {
        set_position(m, d, in[0], i);
        set_velocity(m, d, in[1], i);
        set(d->qacc, in[2], i, m->nv);
        mj_rne(m, d, 1, out[0] + i * m->nv);
    });
}

void bias_forces(Loop& loop, long batch, double** in, double** out)
{
    const mjModel* m = loop.model;
    over_batch(loop, batch, [&](mjData* d, long i) {
        set_position(m, d, in[0], i);
        set_velocity(m, d, in[1], i);
        mj_rne(m, d, 0, out[0] + i * m->nv);
    });
}

void forward_dynamics(Loop& loop, long batch, double** in, double** out)
{
    const mjModel* m = loop.model;
    over_batch(loop, batch, [&](mjData* d, long i) {
        set_position(m, d, in[0], i);
        mj_makeM(m, d);
        mj_factorM(m, d);
        set_velocity(m, d, in[1], i);
        mj_rne(m, d, 0, d->qfrc_bias);
        const double* tau = in[2] + i * m->nv;
        for (int j = 0; j < m->nv; ++j) d->qfrc_smooth[j] = tau[j] - d->qfrc_bias[j];
        mj_solveM(m, d, out[0] + i * m->nv, d->qfrc_smooth, 1);
    });
}

void mass_matrix(Loop& loop, long batch, double** in, double** out)
{
    const mjModel* m = loop.model;
    over_batch(loop, batch, [&](mjData* d, long i) {
        set_position(m, d, in[0], i);
        mj_makeM(m, d);
        mj_fullM(m, d, out[0] + i * m->nv * m->nv);
    });
}

void mass_matrix_inverse(Loop& loop, long batch, double** in, double** out)
{
    const mjModel* m = loop.model;
    over_batch(loop, batch, [&](mjData* d, long i) {
        set_position(m, d, in[0], i);
        mj_makeM(m, d);
        mj_factorM(m, d);
        mj_solveM(m, d, out[0] + i * m->nv * m->nv, loop.identity.data(), m->nv);
    });
}
}
