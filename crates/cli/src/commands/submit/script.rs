//! Scripts: the file that travels with a job, and what its `#ARLES` lines ask for.
//!
//! The lines stand in the comments at the head of the file, one thing each:
//!
//! ```text
//! #!/bin/bash
//! #ARLES gpus=2
//! #ARLES time-limit=2h
//! ```
//!
//! They have the names of the flags, and flags on the command line win.

use super::flags::JobFlags;
use crate::fault::Hinted;
use anyhow::Result;
use arles_api as api;
use arles_core::library::suggestion;
use clap::{ArgAction, Args, Command, FromArgMatches};
use std::path::Path;

/// Bytes of a script that a server takes.
const MOST_BYTES: u64 = 1 << 20;
const MARK: &str = "#ARLES";

/// A file as a program, and what it says of its job. A Python file without an interpreter's line is run where it is.
pub(super) fn read(path: &Path, arguments: &[String]) -> Result<(api::Program, JobFlags)> {
    let shown = path.display();
    let wrong = |sentence: String, hint: &str| Hinted::new(sentence, hint);
    let length = std::fs::metadata(path).map_or(0, |about| about.len());
    if length > MOST_BYTES {
        let sentence = format!("{shown} has {length} bytes; a script may have {MOST_BYTES}");
        return Err(wrong(sentence, "submit a command that runs it: 'arles submit -- COMMAND'").into());
    }
    let bytes =
        std::fs::read(path).map_err(|e| wrong(format!("{shown}: cannot read this file: {e}"), "check its name"))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        wrong(format!("{shown} is not a text"), "submit a command that runs it: 'arles submit -- COMMAND'")
    })?;
    let flags = directives(&text, &shown.to_string())?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if text.starts_with("#!") {
        let program = api::Program {
            command: arguments.to_vec(),
            script: Some(api::Script { name, text }),
            ..Default::default()
        };
        return Ok((program, flags));
    }
    if path.extension().is_some_and(|extension| extension == "py") {
        let command = ["python3".to_owned(), shown.to_string()].into_iter().chain(arguments.iter().cloned()).collect();
        return Ok((api::Program { command, ..Default::default() }, flags));
    }
    let sentence = format!("{shown}:1: a script begins with a line that names its interpreter, such as #!/bin/bash");
    Err(wrong(sentence, "add the line, or submit a command: 'arles submit -- COMMAND'").into())
}

/// What the `#ARLES` lines at the head of a text set.
fn directives(text: &str, origin: &str) -> Result<JobFlags> {
    let command = JobFlags::augment_args(Command::new(MARK).no_binary_name(true).disable_help_flag(true));
    let head = text.lines().take_while(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    let (mut given, mut once) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(head) {
        let Some(rest) = line.trim().strip_prefix(MARK) else { continue };
        let place = |sentence: String| {
            let hint = "lines are written '#ARLES KEY=VALUE', with the names of the flags of 'arles submit'";
            Hinted::new(format!("{origin}:{number}: {sentence}"), hint)
        };
        let rest = rest.trim().trim_start_matches("--");
        let (key, value) = rest.split_once('=').map_or((rest, None), |(key, value)| (key.trim(), Some(value.trim())));
        let names = || command.get_arguments().filter_map(|arg| arg.get_long());
        let Some(arg) = command.get_arguments().find(|arg| arg.get_long() == Some(key)) else {
            let near = suggestion(key, names());
            return Err(place(format!("there is no key '{key}'{near}")).into());
        };
        let switch = matches!(arg.get_action(), ArgAction::SetTrue);
        let word = match (switch, value) {
            (true, None | Some("true")) => format!("--{key}"),
            (false, Some(value)) => format!("--{key}={value}"),
            (true, Some(value)) => return Err(place(format!("{key} is '{value}'; expected '#ARLES {key}'")).into()),
            (false, None) => return Err(place(format!("{key} has no value")).into()),
        };
        if !matches!(arg.get_action(), ArgAction::Append) {
            if once.contains(&key) {
                return Err(place(format!("{key} is given twice")).into());
            }
            once.push(key);
        }
        if let Err(error) = command.clone().try_get_matches_from([&word]) {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            return Err(place(first.trim_start_matches("error: ").to_owned()).into());
        }
        given.push(word);
    }
    let together = |error: clap::Error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Hinted::new(format!("{origin}: {first}"), "remove one of the #ARLES lines")
    };
    let matches = command.try_get_matches_from(&given).map_err(together)?;
    Ok(JobFlags::from_arg_matches(&matches).map_err(together)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> api::JobRequest {
        directives(text, "job.sh").expect("sound").request(None, Some(api::Program::default())).expect("a request")
    }

    #[test]
    fn lines_at_the_head_set_flags() {
        let text = "#!/bin/bash\n# a comment\n#ARLES gpus=v100:2\n#ARLES time-limit = 2h\n\n#ARLES env=A=1\n#ARLES env=B=2\n\
                    #ARLES hold\n#ARLES array=1-4%2\npython train.py\n#ARLES name=too-late\n";
        let job = request(text);
        assert_eq!((job.gang, job.kinds, job.time_limit_seconds), (2, vec!["v100".to_owned()], Some(7200.0)));
        assert_eq!(job.program.expect("one").environment.len(), 2);
        assert!(job.held && job.array.is_some() && job.name.is_none());
    }

    #[test]
    fn wrong_lines_are_told_with_their_number() {
        let wrong = |text: &str| directives(text, "job.sh").err().expect(text).to_string();
        assert_eq!(wrong("#!/bin/sh\n#ARLES gpsu=2\n"), "job.sh:2: there is no key 'gpsu' (did you mean gpus?)");
        assert!(wrong("#!/bin/sh\n\n#ARLES gpus=x\n").starts_with("job.sh:3: invalid value 'x' for '--gpus <GPUS>'"));
        assert_eq!(wrong("#ARLES name=a\n#ARLES name=b\n"), "job.sh:2: name is given twice");
        assert_eq!(wrong("#ARLES gpus\n"), "job.sh:1: gpus has no value");
        assert_eq!(wrong("#ARLES hold=maybe\n"), "job.sh:1: hold is 'maybe'; expected '#ARLES hold'");
        assert!(wrong("#ARLES steps=1\n#ARLES period=1h\n").contains("cannot be used with"));
    }

    #[test]
    fn the_command_line_wins() {
        let script =
            || directives("#ARLES gpus=2\n#ARLES steps=10\n#ARLES kinds=k80\n#ARLES env=A=1\n", "x").expect("sound");
        let line = |line: &str| {
            let command = JobFlags::augment_args(Command::new("x").no_binary_name(true));
            let matches = command.try_get_matches_from(line.split_whitespace()).expect("flags");
            let flags = JobFlags::from_arg_matches(&matches).expect("flags").over(script());
            flags.request(None, Some(api::Program::default())).expect("a request")
        };
        assert_eq!((line("").gang, line("").steps), (2, Some(10.0)));
        assert_eq!(line("--gpus 4").gang, 4);
        assert_eq!(line("--gpus v100:4").kinds, ["v100"]);
        assert_eq!((line("--period 1h").steps, line("--period 1h").period_seconds), (None, Some(3600.0)));
        assert_eq!(line("--env A=2").program.expect("one").environment["A"], "2");
    }
}
