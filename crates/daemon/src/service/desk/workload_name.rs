//! The workload of a program that names none: what it runs, without the arguments that vary.
//!
//! The name is `ENTRY-HHHHHH`: the base name of the entry point, and six hexadecimal digits of a fingerprint of
//!
//! - the container image,
//! - the script's text, less its `#ARLES` lines, or
//! - the entry point: the file, module or code that an interpreter or launcher is told to run. A relative path counts from the working
//!   directory, because every project has a `train.py`.
//!
//! So `python train.py --lr 3e-4` and `torchrun --nproc-per-node 4 train.py --lr 1e-3` are one workload, and the second run profits from what
//! the first one showed. A rule that is wrong costs estimates, never correctness: `--workload NAME` says it better.

use arles_core::{Fingerprint, Program};

/// Longest part of an entry point's name that is kept.
const MOST_CHARACTERS: usize = 60;

/// How the options of a launcher are told from what it launches.
enum Options {
    /// These take a value as the next word; others take none.
    Valued(&'static [&'static str]),
    /// These take no value; others do, unless it is written with `=`.
    Bare(&'static [&'static str]),
}

/// A program that runs another.
struct Launcher {
    /// Base names; `python` also stands for `python3.12`.
    names: &'static [&'static str],
    /// A second word that belongs to it, as in `accelerate launch`.
    verb: Option<&'static str>,
    options: Options,
    /// What it is given is a file for an interpreter, not a program found by `PATH`.
    runs_files: bool,
}

const LAUNCHERS: &[Launcher] = &[
    Launcher {
        names: &["python", "pypy", "ipython"],
        verb: None,
        options: Options::Valued(&["-W", "-X", "--check-hash-based-pycs"]),
        runs_files: true,
    },
    Launcher {
        names: &["bash", "sh", "zsh", "dash", "ksh"],
        verb: None,
        options: Options::Valued(&["-o", "-O", "--rcfile", "--init-file"]),
        runs_files: true,
    },
    Launcher {
        names: &["perl", "ruby", "Rscript", "julia", "node"],
        verb: None,
        options: Options::Valued(&["-I", "-t", "-p", "-C", "-r", "--project", "--threads"]),
        runs_files: true,
    },
    Launcher {
        names: &["torchrun", "torch.distributed.run", "torch.distributed.launch"],
        verb: None,
        options: Options::Bare(&["--standalone", "--no-python", "--run-path", "--use-env"]),
        runs_files: true,
    },
    Launcher {
        names: &["accelerate", "accelerate.commands.launch"],
        verb: Some("launch"),
        options: Options::Bare(&[
            "--multi-gpu",
            "--cpu",
            "--tpu",
            "--ipex",
            "--use-xpu",
            "--use-deepspeed",
            "--use-fsdp",
            "--use-megatron-lm",
            "--use-mps-device",
            "--no-python",
            "--debug",
            "--quiet",
            "-q",
            "--same-network",
            "--enable-cpu-affinity",
        ]),
        runs_files: true,
    },
    Launcher {
        names: &["deepspeed", "deepspeed.launcher.runner"],
        verb: None,
        options: Options::Bare(&[
            "--no-python",
            "--no-local-rank",
            "--no-ssh",
            "--no-ssh-check",
            "--force-multi",
            "--enable-each-rank-log",
            "--save-pid",
            "--bind-cores-to-rank",
            "--elastic-training",
        ]),
        runs_files: true,
    },
    Launcher {
        names: &["srun"],
        verb: None,
        options: Options::Bare(&[
            "--exclusive",
            "--pty",
            "--label",
            "-l",
            "--unbuffered",
            "-u",
            "--verbose",
            "-v",
            "-vv",
            "--quiet",
            "-Q",
            "--overlap",
            "--exact",
            "--kill-on-bad-exit",
            "-K",
            "--no-kill",
            "-k",
            "--overcommit",
            "-O",
            "--oversubscribe",
            "-s",
            "--immediate",
            "-I",
            "--preserve-env",
            "-E",
            "--spread-job",
            "--contiguous",
            "-W0",
            "--mpi-combine",
        ]),
        runs_files: false,
    },
    Launcher {
        names: &["mpirun", "mpiexec", "horovodrun"],
        verb: None,
        options: Options::Valued(&[
            "-n",
            "-np",
            "-N",
            "--np",
            "-c",
            "-H",
            "--host",
            "-hostfile",
            "--hostfile",
            "-machinefile",
            "-x",
            "--map-by",
            "--bind-to",
            "-bind-to",
            "-map-by",
            "--rank-by",
            "-wdir",
            "--wdir",
            "-p",
            "--network-interface",
        ]),
        runs_files: false,
    },
    Launcher {
        names: &["uv"],
        verb: Some("run"),
        options: Options::Valued(&[
            "--with",
            "-w",
            "--with-editable",
            "--with-requirements",
            "--python",
            "-p",
            "--project",
            "--directory",
            "--extra",
            "--group",
            "--no-group",
            "--only-group",
            "--env-file",
            "--index",
            "--index-url",
            "--extra-index-url",
            "--find-links",
            "-f",
            "--package",
            "--config-file",
            "--cache-dir",
            "--refresh-package",
            "--no-extra",
        ]),
        runs_files: false,
    },
    Launcher {
        names: &["poetry", "pdm", "hatch", "pipenv", "rye"],
        verb: Some("run"),
        options: Options::Valued(&["-C", "--directory", "-P", "--project", "-p"]),
        runs_files: false,
    },
    Launcher {
        names: &["conda", "mamba", "micromamba"],
        verb: Some("run"),
        options: Options::Valued(&["-n", "--name", "-p", "--prefix", "--cwd"]),
        runs_files: false,
    },
    Launcher {
        names: &["env"],
        verb: None,
        options: Options::Valued(&["-u", "--unset", "-C", "--chdir"]),
        runs_files: false,
    },
    Launcher {
        names: &["nohup", "nice", "ionice", "time", "exec", "stdbuf", "numactl", "taskset", "chrt", "setsid"],
        verb: None,
        options: Options::Valued(&["-n", "-c", "-i", "-o", "-e", "-N", "-m", "-C"]),
        runs_files: false,
    },
];

/// What a command runs.
#[derive(PartialEq, Eq, Debug)]
struct EntryPoint {
    /// For the name.
    name: String,
    /// For the fingerprint: a path, `-m module`, or code.
    identity: String,
}

/// The workload name of a program.
pub(crate) fn of(program: &Program) -> String {
    let entry = match &program.script {
        Some(script) => {
            let own = |line: &&str| !line.trim_start().starts_with("#ARLES");
            let text: Vec<&str> = script.text.lines().filter(own).collect();
            EntryPoint { name: script.name.clone(), identity: format!("script\n{}\n{}", script.name, text.join("\n")) }
        }
        None => entry_point(&program.command, program.directory.as_deref()),
    };
    let image = program.image.as_deref().unwrap_or_default();
    let print = Fingerprint::of(format!("{image}\0{}", entry.identity).as_bytes());
    let kept = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    let name: String = entry.name.chars().take(MOST_CHARACTERS).map(kept).collect();
    format!("{name}-{:06x}", (print ^ print >> 24 ^ print >> 48) & 0xff_ffff)
}

/// Walks over launchers to what they launch.
fn entry_point(command: &[String], directory: Option<&str>) -> EntryPoint {
    let mut rest: &[String] = command;
    // Whether the next word is a file for an interpreter.
    let mut file = false;
    loop {
        while rest.first().is_some_and(|word| is_assignment(word)) {
            rest = &rest[1..];
        }
        let Some(word) = rest.first() else { return named("program", "program".into()) };
        let Some((launcher, after)) = launcher_of(rest) else { return target(word, file, directory) };
        // A launcher that nothing follows is run for its own sake.
        match launched(launcher, &rest[after..]) {
            Launched::Nothing => return target(word, file, directory),
            Launched::Code(code) => return named(&format!("{}-c", base_name(word)), format!("code\n{code}")),
            Launched::Module(module, after_module) => {
                let again = launcher_named(module).filter(|_| !after_module.is_empty());
                match again {
                    Some(inner) => match launched(inner, after_module) {
                        Launched::Word(words) => (rest, file) = (words, inner.runs_files),
                        Launched::Module(module, _) => return module_target(module, directory),
                        _ => return module_target(module, directory),
                    },
                    None => return module_target(module, directory),
                }
            }
            Launched::Word(words) => (rest, file) = (words, launcher.runs_files),
        }
        // What an interpreter runs is never a launcher itself, unless it says so by its name alone.
        if file && launcher_of(rest).is_none() {
            return target(&rest[0], true, directory);
        }
    }
}

enum Launched<'c> {
    Nothing,
    Code(&'c str),
    Module(&'c str, &'c [String]),
    Word(&'c [String]),
}

/// Skips a launcher's options.
fn launched<'c>(launcher: &Launcher, words: &'c [String]) -> Launched<'c> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if word == "--" {
            at += 1;
            break;
        }
        if word == "-m" || word == "--module" {
            return words.get(at + 1).map_or(Launched::Nothing, |m| Launched::Module(m, &words[at + 2..]));
        }
        if launcher.runs_files && (word == "-c" || is_code_flag(word)) {
            return words.get(at + 1).map_or(Launched::Nothing, |code| Launched::Code(code));
        }
        if is_assignment(word) {
            at += 1;
            continue;
        }
        if !word.starts_with('-') || word == "-" {
            break;
        }
        let dashed = word.replace('_', "-");
        let takes_value = match launcher.options {
            Options::Valued(valued) => valued.contains(&dashed.as_str()),
            Options::Bare(bare) => !bare.contains(&dashed.as_str()),
        };
        at += if takes_value && !word.contains('=') { 2 } else { 1 };
    }
    match words.get(at..) {
        Some(rest) if !rest.is_empty() => Launched::Word(rest),
        _ => Launched::Nothing,
    }
}

/// `bash -lc` and the like.
fn is_code_flag(word: &str) -> bool {
    word.len() <= 4 && word.starts_with('-') && !word.starts_with("--") && word.ends_with('c')
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The launcher that words begin with, and how many words name it.
fn launcher_of(words: &[String]) -> Option<(&'static Launcher, usize)> {
    let launcher = launcher_named(base_name(words.first()?))?;
    match launcher.verb {
        None => Some((launcher, 1)),
        Some(verb) => (words.get(1)? == verb).then_some((launcher, 2)),
    }
}

fn launcher_named(name: &str) -> Option<&'static Launcher> {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    LAUNCHERS.iter().find(|launcher| launcher.names.contains(&name) || launcher.names.contains(&bare))
}

fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

fn named(name: &str, identity: String) -> EntryPoint {
    EntryPoint { name: name.to_owned(), identity }
}

/// A module is looked for from the working directory on.
fn module_target(module: &str, directory: Option<&str>) -> EntryPoint {
    named(module, format!("module\n{}\n{module}", directory.unwrap_or_default()))
}

/// A file or a program.
fn target(word: &str, file: bool, directory: Option<&str>) -> EntryPoint {
    let relative = !word.starts_with('/') && (file || word.contains('/'));
    let path = match directory.filter(|_| relative) {
        Some(directory) => plain_path(&format!("{directory}/{word}")),
        None => plain_path(word),
    };
    named(base_name(&path), format!("file\n{path}"))
}

/// A path without `.` and `..`, as far as that can be seen without a file system.
fn plain_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            (part, _) => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::Script;

    fn command(line: &str) -> Program {
        let command = line.split_whitespace().map(str::to_owned).collect();
        Program { command, directory: Some("/srv/ada/project".into()), ..Program::default() }
    }

    fn name(line: &str) -> String {
        of(&command(line))
    }

    /// However it is launched and whatever its arguments, it is one workload.
    #[test]
    fn arguments_and_launchers_do_not_make_another_workload() {
        let first = name("python train.py --lr 3e-4");
        assert!(first.starts_with("train.py-") && first.len() == "train.py-".len() + 6, "{first}");
        for same in [
            "python train.py --lr 1e-3",
            "python3 train.py",
            "python3.12 -u -W ignore train.py --batch 64",
            "/usr/bin/python ./train.py",
            "python /srv/ada/project/train.py",
            "python ../project/train.py",
            "env CUDA_LAUNCH_BLOCKING=1 python train.py",
            "OMP_NUM_THREADS=4 python train.py",
            "torchrun --nproc-per-node 4 --standalone train.py --lr 1",
            "torchrun --nproc_per_node=4 train.py",
            "python -m torch.distributed.run --nproc_per_node 2 train.py",
            "accelerate launch --multi_gpu --num_processes 4 train.py",
            "deepspeed --num_gpus 8 train.py --deepspeed ds.json",
            "srun -n 4 --exclusive python train.py",
            "uv run --with torch python train.py",
            "uv run python train.py",
            "nohup python train.py",
            "conda run -n torch python train.py",
        ] {
            assert_eq!(name(same), first, "{same}");
        }
    }

    #[test]
    fn another_entry_point_image_or_directory_is_another_workload() {
        let first = name("python train.py");
        for other in ["python eval.py", "python sub/train.py", "python -m train", "bash train.py.sh", "train.py"] {
            assert_ne!(name(other), first, "{other}");
        }
        let image = Program { image: Some("torch:2.4".into()), ..command("python train.py") };
        assert_ne!(of(&image), first);
        let elsewhere = Program { directory: Some("/srv/bob/project".into()), ..command("python train.py") };
        assert_ne!(of(&elsewhere), first);
        assert!(name("python -m fairseq.train --lr 1").starts_with("fairseq.train-"));
        assert_eq!(name("python -m fairseq.train --lr 1"), name("torchrun -m fairseq.train --lr 2"));
        assert_ne!(name("python -c pass"), name("python -c exit"));
        assert_eq!(name("nvidia-smi -L"), name("nvidia-smi -q"));
        // A program found by PATH is the same wherever it is called.
        let elsewhere = Program { directory: None, ..command("nvidia-smi") };
        assert_eq!(of(&elsewhere), name("nvidia-smi"));
    }

    #[test]
    fn a_script_is_its_text_without_what_it_asks_for() {
        let script = |text: &str, arguments: &[&str]| {
            let script = Some(Script { name: "job.sh".into(), text: text.into() });
            let command = arguments.iter().map(|&word| word.to_owned()).collect();
            of(&Program { script, command, ..Program::default() })
        };
        let first = script("#!/bin/bash\n#ARLES gpus=2\npython train.py\n", &[]);
        assert!(first.starts_with("job.sh-"), "{first}");
        assert_eq!(first, script("#!/bin/bash\n#ARLES gpus=4\npython train.py\n", &["--lr", "1"]));
        assert_ne!(first, script("#!/bin/bash\npython other.py\n", &[]));
    }

    #[test]
    fn odd_commands_have_a_name_too() {
        for odd in
            ["", "env", "A=1", "python", "torchrun --standalone", "srun -n", "-", "python -m", "accelerate launch"]
        {
            let name = name(odd);
            assert!(name.len() > 7 && !name.contains(char::is_whitespace), "'{odd}' became '{name}'");
        }
        let long = name(&format!("/opt/{}", "ä/".repeat(10) + &"x".repeat(500)));
        assert!(long.chars().count() <= MOST_CHARACTERS + 7, "{long}");
    }
}
