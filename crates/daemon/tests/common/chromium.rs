//! Headless Chromium through the DevTools protocol: enough of a WebSocket client to say what to do and hear what happens.

use arles_testing::program;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A WebSocket as a client sees it (RFC 6455), without extensions.
struct Socket(TcpStream);

impl Socket {
    fn connect(port: u16, path: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("Chromium listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        // The key proves that the other side speaks WebSocket; which it is does not matter here.
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        .expect("sent");
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).expect("an answer");
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        Self(stream)
    }

    /// One text frame. Clients mask what they send; a mask of zeros leaves it as it is.
    fn send(&mut self, text: &str) {
        let mut frame = vec![0x81];
        match text.len() {
            n @ 0..=125 => frame.push(0x80 | n as u8),
            n @ 126..=0xffff => {
                frame.push(0x80 | 126);
                frame.extend((n as u16).to_be_bytes());
            }
            n => {
                frame.push(0x80 | 127);
                frame.extend((n as u64).to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.0.write_all(&frame).expect("sent");
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut bytes = vec![0; n];
        self.0.read_exact(&mut bytes).expect("Chromium goes on");
        bytes
    }

    /// One message, of as many frames as it takes.
    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        loop {
            let head = self.bytes(2);
            let length = match head[1] & 0x7f {
                126 => usize::from(u16::from_be_bytes(self.bytes(2).try_into().expect("2 bytes"))),
                127 => u64::from_be_bytes(self.bytes(8).try_into().expect("8 bytes")) as usize,
                n => usize::from(n),
            };
            let piece = self.bytes(length);
            // Pings and the like are no part of a message.
            if head[0] & 0x0f <= 2 {
                message.extend(piece);
                if head[0] & 0x80 != 0 {
                    return serde_json::from_slice(&message).expect("JSON");
                }
            }
        }
    }
}

/// A browser with one page; both end with the value.
pub struct Page {
    child: Child,
    socket: Socket,
    session: String,
    next: u64,
    /// What happened since it was last asked about.
    pub events: Vec<Value>,
}

impl Page {
    /// Starts Chromium with an empty page of this size, its profile in a folder.
    pub fn open(folder: &Path, width: u32, height: u32) -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let program = program("ARLES_CHROMIUM", &names, "install it, e.g. 'apt-get install chromium'")?;
        let profile = folder.join("profile");
        let child = Command::new(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-extensions", "--hide-scrollbars", "--mute-audio"])
            .args(["--remote-debugging-port=0", "--lang=en", &format!("--window-size={width},{height}")])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Chromium starts");
        let mut told = String::new();
        super::wait_until("Chromium says where it listens", || {
            told = std::fs::read_to_string(profile.join("DevToolsActivePort")).unwrap_or_default();
            told.lines().count() >= 2
        });
        let mut lines = told.lines();
        let port = lines.next().and_then(|line| line.parse().ok()).expect("a port");
        let socket = Socket::connect(port, lines.next().expect("a path"));
        let mut page = Self { child, socket, session: String::new(), next: 0, events: Vec::new() };
        let target = page.tell("Target.createTarget", &json!({"url": "about:blank"}));
        let attached = page.tell("Target.attachToTarget", &json!({"targetId": target["targetId"], "flatten": true}));
        page.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.tell(&format!("{domain}.enable"), &json!({}));
        }
        page.resize(width, height);
        Some(page)
    }

    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.tell("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Says what to do and waits until it is done.
    pub fn tell(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket.send(&message.to_string());
        loop {
            let mut heard = self.socket.receive();
            if heard["id"] == json!(self.next) {
                assert!(heard.get("error").is_none(), "{method}: {}", heard["error"]);
                return heard["result"].take();
            }
            self.events.push(heard);
        }
    }

    /// The value of an expression, promises waited for.
    pub fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut result = self.tell("Runtime.evaluate", &asked);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].take()
    }

    /// Waits until an expression holds.
    pub fn wait(&mut self, what: &str, expression: &str) -> Value {
        let began = Instant::now();
        loop {
            let value = self.eval(expression);
            if !matches!(value, Value::Null | Value::Bool(false)) && value != json!("") {
                return value;
            }
            if began.elapsed() > Duration::from_secs(30) {
                let page = self.eval("document.body.innerText.slice(0, 3000)");
                panic!("waited in vain: {what}: {expression}\nthe page says: {}", page.as_str().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Opens an address.
    pub fn go(&mut self, url: &str) {
        self.tell("Page.navigate", &json!({"url": url}));
    }

    /// Clicks what has this test id, once it is there and can be clicked.
    pub fn click(&mut self, testid: &str) {
        let it = format!("document.querySelector('[data-testid=\"{testid}\"]')");
        self.wait(testid, &format!("{it} && !{it}.disabled && {it}.getClientRects().length > 0"));
        self.eval(&format!("{it}.click()"));
    }

    /// Types into what has this test id, in place of what is there.
    pub fn fill(&mut self, testid: &str, text: &str) {
        let it = format!("document.querySelector('[data-testid=\"{testid}\"]')");
        self.wait(testid, &format!("{it} !== null"));
        self.eval(&format!("{it}.focus(), {it}.select?.()"));
        self.tell("Input.insertText", &json!({"text": text}));
    }

    /// Text of what has this test id; empty if it is not there.
    pub fn text(&mut self, testid: &str) -> String {
        let text = self.eval(&format!("document.querySelector('[data-testid=\"{testid}\"]')?.textContent ?? ''"));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Presses a key: a letter, a digit, or `Enter`, `Tab`, `Escape`.
    pub fn press(&mut self, key: &str) {
        let (code, number, text) = match key {
            "Enter" => ("Enter".to_owned(), 13, "\r"),
            "Tab" => ("Tab".to_owned(), 9, ""),
            "Escape" => ("Escape".to_owned(), 27, ""),
            other => (format!("Key{}", other.to_uppercase()), u32::from(other.to_uppercase().as_bytes()[0]), other),
        };
        let press =
            |kind: &str| json!({"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number, "text": text});
        self.tell("Input.dispatchKeyEvent", &press("keyDown"));
        let mut up = press("keyUp");
        up.as_object_mut().expect("an object").remove("text");
        self.tell("Input.dispatchKeyEvent", &up);
    }

    /// A picture of what is in sight, as PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let shot = self.tell("Page.captureScreenshot", &json!({"format": "png"}));
        decode(shot["data"].as_str().expect("a picture"))
    }

    /// Complaints since the last time: errors on the console, exceptions, broken rules of content, requests to other hosts.
    /// `allowed` are statuses of answers that the browser may complain about.
    pub fn complaints(&mut self, own: &str, allowed: &[&str]) -> Vec<String> {
        let mut all = Vec::new();
        for event in std::mem::take(&mut self.events) {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => all.push(params.to_string()),
                "Runtime.consoleAPICalled" if params["type"] == "error" || params["type"] == "warning" => {
                    all.push(params["args"].to_string());
                }
                "Log.entryAdded" if params["entry"]["level"] == "error" || params["entry"]["source"] == "security" => {
                    let text = params["entry"]["text"].as_str().unwrap_or_default();
                    if !allowed.iter().any(|status| text.contains(&format!("status of {status}"))) {
                        all.push(params["entry"].to_string());
                    }
                }
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str().unwrap_or_default();
                    if !url.starts_with(own) && !url.starts_with("data:") && url != "about:blank" {
                        all.push(format!("a request to {url}"));
                    }
                }
                _ => {}
            }
        }
        all
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Base 64.
fn decode(text: &str) -> Vec<u8> {
    let (mut out, mut bits, mut have) = (Vec::with_capacity(text.len() * 3 / 4), 0_u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    out
}
