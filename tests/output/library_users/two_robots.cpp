// A program of somebody who has two robots: states in, efforts out, in binary.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "pendulum.hpp"
#include "two_link.hpp"

static_assert(two_link::nq == 2 && two_link::nv == 2 && pendulum::nv == 1);
static_assert(two_link::joint_names[1] == "elbow" && two_link::frame_names.back() == "tip");
static_assert(two_link::parents[0] == -1 && two_link::lower_limits[0] < two_link::upper_limits[0]);

static void require(bool holds, const char* what)
{
    if (!holds) throw std::runtime_error(what);
}

// Writes what inverse dynamics makes of three arrays, read with the number of their states before.
template <class S, class One, class Batch> static void run(int nv, One one, Batch batch)
{
    long long n = 0;
    require(std::fread(&n, sizeof n, 1, stdin) == 1, "no count");
    const auto size = static_cast<std::size_t>(nv * n);
    std::vector<S> x[3], tau(size), again(size), single(static_cast<std::size_t>(nv));
    for (std::vector<S>& array : x) {
        array.resize(size);
        require(std::fread(array.data(), sizeof(S), size, stdin) == size, "too few numbers");
    }
    batch(x[0].data(), x[1].data(), x[2].data(), tau.data(), n, nullptr, 3);
    batch(x[0].data(), x[1].data(), x[2].data(), again.data(), n, nullptr, 1);
    require(tau == again, "threads change results");
    for (std::size_t at = 0; at < size; at += single.size()) {
        one(&x[0][at], &x[1][at], &x[2][at], single.data(), nullptr);
        for (std::size_t j = 0; j < single.size(); ++j)
            require(single[j] == tau[at + j], "one state alone has another result");
    }
    std::fwrite(tau.data(), sizeof(S), size, stdout);
}

template <class S> static void run_both()
{
    const auto one = [](auto... x) { two_link::inverse_dynamics(x...); };
    const auto other = [](auto... x) { pendulum::inverse_dynamics(x...); };
    run<S>(two_link::nv, one, two_link::inverse_dynamics_batch<S>);
    run<S>(pendulum::nv, other, pendulum::inverse_dynamics_batch<S>);
}

// A batch for several threads, of states at rest.
static void compute_many()
{
    constexpr long long n = 100000;
    std::vector<double> rest(two_link::nv * n), tau(two_link::nv * n);
    const double* q = rest.data();
    two_link::inverse_dynamics_batch(q, q, q, tau.data(), n, nullptr, 3);
}

// A child has none of the threads that its parent has started; it computes, and ends like any program.
static bool child_computes()
{
    compute_many();
    const pid_t child = fork();
    if (child == 0) {
        compute_many();
        std::exit(0);
    }
    int status = 1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int count, char**)
{
    try {
        run_both<float>();
        run_both<double>();
        std::fflush(stdout);
        if (count > 1) require(child_computes(), "a child of a fork did not compute");
        double tau[two_link::nv] = {};
        two_link::inverse_dynamics(static_cast<const double*>(nullptr), tau, tau, tau);
    } catch (const gridgen::Error& error) {
        return error.status() == gridgen_no_array ? 0 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    return 1;
}
