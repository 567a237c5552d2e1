//! Tasks of this repository that are not part of the program: `cargo xtask TASK`. Each runs plain cargo commands or reads
//! the tree; none knows the crates by name, but for `arles`, the binary.

mod cargo;
mod chaos;
mod deb;
mod kill;
mod same;
mod skips;
mod test;
mod tidy;

use std::process::ExitCode;

/// A word after `cargo xtask`.
struct Task {
    name: &'static str,
    usage: &'static str,
    run: fn(&[String]) -> Result<(), String>,
}

const TASKS: &[Task] = &[
    Task { name: "test", usage: test::USAGE, run: test::run },
    Task { name: "tidy", usage: tidy::USAGE, run: tidy::run },
    Task { name: "chaos", usage: chaos::USAGE, run: chaos::run },
    Task { name: "kill", usage: kill::USAGE, run: kill::run },
    Task { name: "deb", usage: deb::USAGE, run: deb::run },
    Task { name: "same", usage: same::USAGE, run: same::run },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wanted = args.first().map_or("", String::as_str);
    let done = match TASKS.iter().find(|task| task.name == wanted) {
        Some(task) => (task.run)(&args[1..]),
        None => {
            let usages: Vec<&str> = TASKS.iter().map(|task| task.usage).collect();
            Err(format!("'{wanted}' is not a task; the tasks are:\n  {}", usages.join("\n  ")))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
