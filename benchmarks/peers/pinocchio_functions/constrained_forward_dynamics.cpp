#include "../pinocchio_loop.h"

#include <pinocchio/algorithm/constrained-dynamics.hpp>

// The links of loop.frames are held at points of the world.
void evaluate(Loop& loop, long batch, double** in, double** out)
{
    const auto& model = loop.model;
    std::vector<pinocchio::RigidConstraintModel> models;
    for (const long index : loop.frames) {
        const auto& frame = model.frames[index];
        models.emplace_back(pinocchio::CONTACT_3D, model, frame.parentJoint, frame.placement,
                            pinocchio::LOCAL_WORLD_ALIGNED);
    }
    const long rows = 3 * long(models.size());
    std::vector<std::vector<pinocchio::RigidConstraintData>> constraints(loop.data.size());
    for (std::size_t thread = 0; thread < loop.data.size(); ++thread) {
        for (const auto& one : models) constraints[thread].emplace_back(one);
        initConstraintDynamics(model, *loop.data[thread], models, constraints[thread]);
    }
    over_batch(loop, batch, [&](Data& data, long i) {
        auto& own = constraints[omp_get_thread_num()];
        Vector(out[0] + i * model.nv, model.nv) =
            constraintDynamics(model, data, Q, V, X, models, own);
        Vector(out[1] + i * rows, rows) = data.lambda_c;
    });
}
