// A program that solves inverse kinematics: one problem, a batch, and with every option.
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "arm6.hpp"

template <class S> static int run()
{
    long long n;
    if (std::fread(&n, sizeof n, 1, stdin) != 1) return 1;
    std::vector<S> targets(16 * n), q(6 * n), success(n), residual(2 * n), start(6);
    if (std::fread(targets.data(), sizeof(S), targets.size(), stdin) != targets.size()) return 1;
    if (std::fread(start.data(), sizeof(S), start.size(), stdin) != start.size()) return 1;
    const auto answer = [&](long long count) {
        std::fwrite(q.data(), sizeof(S), 6 * count, stdout);
        std::fwrite(success.data(), sizeof(S), count, stdout);
        std::fwrite(residual.data(), sizeof(S), 2 * count, stdout);
    };
    arm6::inverse_kinematics_of_tool0_batch(
        targets.data(), q.data(), success.data(), residual.data(), n);
    answer(n);
    const auto solve = [&](const S* q0, const S* rest, const S* settings) {
        std::array<S, 6> found;
        std::array<S, 2> errors;
        arm6::inverse_kinematics_of_tool0(
            targets.data(), found, success.data(), errors, q0, rest, nullptr, settings);
        std::copy(found.begin(), found.end(), q.begin());
        std::copy(errors.begin(), errors.end(), residual.begin());
        answer(1);
    };
    const S settings[] = {S(1e-3), S(1e-2), 40, 3};
    solve(nullptr, nullptr, nullptr);
    solve(start.data(), nullptr, settings);
    solve(nullptr, start.data(), nullptr);
    S none[6];
    try {
        arm6::inverse_kinematics_of_tool0(nullptr, none, none, none);
        return 1;
    } catch (const gridgen::Error& error) {
        return error.status() != gridgen_no_array;
    }
}

int main() { return run<float>() || run<double>(); }
