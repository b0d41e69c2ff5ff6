// The declarations of ROS 2 that a generated controller uses, with just enough behind them to run it in a
// test: names and signatures are those of ros2_control 4 (Jazzy) and 6, whose headers ROS alone has.
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#define RCLCPP_ERROR(logger, ...) (static_cast<void>(logger), std::fprintf(stderr, __VA_ARGS__))
#define RCLCPP_WARN RCLCPP_ERROR
#define PLUGINLIB_EXPORT_CLASS(Class, Base) \
    std::unique_ptr<Base> make_plugin() { return std::make_unique<Class>(); }

namespace rclcpp {
struct Time {};
struct Duration {};
struct SystemDefaultsQoS {};
struct Logger {};
struct Parameter {
    std::vector<double> values;
    std::vector<double> as_double_array() const { return values; }
};
template <class Message> struct Subscription {
    using SharedPtr = std::shared_ptr<Subscription>;
};
}  // namespace rclcpp

namespace trajectory_msgs::msg {
struct JointTrajectoryPoint {
    std::vector<double> positions, velocities, accelerations, effort;
};
}  // namespace trajectory_msgs::msg

namespace rclcpp_lifecycle {
struct State {};
struct LifecycleNode {
    std::map<std::string, std::vector<double>> parameters;
    std::function<void(std::shared_ptr<const trajectory_msgs::msg::JointTrajectoryPoint>)> receive;

    rclcpp::Logger get_logger() const { return {}; }
    const char* get_name() const { return "controller"; }
    rclcpp::Parameter get_parameter(const std::string& name) const { return {parameters.at(name)}; }
    template <class Message, class Callback>
    std::shared_ptr<rclcpp::Subscription<Message>> create_subscription(
        const std::string&, const rclcpp::SystemDefaultsQoS&, Callback&& callback) {
        receive = callback;
        return nullptr;
    }
};
}  // namespace rclcpp_lifecycle

namespace hardware_interface {
constexpr char HW_IF_POSITION[] = "position";
constexpr char HW_IF_VELOCITY[] = "velocity";
constexpr char HW_IF_ACCELERATION[] = "acceleration";
constexpr char HW_IF_EFFORT[] = "effort";

struct CommandInterface {
    using SharedPtr = std::shared_ptr<CommandInterface>;
    std::string name;
    double value = 0.0;

    CommandInterface(const std::string& prefix, const std::string& interface_name)
        : name(prefix + "/" + interface_name) {}
    template <class T = double> [[nodiscard]] std::optional<T> get_optional(unsigned = 10) const { return value; }
    template <class T> [[nodiscard]] bool set_value(const T& given, unsigned = 10) { return value = given, true; }
};
using LoanedCommandInterface = CommandInterface;
using LoanedStateInterface = CommandInterface;
}  // namespace hardware_interface

namespace controller_interface {
enum class CallbackReturn { SUCCESS, ERROR };
enum class return_type { OK, ERROR };
enum class interface_configuration_type { ALL, INDIVIDUAL, NONE };
struct InterfaceConfiguration {
    interface_configuration_type type;
    std::vector<std::string> names;
};

class ChainableControllerInterface {
public:
    using Interfaces = std::vector<hardware_interface::CommandInterface::SharedPtr>;
    bool is_chained = true;
    std::vector<hardware_interface::LoanedCommandInterface> command_interfaces_;
    std::vector<hardware_interface::LoanedStateInterface> state_interfaces_;
    Interfaces ordered_exported_reference_interfaces_;

    virtual ~ChainableControllerInterface() = default;
    virtual CallbackReturn on_init() = 0;
    virtual InterfaceConfiguration command_interface_configuration() const = 0;
    virtual InterfaceConfiguration state_interface_configuration() const = 0;
    virtual CallbackReturn on_configure(const rclcpp_lifecycle::State&) = 0;
    virtual CallbackReturn on_activate(const rclcpp_lifecycle::State&) = 0;
    virtual CallbackReturn on_deactivate(const rclcpp_lifecycle::State&) = 0;

    return_type update(const rclcpp::Time& time, const rclcpp::Duration& period) {
        if (!is_chained && update_reference_from_subscribers(time, period) != return_type::OK)
            return return_type::ERROR;
        return update_and_write_commands(time, period);
    }
    bool is_in_chained_mode() const { return is_chained; }
    std::shared_ptr<rclcpp_lifecycle::LifecycleNode> get_node() const { return node_; }
    void assign_interfaces() {
        for (const std::string& name : command_interface_configuration().names)
            command_interfaces_.emplace_back("", name);
        for (const std::string& name : state_interface_configuration().names)
            state_interfaces_.emplace_back("", name);
        ordered_exported_reference_interfaces_ = on_export_reference_interfaces_list();
    }

protected:
    virtual Interfaces on_export_reference_interfaces_list() = 0;
    virtual return_type update_reference_from_subscribers(const rclcpp::Time&, const rclcpp::Duration&) = 0;
    virtual return_type update_and_write_commands(const rclcpp::Time&, const rclcpp::Duration&) = 0;
    template <class T> void auto_declare(const std::string& name, const T& value) {
        node_->parameters.emplace(name, value);
    }

private:
    std::shared_ptr<rclcpp_lifecycle::LifecycleNode> node_ = std::make_shared<rclcpp_lifecycle::LifecycleNode>();
};
}  // namespace controller_interface
