// The algorithms of Pinocchio's own library in a C++ loop. Its wheel has these compiled, for any
// processor of its architecture: what is left takes the compiler seconds.
#define PINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION
#define OF_PINOCCHIOS_LIBRARY
#include "pinocchio_loop.h"

// Each file defines a function "evaluate", which gets the file's name here.
#define DECLARE(name) extern "C" void name(Loop&, long, double**, double**);

DECLARE(inverse_dynamics)
#define evaluate inverse_dynamics
#include "pinocchio_functions/inverse_dynamics.cpp"
#undef evaluate

DECLARE(bias_forces)
#define evaluate bias_forces
#include "pinocchio_functions/bias_forces.cpp"
#undef evaluate

DECLARE(gravity_forces)
#define evaluate gravity_forces
#include "pinocchio_functions/gravity_forces.cpp"
#undef evaluate

DECLARE(coriolis_matrix)
#define evaluate coriolis_matrix
#include "pinocchio_functions/coriolis_matrix.cpp"
#undef evaluate

DECLARE(forward_dynamics)
#define evaluate forward_dynamics
#include "pinocchio_functions/forward_dynamics.cpp"
#undef evaluate

DECLARE(mass_matrix)
#define evaluate mass_matrix
#include "pinocchio_functions/mass_matrix.cpp"
#undef evaluate

DECLARE(inverse_dynamics_gradient)
#define evaluate inverse_dynamics_gradient
#include "pinocchio_functions/inverse_dynamics_gradient.cpp"
#undef evaluate

DECLARE(forward_dynamics_gradient)
#define evaluate forward_dynamics_gradient
#include "pinocchio_functions/forward_dynamics_gradient.cpp"
#undef evaluate

DECLARE(forward_kinematics)
#define evaluate forward_kinematics
#include "pinocchio_functions/forward_kinematics.cpp"
#undef evaluate

DECLARE(center_of_mass)
#define evaluate center_of_mass
#include "pinocchio_functions/center_of_mass.cpp"
#undef evaluate

DECLARE(center_of_mass_jacobian)
#define evaluate center_of_mass_jacobian
#include "pinocchio_functions/center_of_mass_jacobian.cpp"
#undef evaluate

DECLARE(centroidal_momentum_matrix)
#define evaluate centroidal_momentum_matrix
#include "pinocchio_functions/centroidal_momentum_matrix.cpp"
#undef evaluate

DECLARE(centroidal_momentum)
#define evaluate centroidal_momentum
#include "pinocchio_functions/centroidal_momentum.cpp"
#undef evaluate

DECLARE(kinetic_energy)
#define evaluate kinetic_energy
#include "pinocchio_functions/kinetic_energy.cpp"
#undef evaluate
