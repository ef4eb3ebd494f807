//! Builds the tiny programs that `exec_static` and `exec_dynamic` start; they are embedded in
//! knee, so that a machine to be measured needs no compiler for them.

use std::env;
use std::path::PathBuf;
use std::process::{Command, exit};

const SOURCE: &str = "programs/exit.rs";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    build(
        "exit_static",
        // rustc leaves the linker set to shared libraries when cc adds the C library.
        &["-Ctarget-feature=+crt-static", "-Crelocation-model=static", "-Clink-arg=-Wl,-Bstatic"],
        "it needs the C library as an archive: libc6-dev on Debian and Ubuntu, glibc-static on \
         Fedora",
    );
    build("exit_dynamic", &["-Ctarget-feature=-crt-static"], "it needs a linker: cc");
}

fn build(name: &str, linkage: &[&str], hint: &str) {
    let output = PathBuf::from(variable("OUT_DIR")).join(name);
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args([SOURCE, "--crate-name=exit", "--crate-type=bin", "--edition=2024"]);
    // A static release of knee is built for musl. The programs measure the machine's own C library and loader.
    rustc.arg(format!("--target={}", variable("TARGET").replace("-musl", "-gnu")));
    // The linker driver knows which libraries a static C library needs besides.
    rustc.args(["-Cpanic=abort", "-Copt-level=s", "-Cstrip=symbols"]);
    rustc.args(["-Cdefault-linker-libraries=yes"]).args(linkage);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.arg("-o").arg(output);
    match rustc.output() {
        Ok(done) if done.status.success() => {}
        Ok(done) => fail(name, hint, &String::from_utf8_lossy(&done.stderr)),
        Err(error) => fail(name, hint, &error.to_string()),
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}

fn fail(name: &str, hint: &str, said: &str) -> ! {
    println!("cargo::error=cannot build the program {name} from {SOURCE}: {hint}");
    eprintln!("{said}");
    exit(1)
}
