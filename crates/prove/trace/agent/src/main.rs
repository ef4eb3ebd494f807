//! The agent as a program of its own: the init of a guest.

fn main() {
    if std::process::id() == 1 {
        knee_agent::init();
    }
    std::process::exit(knee_agent::main());
}
