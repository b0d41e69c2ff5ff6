// Runs a generated controller. Reads gains, and states with references; writes the torques of update, by
// references of another controller and by messages, which must not allocate or lock.
#include <cmath>
#include <cstdlib>
#include <limits>

#include "controller.cpp"

extern "C" int watched(int (*)(const void*, long long, long long, long long), const void*, long long, int*);

using namespace PACKAGE;
using Controller = controller_interface::ChainableControllerInterface;

static void check(bool is_good, int line) {
    if (is_good) return;
    std::fprintf(stderr, "line %d\n", line);
    std::exit(1);
}
#define CHECK(...) check((__VA_ARGS__), __LINE__)

static Vector read() {
    Vector found;
    CHECK(std::fread(found.data(), sizeof(double), joints, stdin) == joints);
    return found;
}

static int update(const void* controller, long long, long long, long long) {
    auto* const own = static_cast<Controller*>(const_cast<void*>(controller));
    return int(own->update(rclcpp::Time{}, rclcpp::Duration{}));
}

static void write_torques(const Controller& controller) {
    int did = -1;
    CHECK(watched(update, &controller, 1, &did) == 0 && did == 0);
    for (const auto& command : controller.command_interfaces_)
        std::fwrite(&command.value, sizeof(double), 1, stdout);
}

static std::vector<double> list(const Vector& x) { return {x.begin(), x.end()}; }

int main() {
    const auto made = make_plugin();
    Controller& controller = *made;
    const rclcpp_lifecycle::State state;
    auto& parameters = controller.get_node()->parameters;
    CHECK(controller.on_init() == CallbackReturn::SUCCESS);
    const Vector kp = read(), kd = read();
    CHECK(parameters["kp"].size() == 1);
    for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) {
        parameters["kp"] = {bad};
        CHECK(controller.on_configure(state) == CallbackReturn::ERROR);
    }
    parameters["kp"] = list(kp);
    parameters["kd"] = {1.0, 2.0};
    CHECK(controller.on_configure(state) == CallbackReturn::ERROR);
    parameters["kd"] = list(kd);
    CHECK(controller.on_configure(state) == CallbackReturn::SUCCESS);
    controller.assign_interfaces();
    CHECK(controller.command_interfaces_[0].name == "/" + std::string(joint_names[0]) + "/effort");
    CHECK(controller.state_interfaces_[joints].name == "/" + std::string(joint_names[0]) + "/velocity");
    auto& references = controller.ordered_exported_reference_interfaces_;
    CHECK(references.size() == 3 * joints);
    CHECK(references[0]->name == "controller/" + std::string(joint_names[0]) + "/position");
    const auto measure = [&](const Vector& q, const Vector& qd) {
        for (int i = 0; i < joints; ++i) {
            controller.state_interfaces_[i].value = q[i];
            controller.state_interfaces_[joints + i].value = qd[i];
        }
    };

    Vector q = read(), qd = read();
    measure(q, qd);
    CHECK(controller.on_activate(state) == CallbackReturn::SUCCESS);
    write_torques(controller);  // holds
    for (auto& one : references) one->value = std::nan("");
    write_torques(controller);  // the same
    const Vector to[] = {read(), read(), read()};
    for (int kind = 0; kind < 3; ++kind)
        for (int i = 0; i < joints; ++i) references[kind * joints + i]->value = to[kind][i];
    write_torques(controller);

    controller.is_chained = false;
    CHECK(controller.on_activate(state) == CallbackReturn::SUCCESS);
    auto point = std::make_shared<trajectory_msgs::msg::JointTrajectoryPoint>();
    const auto& receive = controller.get_node()->receive;
    receive(point);
    point->positions = list(to[0]);
    point->velocities = {std::nan("")};
    receive(point);
    write_torques(controller);  // refused both: holds
    point->velocities = list(to[1]);
    point->accelerations = list(to[2]);
    receive(point);
    write_torques(controller);
    write_torques(controller);  // the same
    point->velocities.clear();
    point->accelerations.clear();
    receive(point);
    write_torques(controller);  // at rest

    controller.state_interfaces_[0].value = std::nan("");
    CHECK(controller.update(rclcpp::Time{}, rclcpp::Duration{}) == controller_interface::return_type::ERROR);
    CHECK(controller.on_activate(state) == CallbackReturn::ERROR);
    CHECK(controller.on_deactivate(state) == CallbackReturn::SUCCESS);
    for (const auto& command : controller.command_interfaces_) CHECK(command.value == 0.0);
}
