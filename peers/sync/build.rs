//! Compiles the measurements of the libraries in C, with the same options as their users do.

fn main() {
    println!("cargo::rerun-if-changed=c");
    // The numbers are those of `live.rs`.
    compile("c/ck.c", "ck", None, 10);
    for (at, flavour) in ["memb", "qsbr", "bp"].into_iter().enumerate() {
        compile("c/urcu.c", flavour, Some(&flavour.to_uppercase()), 11 + at);
        println!("cargo::rustc-link-lib=urcu-{flavour}");
    }
    println!("cargo::rustc-link-lib=ck");
}

fn compile(file: &str, name: &str, define: Option<&str>, id: usize) {
    let mut build = cc::Build::new();
    build.file(file).opt_level(2).pic(false).flag("-fPIE").warnings(true);
    build.define("ID", id.to_string().as_str());
    if let Some(define) = define {
        build.define(define, None);
    }
    build.compile(&format!("peer_{name}"));
}
