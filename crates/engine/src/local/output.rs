//! What programs print: files that never grow beyond a limit, and how they are read while they are written.
//!
//! A stream is a file and, beside it, the ones that it filled before: `job-17.log`, `job-17.log.1`, and so on to the oldest. Each is cut after a
//! line where there is one. Bytes are counted from the first that the job printed, so that a reader who comes back knows where it was although
//! older files have gone; where the present file begins is in the *index*, a file in the folder for logs that also says where the stream is kept.
//!
//! Must never: fail or hold up the program because its output cannot be kept. What does not fit on the disk is counted, and told when there is room.

use arles_core::JobId;
use arles_core::engine::{JobOutput, OutputChunk, OutputStream};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How much of what a program prints is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OutputLimits {
    /// Where a file is full, and another is begun.
    pub file_bytes: u64,
    /// Files of one stream; the oldest goes when another is begun.
    pub files: u32,
    /// Bytes of all files in the folder for logs; those of the jobs that ended first go when there are more. Files that programs name
    /// themselves are not among them.
    pub all_bytes: u64,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { file_bytes: 16 << 20, files: 4, all_bytes: 10 << 30 }
    }
}

/// Where a stream is kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Index {
    /// The file that is written now.
    path: PathBuf,
    /// The number of its first byte.
    start: u64,
}

/// A stream to be written: its file and its index.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Stream {
    pub(super) path: PathBuf,
    pub(super) index: PathBuf,
}

/// The index of a job's stream in the folder for logs.
pub(super) fn index_path(logs: &Path, job: JobId, stream: OutputStream) -> PathBuf {
    let name = match stream {
        OutputStream::Stdout => "out",
        OutputStream::Stderr => "err",
    };
    logs.join(format!("job-{}.{name}.json", job.0))
}

fn rotated(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn read_index(path: &Path) -> Option<Index> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// A stream as it is written.
pub(super) struct Writer {
    stream: Stream,
    limits: OutputLimits,
    file: File,
    size: u64,
    start: u64,
    /// Bytes that could not be kept since the last that could.
    dropped: u64,
}

impl Writer {
    /// Goes on where an earlier gang of the job left off.
    ///
    /// # Errors
    /// When the file cannot be opened, or its index cannot be written.
    pub(super) fn open(stream: Stream, limits: OutputLimits) -> io::Result<Self> {
        for folder in [stream.path.parent(), stream.index.parent()].into_iter().flatten() {
            fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().append(true).create(true).open(&stream.path)?;
        let size = file.metadata()?.len();
        let start = read_index(&stream.index).filter(|index| index.path == stream.path).map_or(0, |index| index.start);
        let writer = Self { stream, limits, file, size, start, dropped: 0 };
        writer.write_index(start)?;
        Ok(writer)
    }

    /// Takes everything from a program until it has no more to say.
    pub(super) fn drain(mut self, mut from: impl Read) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => self.keep(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// Keeps some output, as far as there is room on the disk.
    pub(super) fn keep(&mut self, mut bytes: &[u8]) {
        if self.dropped > 0 {
            let told = format!("\narles: {} bytes of output could not be kept: the disk was full\n", self.dropped);
            if self.write(told.as_bytes()).is_ok() {
                self.dropped = 0;
            }
        }
        while !bytes.is_empty() {
            let room = usize::try_from(self.limits.file_bytes.saturating_sub(self.size)).unwrap_or(usize::MAX);
            let now = match bytes.len() <= room {
                true => bytes.len(),
                // After a line, unless it is longer than a whole file.
                false => bytes[..room]
                    .iter()
                    .rposition(|&byte| byte == b'\n')
                    .map_or(if self.size == 0 { room } else { 0 }, |at| at + 1),
            };
            if self.write(&bytes[..now]).is_err() {
                self.dropped += bytes.len() as u64;
                return;
            }
            bytes = &bytes[now..];
            if !bytes.is_empty() && self.rotate().is_err() {
                self.dropped += bytes.len() as u64;
                return;
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let done = self.file.write_all(bytes);
        // A write that was cut short has left something.
        self.size = match &done {
            Ok(()) => self.size + bytes.len() as u64,
            Err(_) => self.file.metadata().map_or(self.size, |file| file.len()),
        };
        done
    }

    /// Begins another file. The index comes first: without it the bytes of the new file would have the numbers of older ones.
    fn rotate(&mut self) -> io::Result<()> {
        self.write_index(self.start + self.size)?;
        let path = &self.stream.path;
        for number in (1..self.limits.files.saturating_sub(1)).rev() {
            let _ = fs::rename(rotated(path, number), rotated(path, number + 1));
        }
        if self.limits.files > 1 {
            fs::rename(path, rotated(path, 1))?;
        } else {
            fs::remove_file(path)?;
        }
        self.start += self.size;
        self.size = 0;
        self.file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(())
    }

    fn write_index(&self, start: u64) -> io::Result<()> {
        let new = self.stream.index.with_extension("new");
        fs::write(&new, serde_json::to_vec(&Index { path: self.stream.path.clone(), start })?)?;
        fs::rename(new, &self.stream.index)
    }
}

/// Output of programs of this machine, by the folder for logs.
pub(super) struct KeptOutput {
    pub(super) logs: PathBuf,
}

impl JobOutput for KeptOutput {
    fn read(&self, job: JobId, stream: OutputStream, from: u64, most: usize) -> Result<OutputChunk, String> {
        let index = index_path(&self.logs, job, stream);
        let cannot = |error: io::Error| format!("the output of job {} cannot be read: {error}", job.0);
        // A file that was begun while this one was opened has other numbers: look again.
        for _ in 0..5 {
            let Some(seen) = read_index(&index) else { return Ok(OutputChunk::default()) };
            let chunk = read_files(&seen, from, most);
            if read_index(&index).as_ref() == Some(&seen) {
                return chunk.map_err(cannot);
            }
        }
        Err(format!("job {} prints faster than its output can be read; ask again", job.0))
    }
}

/// The files of a stream from the oldest on, with the number of their first byte and their length.
fn files(index: &Index) -> Vec<(PathBuf, u64, u64)> {
    let length = |path: &Path| fs::metadata(path).map(|file| file.len());
    let mut files = vec![(index.path.clone(), index.start, length(&index.path).unwrap_or(0))];
    let (mut start, mut number) = (index.start, 1);
    while let Ok(bytes) = length(&rotated(&index.path, number)) {
        let Some(first) = start.checked_sub(bytes) else { break };
        files.push((rotated(&index.path, number), first, bytes));
        (start, number) = (first, number + 1);
    }
    files.reverse();
    files
}

fn read_files(index: &Index, from: u64, most: usize) -> io::Result<OutputChunk> {
    let files = files(index);
    let oldest = files[0].1;
    let end = files.last().map_or(0, |(_, start, bytes)| start + bytes);
    let from = from.clamp(oldest, end);
    let mut chunk = OutputChunk { oldest, from, bytes: Vec::new(), end };
    for (path, start, bytes) in files {
        let at = from + chunk.bytes.len() as u64;
        let left = most - chunk.bytes.len();
        if left == 0 || at >= start + bytes {
            continue;
        }
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(at - start))?;
        file.take((start + bytes - at).min(left as u64)).read_to_end(&mut chunk.bytes)?;
    }
    Ok(chunk)
}

/// Removes output of jobs that are not `live`, those whose files were written longest ago first, until everything in the folder is within the limit.
pub(super) fn prune(logs: &Path, all_bytes: u64, live: impl Fn(JobId) -> bool) {
    struct Kept {
        files: Vec<PathBuf>,
        bytes: u64,
        written: SystemTime,
    }
    let mut jobs: BTreeMap<JobId, Kept> = BTreeMap::new();
    for entry in fs::read_dir(logs).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("job-")?.split('.').next()?.parse().ok());
        let (Some(number), Ok(file)) = (number, entry.metadata()) else { continue };
        let kept = Kept { files: Vec::new(), bytes: 0, written: SystemTime::UNIX_EPOCH };
        let kept = jobs.entry(JobId(number)).or_insert(kept);
        kept.files.push(entry.path());
        kept.bytes += file.len();
        kept.written = kept.written.max(file.modified().unwrap_or(SystemTime::UNIX_EPOCH));
    }
    let mut all: u64 = jobs.values().map(|kept| kept.bytes).sum();
    let mut over: Vec<&Kept> = jobs.iter().filter(|(job, _)| !live(**job)).map(|(_, kept)| kept).collect();
    over.sort_by_key(|kept| kept.written);
    for kept in over {
        if all <= all_bytes {
            return;
        }
        kept.files.iter().for_each(|file| drop(fs::remove_file(file)));
        all -= kept.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("arles-output-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    fn stream(logs: &Path) -> Stream {
        Stream { path: logs.join("job-7.log"), index: index_path(logs, JobId(7), OutputStream::Stdout) }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever is printed and however it is cut: what is kept is the end of it, never more than the limit, and its bytes have their numbers.
        #[test]
        fn the_end_of_what_was_printed_is_kept(
            parts in prop::collection::vec("[a-c\n]{0,40}", 0..40),
            file_bytes in 8u64..64,
            files in 1u32..5,
            reopen in 0usize..40,
            from in 0u64..400,
            most in 1usize..100,
        ) {
            let logs = folder("kept");
            let limits = OutputLimits { file_bytes, files, all_bytes: u64::MAX };
            let mut writer = Writer::open(stream(&logs), limits).expect("a file");
            for (i, part) in parts.iter().enumerate() {
                if i == reopen {
                    writer = Writer::open(stream(&logs), limits).expect("the same file");
                }
                writer.keep(part.as_bytes());
            }
            let printed = parts.concat();
            let reader = KeptOutput { logs: logs.clone() };
            let all = reader.read(JobId(7), OutputStream::Stdout, 0, usize::MAX).expect("readable");
            prop_assert_eq!(all.end, printed.len() as u64);
            prop_assert!(all.bytes.len() as u64 <= file_bytes * u64::from(files));
            prop_assert_eq!(&all.bytes[..], &printed.as_bytes()[usize::try_from(all.oldest).unwrap()..]);
            let some = reader.read(JobId(7), OutputStream::Stdout, from, most).expect("readable");
            let first = from.clamp(all.oldest, all.end);
            prop_assert_eq!(some.from, first);
            let expected = &printed.as_bytes()[usize::try_from(first).unwrap()..];
            prop_assert_eq!(&some.bytes[..], &expected[..expected.len().min(most)]);
            fs::remove_dir_all(logs).expect("ours");
        }
    }

    #[test]
    fn output_of_jobs_that_are_over_goes_first() {
        let logs = folder("pruned");
        for (job, age) in [(1, 30), (2, 20), (3, 10)] {
            for name in [format!("job-{job}.log"), format!("job-{job}.log.1")] {
                fs::write(logs.join(&name), [b'x'; 100]).expect("a file");
                let at = SystemTime::now() - std::time::Duration::from_secs(age);
                File::options().append(true).open(logs.join(name)).and_then(|f| f.set_modified(at)).expect("a file");
            }
        }
        fs::write(logs.join("notes.txt"), "not ours").expect("a file");
        prune(&logs, 450, |job| job == JobId(1));
        let left = |job: u64| logs.join(format!("job-{job}.log")).exists();
        assert_eq!(
            (left(1), left(2), left(3)),
            (true, false, true),
            "job 1 runs, and job 2 is the oldest of the others"
        );
        prune(&logs, 0, |job| job == JobId(1));
        assert_eq!((left(1), left(3), logs.join("notes.txt").exists()), (true, false, true));
        fs::remove_dir_all(logs).expect("ours");
    }
}
