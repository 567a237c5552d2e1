//! `arles top`: the cluster, live.
//!
//! Two threads: one asks (server or journal) and one draws, so that a server that is slow or away never keeps a key waiting. What is
//! asked for does not grow with the number of jobs: the first few hundred of each list, and counts of the rest. The terminal is given back
//! as it was, also after a panic.

mod draw;
mod map;
mod scene;
mod strip;

use crate::fault::Failed;
use crate::output;
use crate::server::{EXIT_CODES, SourceFlags};
use anyhow::Result;
use clap::Args;
use draw::{Popup, Screen};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};
use scene::{Request, Scene, Update};
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Watch the cluster live: GPUs, queue, shares
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Top {
    /// Print one frame as text and exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    source: SourceFlags,
}

/// How long to wait for a key before looking for news.
const LOOK: Duration = Duration::from_millis(100);

impl Top {
    pub(crate) fn run(&self, _: &mut dyn Write) -> Result<()> {
        if self.once {
            let scene = Scene::ask(&self.source.open()?)?;
            let lines = std::env::var("LINES").ok().and_then(|text| text.parse().ok()).unwrap_or(24_u16);
            let mut screen = Screen::default();
            screen.show(scene);
            let text = as_text(&mut screen, output::terminal_width() as u16, lines.clamp(12, 400))?;
            return Ok(io::stdout().write_all(text.as_bytes())?);
        }
        if !io::stdout().is_terminal() {
            return Err(Failed("stdout is not a terminal; --once prints one frame as text".into()).into());
        }
        // A wrong token or address is told before the screen is taken.
        drop(self.source.open()?);
        let (requests, news) = scene::ask_apart(self.source.clone());
        let mut terminal = ratatui::try_init()?;
        thread::spawn(end_when_told);
        let done = watch(&mut terminal, &requests, &news);
        ratatui::restore();
        done
    }
}

/// Gives the terminal back on SIGTERM and SIGHUP too. (Ctrl-C is a key here.)
fn end_when_told() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() else {
        return;
    };
    runtime.block_on(async {
        let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
        tokio::spawn(async move {
            hangup.recv().await;
            ratatui::restore();
            std::process::exit(129);
        });
        terminate.recv().await;
        ratatui::restore();
        std::process::exit(143);
    });
}

fn watch(terminal: &mut DefaultTerminal, requests: &Sender<Request>, news: &Receiver<Update>) -> Result<()> {
    let mut screen = Screen::default();
    let mut drawn = Instant::now() - Duration::from_secs(1);
    loop {
        let mut changed = false;
        while let Ok(news) = news.try_recv() {
            screen.hear(news);
            changed = true;
        }
        // The countdown moves even where nothing else does.
        if changed || drawn.elapsed() >= Duration::from_millis(500) {
            terminal.draw(|frame| screen.draw(frame))?;
            drawn = Instant::now();
        }
        if !event::poll(LOOK)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && !press(&mut screen, key, requests)
        {
            return Ok(());
        }
        terminal.draw(|frame| screen.draw(frame))?;
        drawn = Instant::now();
    }
}

/// Does what a key says; false to end.
fn press(screen: &mut Screen, key: KeyEvent, requests: &Sender<Request>) -> bool {
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return false;
    }
    // The asking thread lives as long as the screen does.
    let request = |request| drop(requests.send(request));
    match (&mut screen.popup, key.code) {
        (Popup::Cancel(id), KeyCode::Char('y')) => {
            request(Request::Cancel(*id));
            screen.popup = Popup::None;
        }
        (Popup::Policies { at, .. }, KeyCode::Up | KeyCode::Char('k')) => *at = at.saturating_sub(1),
        (Popup::Policies { at, list }, KeyCode::Down | KeyCode::Char('j')) => {
            *at = (*at + 1).min(list.len().saturating_sub(1));
        }
        (Popup::Policies { at, list }, KeyCode::Enter) => {
            if let Some(policy) = list.get(*at) {
                request(Request::Policy(policy.name.clone()));
            }
            screen.popup = Popup::None;
        }
        (Popup::None, KeyCode::Char('q')) => return false,
        (Popup::None, code) => plain(screen, code, request),
        // Any other key closes what is open.
        _ => screen.popup = Popup::None,
    }
    true
}

fn plain(screen: &mut Screen, code: KeyCode, request: impl Fn(Request)) {
    match code {
        KeyCode::Up | KeyCode::Char('k') => screen.scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => screen.scroll(1),
        KeyCode::PageUp => screen.scroll(-10),
        KeyCode::PageDown => screen.scroll(10),
        KeyCode::Home => screen.scroll(isize::MIN / 2),
        KeyCode::End => screen.scroll(isize::MAX / 2),
        KeyCode::Tab => screen.next_pane(),
        KeyCode::Char('?' | 'h') => screen.popup = Popup::Help,
        KeyCode::Char('e') | KeyCode::Enter => {
            if let Some(id) = screen.selected_job() {
                screen.popup = Popup::Text(format!("job {id}"), "loading …".into());
                request(Request::Explain(id));
            }
        }
        KeyCode::Char('c') => {
            if let Some(id) = screen.selected_job() {
                screen.popup = Popup::Cancel(id);
            }
        }
        KeyCode::Char('p') => {
            screen.popup = Popup::Text("policies".into(), "loading …".into());
            request(Request::Policies);
        }
        _ => {}
    }
}

/// A frame as text.
fn as_text(screen: &mut Screen, width: u16, height: u16) -> Result<String> {
    let failed = |error| Failed(format!("cannot draw: {error}"));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).map_err(failed)?;
    terminal.draw(|frame| screen.draw(frame)).map_err(failed)?;
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in buffer.content().chunks(usize::from(width)) {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        text += line.trim_end();
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
