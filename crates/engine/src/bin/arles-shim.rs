//! The shim by itself, for tests of the local engine; the daemon runs the same as `arles shim`.

fn main() -> std::process::ExitCode {
    let Some(folder) = std::env::var_os(arles_engine::SHIM_VARIABLE) else {
        eprintln!("{} is not set; only the local engine starts this program", arles_engine::SHIM_VARIABLE);
        return std::process::ExitCode::from(2);
    };
    u8::try_from(arles_engine::shim(std::path::Path::new(&folder))).unwrap_or(1).into()
}
