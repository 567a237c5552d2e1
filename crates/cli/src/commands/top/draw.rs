//! The screen of `arles top`: what is selected and open, and how it is drawn.

use super::map::{self, Mark};
use super::scene::{Scene, Update};
use super::strip;
use crate::jobs::{self, harmless, shortened};
use crate::quantity::{percent, span, watts};
use arles_api::{self as api, JobState};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};
use std::time::Instant;

/// Tenants' colours, in turn: all can be read on black and on white.
const COLOURS: [Color; 6] = [Color::Blue, Color::Green, Color::Magenta, Color::Cyan, Color::Yellow, Color::Red];

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Pane {
    #[default]
    Jobs,
    Shares,
    Map,
}

/// What lies over the screen.
#[derive(Default)]
pub(super) enum Popup {
    #[default]
    None,
    Help,
    Text(String, String),
    Cancel(u64),
    Policies {
        list: Vec<api::Policy>,
        at: usize,
    },
}

#[derive(Default)]
pub(super) struct Screen {
    scene: Option<(Scene, Instant)>,
    /// Why there is no newer one.
    away: Option<String>,
    pane: Pane,
    /// The selected job, by number, so that it stays when the list moves; and where it was last.
    selected: Option<u64>,
    row: usize,
    top: usize,
    first_tenant: usize,
    first_kind: usize,
    pub(super) popup: Popup,
}

fn colour(tenant: usize) -> Color {
    COLOURS[tenant % COLOURS.len()]
}

impl Screen {
    pub(super) fn show(&mut self, scene: Scene) {
        if let Some(at) = scene.jobs.iter().position(|job| Some(job.id) == self.selected) {
            self.row = at;
        }
        self.row = self.row.min(scene.jobs.len().saturating_sub(1));
        self.selected = scene.jobs.get(self.row).map(|job| job.id);
        self.scene = Some((scene, Instant::now()));
        self.away = None;
    }

    pub(super) fn hear(&mut self, news: Update) {
        match news {
            Update::Scene(scene) => self.show(*scene),
            Update::Away(why) => self.away = Some(why),
            Update::Reply(title, text) => self.popup = Popup::Text(title, text),
            Update::Policies(list) => {
                let at = list.iter().position(|policy| policy.current).unwrap_or(0);
                self.popup = Popup::Policies { list, at };
            }
        }
    }

    pub(super) fn selected_job(&self) -> Option<u64> {
        self.selected
    }

    pub(super) fn next_pane(&mut self) {
        self.pane = match self.pane {
            Pane::Jobs => Pane::Shares,
            Pane::Shares => Pane::Map,
            Pane::Map => Pane::Jobs,
        };
    }

    pub(super) fn scroll(&mut self, by: isize) {
        let Some((scene, _)) = &self.scene else { return };
        let (place, all) = match self.pane {
            Pane::Jobs => (&mut self.row, scene.jobs.len()),
            Pane::Shares => (&mut self.first_tenant, scene.tenants.len()),
            Pane::Map => (&mut self.first_kind, scene.gpus.kinds.len()),
        };
        *place = place.saturating_add_signed(by).min(all.saturating_sub(1));
        self.selected = scene.jobs.get(self.row).map(|job| job.id);
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let all = frame.area();
        let Some((scene, since)) = self.scene.take() else {
            let text = self.away.as_deref().map_or("loading …".into(), |why| format!("server unreachable: {why}"));
            frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), all);
            return;
        };
        let needed = map::rows(&scene.gpus, usize::from(all.width) * 2 / 5).max(scene.tenants.len()) + 2;
        let rows = (needed.min(usize::from(all.height / 3)) as u16).max(4);
        let [head, strip, upper, lower, foot] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(1),
            Constraint::Length(rows),
            Constraint::Min(3),
            Constraint::Length(1),
        ])
        .areas(all);
        let [left, right] = Layout::horizontal([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(upper);
        let now = scene.server.now + since.elapsed().as_secs_f64() * scene.server.speed;
        // A journal stands still.
        let now = if scene.server.engine == "none" { scene.server.now } else { now };
        self.header(frame, head, &scene, now);
        if let Some(past) = &scene.past {
            frame.render_widget(Paragraph::new(strip::line(past, usize::from(strip.width))), strip);
        }
        self.map(frame, left, &scene);
        self.shares(frame, right, &scene);
        self.jobs(frame, lower, &scene, now);
        let keys = " q quit  ↑↓ select  e explain  c cancel  p policy  tab pane  ? help";
        frame.render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::DIM)), foot);
        self.popup(frame, all);
        self.scene = Some((scene, since));
    }

    fn pane(&self, pane: Pane, title: String) -> Block<'static> {
        let style = if self.pane == pane { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
        Block::bordered().title(title).border_style(style)
    }

    fn header(&self, frame: &mut Frame<'_>, area: Rect, scene: &Scene, now: f64) {
        let server = &scene.server;
        let busy = scene.gpus.state.iter().filter(|state| matches!(state, 1 | 2)).count();
        let away = scene.gpus.state.iter().filter(|state| **state == 3).count();
        let total = scene.gpus.state.len();
        let next = match scene.next_round.map(|at| at - now) {
            Some(seconds) if seconds > 0.0 => format!(", next in {}", span(seconds)),
            _ => String::new(),
        };
        let speed = if server.speed == 1.0 { String::new() } else { format!(" at {}×", server.speed) };
        let gone = if away > 0 { format!(", {away} unavailable") } else { String::new() };
        let first = format!(
            " {} · round {}{next} · {busy} of {total} GPUs busy ({} %){gone}",
            server.policy,
            server.round,
            percent(busy as f64 / total.max(1) as f64),
        );
        let held = scene.count(&[JobState::Starting, JobState::Running, JobState::Stopping]);
        let waiting = scene.count(&[JobState::Waiting]);
        let second = match &self.away {
            Some(why) => Line::styled(format!(" server unreachable: {why}; retrying"), Style::new().fg(Color::Red)),
            None => {
                let draw = watts(server.watts);
                let engine = match server.engine.as_str() {
                    "none" => "journal".into(),
                    engine => format!("{engine} engine{speed}"),
                };
                Line::raw(format!(" {held} running, {waiting} waiting · {draw} · {engine}"))
            }
        };
        let first = Line::styled(first, Style::new().add_modifier(Modifier::BOLD));
        frame.render_widget(Paragraph::new(vec![first, second]), area);
    }

    fn map(&self, frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
        let label = scene.gpus.kinds.iter().map(|kind| kind.chars().count()).max().unwrap_or(0).min(12);
        let counts = scene.gpus.kind.len().to_string().len() * 2 + 1;
        let width = usize::from(area.width).saturating_sub(2 + label + counts + 3).max(4);
        let (kinds, k) = map::marks(&scene.gpus, width, usize::from(area.height.saturating_sub(2)));
        let each = if k == 1 { String::new() } else { format!(", {k} per mark") };
        let mut lines = Vec::new();
        for kind in kinds.iter().skip(self.first_kind) {
            for (i, row) in kind.marks.chunks(width).enumerate() {
                let count = format!("{}/{}", kind.busy, kind.gpus);
                let head = match i {
                    0 => format!("{:<label$} {count:>counts$} ", shortened(&kind.name, label)),
                    _ => " ".repeat(label + counts + 2),
                };
                let marks = row.iter().map(|mark| cell(*mark));
                lines.push(Line::from_iter(std::iter::once(Span::raw(head)).chain(marks)));
            }
        }
        let block = self.pane(Pane::Map, format!(" GPUs{each} "));
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }

    fn shares(&self, frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
        let name = scene.tenants.iter().map(|tenant| tenant.name.chars().count()).max().unwrap_or(0).min(10);
        let width = usize::from(area.width).saturating_sub(2 + 2 + name + 1 + 13).max(4);
        let lines = scene.tenants.iter().enumerate().skip(self.first_tenant).map(|(i, tenant)| {
            let style = Style::new().fg(colour(i));
            let numbers = format!(" {:>3.0} of {:>3.0} %", 100.0 * tenant.held_ratio, 100.0 * tenant.entitlement_ratio);
            Line::from_iter([
                Span::styled(format!("{} ", map::letter(i, false)), style.add_modifier(Modifier::BOLD)),
                Span::raw(format!("{:<name$} ", shortened(&harmless(&tenant.name), name))),
                Span::styled(bar(tenant.held_ratio, tenant.entitlement_ratio, width), style),
                Span::raw(numbers),
            ])
        });
        let block = self.pane(Pane::Shares, " used, of share (|) ".into());
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
    }

    fn jobs(&mut self, frame: &mut Frame<'_>, area: Rect, scene: &Scene, now: f64) {
        let rows = usize::from(area.height.saturating_sub(3)).max(1);
        if self.row < self.top {
            self.top = self.row;
        }
        self.top = self.top.max((self.row + 1).saturating_sub(rows)).min(scene.jobs.len().saturating_sub(1));
        let wide = |least: usize, most: usize, text: &dyn Fn(&api::Job) -> usize| {
            scene.jobs.iter().map(text).max().unwrap_or(0).clamp(least, most)
        };
        let id = wide(3, 12, &|job| job.id.to_string().len());
        let tenant = wide(6, 10, &|job| job.tenant.chars().count());
        let workload = wide(8, 14, &|job| job.workload.chars().count());
        let head = format!(
            "{:>id$} {:<tenant$} {:<workload$} gpus st  time   done   left  location / reason",
            "job", "tenant", "workload"
        );
        let mut lines = vec![Line::styled(head, Style::new().add_modifier(Modifier::DIM))];
        for (i, job) in scene.jobs.iter().enumerate().skip(self.top).take(rows) {
            let owner = scene.tenants.iter().position(|known| known.name == job.tenant);
            let style = if i == self.row { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            let text = format!(
                " {:<workload$} {:>4} {:<2} {:>6} {:>5} {:>6}  {}",
                shortened(&job.workload, workload),
                job.gang,
                jobs::letters(job.state),
                span(jobs::age(job, now)),
                job.done_ratio.map_or("-".into(), |ratio| format!("{:.0}%", 100.0 * ratio)),
                jobs::remaining(job, now).map_or("-".into(), span),
                harmless(&jobs::standing(job)),
            );
            let name = format!("{:<tenant$}", shortened(&harmless(&job.tenant), tenant));
            let coloured = owner.map_or(style, |owner| style.fg(colour(owner)));
            let parts = [
                Span::styled(format!("{:>id$} ", job.id), style),
                Span::styled(name, coloured),
                Span::styled(text, style),
            ];
            lines.push(Line::from_iter(parts));
        }
        let all: u64 = scene.live.iter().map(|count| count.jobs).sum();
        let beyond = match all.saturating_sub(scene.jobs.len() as u64) {
            0 => String::new(),
            n => format!("; {n} more"),
        };
        let reasons: Vec<String> =
            scene.reasons.iter().map(|reason| format!("{} {}", reason.jobs, reason.code)).collect();
        let why = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
        let block = self.pane(Pane::Jobs, format!(" jobs{why}{beyond} "));
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }

    fn popup(&self, frame: &mut Frame<'_>, all: Rect) {
        let (title, text) = match &self.popup {
            Popup::None => return,
            Popup::Help => ("keys".to_owned(), HELP.to_owned()),
            Popup::Text(title, text) => (title.clone(), harmless_lines(text)),
            Popup::Cancel(id) => {
                ("cancel".to_owned(), format!("Cancel job {id}? y to confirm, any other key to go back"))
            }
            Popup::Policies { list, at } => {
                let line = |(i, policy): (usize, &api::Policy)| {
                    let mark = if i == *at { '>' } else { ' ' };
                    format!("{mark} {}{}", policy.name, if policy.current { " (current)" } else { "" })
                };
                let height = usize::from(all.height.saturating_sub(6)).max(1);
                let first = (at + 1).saturating_sub(height);
                let lines: Vec<String> = list.iter().enumerate().map(line).skip(first).take(height).collect();
                ("policy: enter to switch, esc to cancel".to_owned(), lines.join("\n"))
            }
        };
        let width = all.width.saturating_sub(4).min(72);
        let inner = usize::from(width.saturating_sub(2)).max(1);
        let needed: usize = text.lines().map(|line| crate::output::wrapped(line, inner).len()).sum();
        let height = (needed as u16 + 2).min(all.height);
        let area = Rect { x: (all.width - width) / 2, y: (all.height - height) / 2, width, height };
        frame.render_widget(Clear, area);
        let block =
            Block::bordered().title(format!(" {title} ")).border_style(Style::new().add_modifier(Modifier::BOLD));
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).block(block), area);
    }
}

const HELP: &str = "q        quit
↑ ↓ j k  select a job, or scroll the pane
e        explain the selected job
c        cancel the selected job
p        switch the policy
tab      next pane
letter: tenant of the GPU, capital if two jobs share it; · free, × down or drained, # another tenant's";

fn harmless_lines(text: &str) -> String {
    text.lines().map(harmless).collect::<Vec<_>>().join("\n")
}

fn cell(mark: Mark) -> Span<'static> {
    match mark {
        Mark::Free => Span::styled("·", Style::new().add_modifier(Modifier::DIM)),
        Mark::Away => Span::styled("×", Style::new().fg(Color::Red)),
        Mark::Stranger => Span::raw("#"),
        Mark::Held { tenant, pair } => {
            let style = Style::new().fg(Color::Black).bg(colour(tenant));
            Span::styled(map::letter(tenant, pair).to_string(), style)
        }
    }
}

/// What is held as a bar, and a mark at what is owed.
fn bar(held: f64, owed: f64, width: usize) -> String {
    let at = |ratio: f64| (ratio.clamp(0.0, 1.0) * width as f64).round() as usize;
    let (filled, mark) = (at(held), at(owed).min(width.saturating_sub(1)));
    let part = |i: usize| match (i == mark, i < filled) {
        (true, _) => '|',
        (false, true) => '█',
        (false, false) => '·',
    };
    (0..width).map(part).collect()
}
