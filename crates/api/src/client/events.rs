//! Events as they come.

use super::{Client, ClientError, Sender};
use crate::Event;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::time::Duration;

/// The server says something every 15 seconds; after three of these it is gone.
const SILENCE: Duration = Duration::from_secs(45);
/// Longest that one event may be.
const EVENT_LIMIT: usize = 1 << 20;

/// What a listener hears.
#[derive(Clone, PartialEq, Debug)]
pub enum News {
    /// Something happened.
    Event(Event),
    /// Some events were forgotten: read everything anew. Events go on after this number.
    Reset(u64),
}

/// Events, until the server ends the stream; the number of the last one is where to go on.
pub struct Events<'c> {
    client: &'c Client,
    /// Held so that the connection stays open.
    _sender: Sender,
    body: Incoming,
    buffer: Vec<u8>,
    over: bool,
}

impl<'c> Events<'c> {
    pub(super) fn new(client: &'c Client, sender: Sender, body: Incoming) -> Self {
        Self { client, _sender: sender, body, buffer: Vec::new(), over: false }
    }

    /// Reads more; false at the end.
    fn fill(&mut self) -> Result<bool, ClientError> {
        let body = &mut self.body;
        let frame = self.client.runtime.block_on(async { tokio::time::timeout(SILENCE, body.frame()).await });
        match frame.map_err(|_| self.client.remote().slow(SILENCE))? {
            None => Ok(false),
            Some(Err(error)) => Err(self.client.remote().broken(&error)),
            Some(Ok(frame)) => {
                self.buffer.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
                if self.buffer.len() > EVENT_LIMIT && block_end(&self.buffer).is_none() {
                    return Err(self.client.remote().garbled("an event that is too long"));
                }
                Ok(true)
            }
        }
    }

    fn step(&mut self) -> Result<Option<News>, ClientError> {
        loop {
            while let Some(end) = block_end(&self.buffer) {
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let text = String::from_utf8_lossy(&block);
                let read = read(&text).map_err(|what| self.client.remote().garbled(&what))?;
                if read.is_some() {
                    return Ok(read);
                }
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for Events<'_> {
    type Item = Result<News, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let step = self.step().transpose();
        self.over = !matches!(step, Some(Ok(_)));
        step
    }
}

fn block_end(buffer: &[u8]) -> Option<usize> {
    buffer.windows(2).position(|pair| pair == b"\n\n")
}

/// One block of the stream; comments and times to retry are nothing.
fn read(block: &str) -> Result<Option<News>, String> {
    let field = |name: &str| {
        let mut values = block.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        values.next()
    };
    let Some(data) = field("data") else { return Ok(None) };
    if field("event") == Some("reset") {
        let number = field("id").and_then(|id| id.parse().ok());
        return number
            .map(|number| Some(News::Reset(number)))
            .ok_or_else(|| "a reset without an event number".to_owned());
    }
    serde_json::from_str(data).map(|event| Some(News::Event(event))).map_err(|e| format!("an unexpected event ({e})"))
}
