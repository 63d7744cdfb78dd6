// The subcommands of `ringgrad`. Each adds itself to the command line and returns what runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace ringgrad::apps {

// What a subcommand does once the line is parsed; returns the exit code.
using Action = std::function<int()>;

Action add_train(CLI::App& app);
Action add_launch(CLI::App& app);
Action add_eval(CLI::App& app);
Action add_fetch(CLI::App& app);
Action add_inspect(CLI::App& app);
Action add_info(CLI::App& app);
Action add_watch(CLI::App& app);

}  // namespace ringgrad::apps
