//! The agent as a standalone program: the init process of a guest.

fn main() {
    if std::process::id() == 1 {
        knee_agent::init();
    }
    std::process::exit(knee_agent::main());
}
