//! HTTP by hand: bytes out, an answer in.
// Every test binary compiles all of it and uses a part.
#![allow(dead_code, unreachable_pub, missing_docs)]

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit");
    stream
}

/// Sends bytes and reads until the server closes.
pub fn raw(at: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = connect(at);
    // The server may close before everything is sent.
    let _ = stream.write_all(bytes);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    Answer::read(&all)
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// 0 where there was no answer at all.
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| *known == name).map(|(_, value)| value).next()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a fault, which must be whole.
    pub fn code(&self) -> String {
        let json = self.json();
        let error = &json["error"];
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        assert!(error["hint"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        error["code"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    pub fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }
}
