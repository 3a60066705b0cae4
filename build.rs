//! Gives the shared library its SONAME, so that programs linked against it keep working when the file gets a newer patch version.
fn main() {
    let target_os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if target_os == "linux" {
        let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcntk_reader.so.{major}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
