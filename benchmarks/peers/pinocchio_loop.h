// Pinocchio's algorithms over a batch of states, called from C++: no binding, no interpreter.
//
// Arrays are row-major, one state per row, in and out; matrices are written whole. Everything is
// compiled here with the flags of this very machine: no code of Pinocchio's own libraries runs, and
// the model comes in as text. Each function is a file of its own, for its compiler takes a minute.
// With OF_PINOCCHIOS_LIBRARY (pinocchio_library.cpp) all of them call that library, in one file.
#pragma once

#include <omp.h>

#include <memory>
#include <string>
#include <vector>

#include <pinocchio/multibody.hpp>
#ifdef OF_PINOCCHIOS_LIBRARY
#include <pinocchio/parsers/urdf.hpp>
#else
#include <pinocchio/serialization.hpp>
#endif

namespace {

using Vector = Eigen::Map<Eigen::VectorXd>;
#ifdef OF_PINOCCHIOS_LIBRARY
// What the library's functions are compiled for.
using Input = Eigen::Ref<const Eigen::VectorXd>;
#else
using Input = Eigen::Map<const Eigen::VectorXd>;
#endif
using Matrix = Eigen::Map<Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
using pinocchio::Convention;
using pinocchio::Data;

struct Loop {
    pinocchio::Model model;
    std::vector<std::unique_ptr<Data>> data;  // one for each thread
    std::vector<long> frames;                 // those that the function is about
};

// Calls state(data, i) for every state i of the batch.
template <class State> void over_batch(Loop& loop, long batch, const State& state)
{
    constexpr long least_share = 32;  // states; a few microseconds, as long as waking a thread
    const long available = long(loop.data.size()), enough = 1 + (batch - 1) / least_share;
    const long threads = enough < available ? enough : available;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const long thread = omp_get_thread_num();
        Data& data = *loop.data[thread];
        const long end = batch * (thread + 1) / threads;
        for (long i = batch * thread / threads; i < end; ++i) state(data, i);
    }
}

// Pinocchio fills the upper triangle of a symmetric matrix.
template <class Upper> void write_symmetric(const Upper& upper, double* out)
{
    Matrix full(out, upper.rows(), upper.cols());
    full.triangularView<Eigen::Upper>() = upper;
    full.triangularView<Eigen::StrictlyLower>() = upper.transpose();
}

}  // namespace

extern "C" {

#ifdef OF_PINOCCHIOS_LIBRARY
// From a URDF.
void read_model(const std::string& text, bool floating_base, pinocchio::Model& model)
{
    using pinocchio::urdf::buildModelFromXML;
    if (floating_base)
        buildModelFromXML(text, pinocchio::JointModelFreeFlyer(), model);
    else
        buildModelFromXML(text, model);
    model.armature.setZero();
}
#else
// From what Pinocchio has written.
void read_model(const std::string& text, bool, pinocchio::Model& model)
{
    model.loadFromString(text);
}
#endif

Loop* make_loop(const char* text, long length, bool floating_base, int threads, const long* frames,
                long count)
{
    auto* loop = new Loop;
    read_model(std::string(text, length), floating_base, loop->model);
    loop->frames.assign(frames, frames + count);
    for (int i = 0; i < threads; ++i) loop->data.push_back(std::make_unique<Data>(loop->model));
    return loop;
}

void evaluate(Loop& loop, long batch, double** in, double** out);
}

// The arguments of state i.
#define INPUT(k, n) Input(Eigen::Map<const Eigen::VectorXd>(in[k] + i * (n), n))
#define Q INPUT(0, model.nq)
#define V INPUT(1, model.nv)
#define X INPUT(2, model.nv)
