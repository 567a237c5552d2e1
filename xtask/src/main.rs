//! Tasks of this repository that are not part of the program: `cargo xtask TASK`.

mod chaos;
mod kill;
mod test;

use std::process::ExitCode;

/// One task.
struct Task {
    name: &'static str,
    usage: &'static str,
    run: fn(&[String]) -> Result<(), String>,
}

const TASKS: &[Task] = &[
    Task { name: "test", usage: test::USAGE, run: test::run },
    Task { name: "chaos", usage: chaos::USAGE, run: chaos::run },
    Task { name: "kill", usage: kill::USAGE, run: kill::run },
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
