//! Compiles `blazar/**/*.pyx` beside the Rust extension, so that one wheel carries both.
use std::{env, path::Path, process::Command};

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let root = Path::new(&here).join("../..");
    let python =
        env::var("PYO3_PYTHON").or_else(|_| env::var("PYTHON_SYS_EXECUTABLE")).unwrap_or_else(|_| "python3".to_owned());
    for path in ["build/kernels.py", "build.rs"] {
        println!("cargo::rerun-if-changed={here}/{path}");
    }
    for room in ["memory", "admission"] {
        println!("cargo::rerun-if-changed={}", root.join("blazar").join(room).display());
    }
    println!("cargo::rerun-if-env-changed=PYO3_PYTHON");
    let status = Command::new(&python).arg(Path::new(&here).join("build/kernels.py")).arg(&root).arg(&out).status();
    match status {
        Ok(code) if code.success() => {}
        Ok(code) => panic!("compiling the Cython kernels with {python} failed ({code})"),
        Err(error) => panic!("cannot start {python} to compile the Cython kernels: {error}"),
    }
}
