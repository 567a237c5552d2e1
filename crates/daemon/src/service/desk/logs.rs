//! What programs print, for whoever may see the job.

use super::Desk;
use crate::Refusal;
use crate::access::Caller;
use arles_api as api;
use arles_core::JobId;
use arles_core::engine::OutputStream;

/// Which part of a job's output.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogsQuery {
    /// Standard output, or standard error where it has a file of its own.
    pub stream: OutputStream,
    /// From this byte on; from the oldest that is kept if not given.
    pub from: Option<u64>,
    /// At most so many bytes.
    pub bytes: Option<u64>,
}

impl LogsQuery {
    /// Most bytes of one answer.
    pub const MOST_BYTES: u64 = 1 << 20;
    /// Bytes of an answer if the query does not say.
    pub const BYTES: u64 = 256 << 10;
}

impl Desk {
    /// A stretch of what a job printed. Reads files.
    ///
    /// # Errors
    /// When the caller sees no such job, or the engine keeps no output.
    pub fn logs(&self, who: &Caller, job: u64, query: LogsQuery) -> Result<api::JobLogs, Refusal> {
        // Before the output is read: what a job prints before it is over is in the answer that says that it is.
        let state = self.view(who).job(job)?.state;
        let Some(output) = &self.shared.output else {
            let message = format!("the engine '{}' does not keep what jobs print", self.shared.engine_name);
            return Err(Refusal::conflict("no-logs", message, "jobs of '--engine local' have logs"));
        };
        let most = query.bytes.unwrap_or(LogsQuery::BYTES).min(LogsQuery::MOST_BYTES);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let chunk = output
            .read(JobId(job), query.stream, query.from.unwrap_or(0), most)
            .map_err(|sentence| Refusal::unavailable("logs", sentence, "see the server's log").retry_after(1.0))?;
        let whole = whole_characters(&chunk.bytes, state.over());
        Ok(api::JobLogs {
            job,
            state,
            oldest: chunk.oldest,
            from: chunk.from,
            text: String::from_utf8_lossy(&chunk.bytes[..whole]).into_owned(),
            next: chunk.from + whole as u64,
            end: chunk.end,
        })
    }
}

/// How many bytes are no beginning of a character whose end was not read yet. All of them where no more will come, or else a reader
/// would wait for ever.
fn whole_characters(bytes: &[u8], over: bool) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && !over && error.valid_up_to() > 0 => error.valid_up_to(),
        // Behind bytes that are none at all there may be a beginning, too.
        Err(_) if !over && bytes.len() > 4 => {
            let tail = bytes.len() - 3;
            let begins = |at: &usize| bytes[*at] >= 0xC0;
            match (tail..bytes.len()).rev().find(begins) {
                Some(at) if std::str::from_utf8(&bytes[at..]).is_err_and(|error| error.error_len().is_none()) => at,
                _ => bytes.len(),
            }
        }
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_never_cut_in_two() {
        let text = "naïve €".as_bytes();
        assert_eq!(whole_characters(text, false), text.len());
        for cut in [1, 2] {
            assert_eq!(whole_characters(&text[..text.len() - cut], false), text.len() - 3);
        }
        assert_eq!(whole_characters(&text[..text.len() - 1], true), text.len() - 1, "no more will come");
        assert_eq!(whole_characters(b"\xff\xff\xff\xff\xe2\x82", false), 4);
        assert_eq!(whole_characters(b"\xff\xff", false), 2);
        assert_eq!(whole_characters(b"", false), 0);
    }
}
