// Computed torque at 1 kHz: an arm follows a motion, and the loop prints how late it was.
//
//     grid-gen robots/arm7.urdf --functions inverse_dynamics,step
//     cmake -S examples/control_loop -B build/control_loop && cmake --build build/control_loop
//     build/control_loop/control_loop 10000        # cycles; ten seconds
//
// Every millisecond the state is read, the torques for the desired acceleration are computed
// (feedforward by inverse dynamics, feedback of position and velocity within it) and clipped to the
// arm's limits. The arm is simulated here by the library's own step. Printed are percentiles of how long
// the law took to compute, of how late the cycle began, and how far the arm was from the motion.
// The loop allocates no memory and waits for no lock. Where the system allows it, the loop runs under a
// real-time scheduler with its memory locked: `sudo`, or `ulimit -r 80 -l unlimited`.
#include <sys/mman.h>

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "arm7.hpp"

namespace {

using Joints = std::array<double, arm7::nv>;

constexpr double period = 1e-3;                           // s
constexpr double stiffness = 400.0, damping = 40.0;       // 1/s^2, 1/s: critically damped
constexpr double amplitude = 0.4, angular_speed = 2.5;    // rad, rad/s

struct Motion {
    Joints q, qd, qdd;
};

// Each joint swings by itself, out of phase with the others.
Motion desired(double t)
{
    Motion motion;
    for (int j = 0; j < arm7::nv; ++j) {
        const double phase = angular_speed * t + 0.7 * j;
        motion.q[j] = amplitude * std::sin(phase);
        motion.qd[j] = amplitude * angular_speed * std::cos(phase);
        motion.qdd[j] = -amplitude * angular_speed * angular_speed * std::sin(phase);
    }
    return motion;
}

Joints torques(const Motion& to, const Joints& q, const Joints& qd)
{
    Joints qdd, tau;
    for (int j = 0; j < arm7::nv; ++j)
        qdd[j] = to.qdd[j] + damping * (to.qd[j] - qd[j]) + stiffness * (to.q[j] - q[j]);
    arm7::inverse_dynamics(q.data(), qd.data(), qdd.data(), tau.data());
    for (int j = 0; j < arm7::nv; ++j)
        tau[j] = std::clamp(tau[j], -arm7::effort_limits[j], arm7::effort_limits[j]);
    return tau;
}

double now()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

void sleep_until(double when)
{
    timespec time;
    time.tv_sec = time_t(when);
    time.tv_nsec = long(1e9 * (when - double(time.tv_sec)));
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) != 0) {
    }
}

bool is_real_time()
{
    sched_param priority;
    priority.sched_priority = 80;
    return mlockall(MCL_CURRENT | MCL_FUTURE) == 0 &&
           pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
}

void print_percentiles(const char* what, std::vector<double>& seconds)
{
    std::sort(seconds.begin(), seconds.end());
    const auto at = [&](double share) { return seconds[std::size_t(share * double(seconds.size() - 1))]; };
    std::printf("%-22s %9.2f %9.2f %9.2f %9.2f\n", what, 1e6 * at(0.5), 1e6 * at(0.99), 1e6 * at(0.999),
                1e6 * seconds.back());
}

}  // namespace

int main(int count, char** words)
{
    const long cycles = count > 1 ? std::atol(words[1]) : 5000;
    if (cycles < 1) {
        std::fprintf(stderr, "control_loop: give the number of cycles\n");
        return 2;
    }
    std::vector<double> computing(std::size_t(cycles), 0.0), late(std::size_t(cycles), 0.0);
    std::printf("%ld cycles of %.0f us, %s\n", cycles, 1e6 * period,
                is_real_time() ? "under a real-time scheduler" : "without a real-time scheduler");

    Joints q = desired(0).q, qd = desired(0).qd;
    double worst = 0;
    const double start = now() + period;
    for (long cycle = 0; cycle < cycles; ++cycle) {
        const double t = double(cycle) * period;
        sleep_until(start + t);
        const double begin = now();
        const Motion to = desired(t);
        const Joints tau = torques(to, q, qd);
        const double end = now();

        Joints q_next, qd_next;
        arm7::step_semi_implicit(q.data(), qd.data(), tau.data(), period, q_next.data(), qd_next.data());
        q = q_next, qd = qd_next;
        const Motion reached = desired(t + period);
        for (int j = 0; j < arm7::nv; ++j) worst = std::max(worst, std::abs(reached.q[j] - q[j]));
        computing[std::size_t(cycle)] = end - begin;
        late[std::size_t(cycle)] = begin - (start + t);
    }
    std::printf("%-22s %9s %9s %9s %9s\n", "[us]", "median", "99 %", "99.9 %", "most");
    print_percentiles("the law is computed in", computing);
    print_percentiles("a cycle begins late by", late);
    std::printf("farthest from the motion: %.2e rad\n", worst);
    return worst < 5e-3 ? 0 : 1;
}
