//! Who held which GPU when.
//!
//! A row is a GPU, rows are grouped by node, a block is a job in its tenant's colour. Where two jobs share a GPU, each
//! takes half of the row. When a run has more blocks than a page can carry, time is cut into cells and each cell goes to
//! whoever held the most of it; a cell that was free for more than half stays free.

use std::collections::BTreeMap;

use super::axis::Axis;
use super::svg::{Drawing, Figure, Panel, px};
use super::{TenantTotals, text, theme};
use crate::record::{GanttSpan, RunRecord};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 118.0;
const RIGHT: f64 = 20.0;
/// Rows beyond this number would be thinner than a reader can follow.
const MOST_ROWS: usize = 160;

/// The part of a row that a block fills.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Lane {
    Whole,
    Upper,
    Lower,
}

/// A coloured stretch of a row.
#[derive(Clone, PartialEq, Debug)]
struct Block {
    row: usize,
    lane: Lane,
    tenant: u32,
    from: f64,
    until: f64,
    /// The job, if it is one.
    job: Option<u64>,
}

/// Cells are drawn in this many times fewer bytes than blocks that say which job they are.
const CELLS_PER_BLOCK: usize = 5;

/// What the charts of all runs share, so that they compare.
pub(super) struct GanttScale<'a> {
    /// End of the time axis.
    pub(super) horizon: f64,
    /// Tenants by name.
    pub(super) tenants: BTreeMap<&'a str, &'a TenantTotals>,
    /// Blocks that a chart may draw.
    pub(super) blocks: usize,
}

/// The chart of one run, or nothing if nothing was recorded.
pub(super) fn gantt(run: &RunRecord, name: &str, stage: &GanttScale<'_>) -> Option<Figure> {
    let mut rows = rows(run);
    rows.truncate(MOST_ROWS);
    let exact = exact(run, &rows);
    if rows.is_empty() {
        return None;
    }
    let mut drawing = Drawing::default();
    let top = drawing.legend((LEFT, 4.0), WIDTH - LEFT - RIGHT, &keys(run, &stage.tenants)) + 8.0;
    let layout = Layout::new(&rows, top);
    let x = Axis::clock(stage.horizon, (LEFT, WIDTH - RIGHT), 70.0);
    let panel = Panel { x, y: Axis::bare((layout.bottom, top)) };
    layout.rows(&mut drawing, &rows, &panel);
    panel.frame(&mut drawing, "time since the start of the trace");
    let tenant = |t: u32| run.summary.tenants.get(t as usize).map_or("unknown tenant", |t| t.name.as_str());
    let class = |t: u32| {
        let hue = stage.tenants.get(tenant(t)).map_or(theme::OTHERS.to_owned(), |o| theme::hue(o.rank));
        format!("fill {hue}")
    };
    let mut cell = None;
    if exact.len() <= stage.blocks {
        for block in &exact {
            drawing.rect(&class(block.tenant), layout.place(block, &panel), &tip(block, tenant(block.tenant)));
        }
    } else {
        let (cells, seconds) = fitting(&exact, rows.len(), stage.horizon, CELLS_PER_BLOCK * stage.blocks);
        cell = Some(seconds);
        let mut paths: BTreeMap<u32, String> = BTreeMap::new();
        for block in &cells {
            let [x, y, w, h] = layout.place(block, &panel).map(px);
            paths.entry(block.tenant).or_default().push_str(&format!("M{x} {y}h{w}v{h}h-{w}z"));
        }
        paths.iter().for_each(|(t, d)| drawing.path(&class(*t), d, "", tenant(*t)));
    }
    let title = format!("Who held which GPU: {}", run.summary.policy);
    let caption = caption(run, cell, &rows);
    Some(Figure::new(name, &title, caption, (WIDTH, layout.bottom + 42.0), drawing))
}

fn tip(block: &Block, who: &str) -> String {
    let when = format!("from {} for {}", text::duration(block.from), text::duration(block.until - block.from));
    let shared = if block.lane == Lane::Whole { "" } else { ", shared" };
    match block.job {
        Some(job) => format!("job {job} of {who}, {when}{shared}"),
        None => format!("{who}, {when}{shared}"),
    }
}

fn caption(run: &RunRecord, cell: Option<f64>, rows: &[(u32, String)]) -> String {
    let mut text = format!(
        "{} Row: one GPU, grouped by node. Block: a job in its tenant's colour; half a row where two jobs share a GPU. \
         Blank: idle.",
        shown(run, rows)
    );
    if run.gantt.is_empty() {
        text.push_str(" None of them held a job.");
    }
    if let Some(seconds) = cell {
        let step = text::duration(seconds);
        text = format!("{text} Drawn in steps of {step}; each shows the tenant that held most of it.");
    }
    if let Some(until) = run.gantt_until_seconds {
        text = format!(
            "{text} Recorded for the first {}: the run has more spans than a report keeps.",
            text::duration(until)
        );
    }
    text
}

/// How many GPUs and nodes of the cluster the chart shows, and which.
fn shown(run: &RunRecord, rows: &[(u32, String)]) -> String {
    let gpus: u64 = run.kinds.iter().map(|k| u64::from(k.gpus)).sum();
    let nodes = 1 + rows.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    let (shown, count) = (rows.len() as u64, text::count);
    if shown >= gpus {
        return format!("All {} GPUs on {} nodes.", count(shown), count(nodes as u64));
    }
    let nodes = format!("{} of {} nodes", count(nodes as u64), count(u64::from(run.nodes)));
    let which = if rows.len() < run.gantt_labels.len() { "the first ones" } else { "a sample of every kind" };
    format!("{} of {} GPUs, on {nodes}: {which}, as many rows as fit.", count(shown), count(gpus))
}

/// Legend: tenants that have a colour and appear in this run's rows, then the rest as one.
fn keys(run: &RunRecord, tenants: &BTreeMap<&str, &TenantTotals>) -> Vec<(String, String)> {
    let mut seen: Vec<&TenantTotals> = Vec::new();
    for tenant in run.gantt.iter().filter_map(|s| run.summary.tenants.get(s.tenant as usize)) {
        if let Some(totals) = tenants.get(tenant.name.as_str()).filter(|o| !seen.iter().any(|s| s.rank == o.rank)) {
            seen.push(totals);
        }
    }
    seen.sort_by_key(|o| o.rank);
    let (own, rest): (Vec<_>, Vec<_>) = seen.into_iter().partition(|o| o.rank < theme::HUES);
    let mut keys: Vec<_> = own.iter().map(|o| (format!("fill {}", theme::hue(o.rank)), o.name.clone())).collect();
    if !rest.is_empty() {
        keys.push((format!("fill {}", theme::OTHERS), format!("{} other tenants", rest.len())));
    }
    keys
}

/// GPUs with their node's name, nodes in order of their first GPU.
fn rows(run: &RunRecord) -> Vec<(u32, String)> {
    let mut labels: Vec<(u32, String)> = run.gantt_labels.clone();
    let mut known: Vec<u32> = labels.iter().map(|l| l.0).collect();
    known.sort_unstable();
    let mut strangers: Vec<u32> = run.gantt.iter().map(|s| s.gpu).filter(|g| known.binary_search(g).is_err()).collect();
    strangers.sort_unstable();
    strangers.dedup();
    labels.extend(strangers.into_iter().map(|g| (g, "unknown node".to_owned())));
    labels.sort_by_key(|l| l.0);
    labels.dedup_by_key(|l| l.0);
    let first: BTreeMap<String, u32> = labels.iter().rev().map(|(gpu, node)| (node.clone(), *gpu)).collect();
    labels.sort_by_key(|(gpu, node)| (first.get(node).copied(), *gpu));
    labels
}

/// Every recorded stretch as a block.
fn exact(run: &RunRecord, rows: &[(u32, String)]) -> Vec<Block> {
    let row_of: BTreeMap<u32, usize> = rows.iter().enumerate().map(|(row, label)| (label.0, row)).collect();
    let drawable = |s: &&GanttSpan| s.until_seconds > s.from_seconds && s.until_seconds.is_finite();
    let mut stretches: Vec<(usize, &GanttSpan)> =
        run.gantt.iter().filter(drawable).filter_map(|s| Some((*row_of.get(&s.gpu)?, s))).collect();
    stretches
        .sort_by(|(r, a), (q, b)| r.cmp(q).then(a.from_seconds.total_cmp(&b.from_seconds)).then(a.job.cmp(&b.job)));
    let mut upper: Option<(usize, f64, u64)> = None;
    let mut blocks = Vec::with_capacity(stretches.len());
    for (row, s) in stretches {
        // The upper lane goes to whoever comes first; it is taken while that stretch lasts.
        let taken = upper.is_some_and(|(r, until, job)| r == row && until > s.from_seconds && job != s.job);
        let lane = match (s.shared, taken) {
            (false, _) => Lane::Whole,
            (true, true) => Lane::Lower,
            (true, false) => {
                upper = Some((row, s.until_seconds, s.job));
                Lane::Upper
            }
        };
        let (from, until) = (s.from_seconds, s.until_seconds);
        blocks.push(Block { row, lane, tenant: s.tenant, from, until, job: Some(s.job) });
    }
    blocks
}

/// The finest cells that make at most `most` blocks, and how long a cell is.
fn fitting(exact: &[Block], rows: usize, horizon: f64, most: usize) -> (Vec<Block>, f64) {
    let mut cells = 800;
    loop {
        let blocks = coarse(exact, rows, horizon, cells);
        if blocks.len() <= most || cells <= 10 {
            return (blocks, horizon / cells as f64);
        }
        cells = cells * 4 / 5;
    }
}

/// Blocks on a grid of `cells` columns.
fn coarse(exact: &[Block], rows: usize, horizon: f64, cells: usize) -> Vec<Block> {
    let length = horizon / cells as f64;
    let mut held: Vec<BTreeMap<(Lane, u32), f64>> = vec![BTreeMap::new(); rows * cells];
    for block in exact {
        let first = ((block.from / length) as usize).min(cells - 1);
        let last = ((block.until / length) as usize).min(cells - 1);
        for c in first..=last {
            let seconds = block.until.min((c + 1) as f64 * length) - block.from.max(c as f64 * length);
            *held[block.row * cells + c].entry((block.lane, block.tenant)).or_insert(0.0) += seconds.max(0.0);
        }
    }
    let mut blocks: Vec<Block> = Vec::new();
    for (i, cell) in held.iter().enumerate() {
        let (row, from) = (i / cells, (i % cells) as f64 * length);
        for (lane, tenant) in winners(cell, length) {
            // Lanes interleave, so the block to extend is among the last two.
            let extend = |b: &&mut Block| {
                b.row == row && b.lane == lane && b.tenant == tenant && b.until >= from - 1e-9 * length
            };
            match blocks.iter_mut().rev().take(2).find(extend) {
                Some(block) => block.until = from + length,
                None => blocks.push(Block { row, lane, tenant, from, until: from + length, job: None }),
            }
        }
    }
    blocks
}

/// Who gets a cell: nobody, one tenant, or one for each half.
fn winners(cell: &BTreeMap<(Lane, u32), f64>, length: f64) -> Vec<(Lane, u32)> {
    let lane = |lane: Lane| cell.iter().filter(move |((l, _), _)| *l == lane);
    let time = |l: Lane| lane(l).map(|(_, seconds)| seconds).sum::<f64>();
    let most = |l: Lane| lane(l).max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0))).map(|(key, _)| *key);
    let (whole, upper, lower) = (time(Lane::Whole), time(Lane::Upper), time(Lane::Lower));
    if whole + upper.max(lower) < length / 2.0 {
        Vec::new()
    } else if whole >= upper.max(lower) {
        most(Lane::Whole).into_iter().collect()
    } else {
        most(Lane::Upper).into_iter().chain(most(Lane::Lower)).collect()
    }
}

/// Where rows stand.
struct Layout {
    tops: Vec<f64>,
    height: f64,
    bottom: f64,
}

impl Layout {
    fn new(rows: &[(u32, String)], top: f64) -> Layout {
        let height = (620.0 / rows.len() as f64).clamp(5.0, 18.0).floor();
        let mut y = top;
        let mut tops = Vec::with_capacity(rows.len());
        for (i, (_, node)) in rows.iter().enumerate() {
            if i > 0 && rows[i - 1].1 != *node {
                y += (height / 2.0).clamp(3.0, 6.0);
            }
            tops.push(y);
            y += height;
        }
        Layout { tops, height, bottom: y + 4.0 }
    }

    /// Empty tracks, and the names of nodes as far as there is room for them.
    fn rows(&self, drawing: &mut Drawing, rows: &[(u32, String)], panel: &Panel) {
        let mut free_from = f64::NEG_INFINITY;
        for (i, (_, node)) in rows.iter().enumerate() {
            let top = self.tops[i];
            drawing.rect("track", [panel.x.from, top, panel.x.to - panel.x.from, self.height - 1.0], "");
            if i == 0 || rows[i - 1].1 != *node {
                let gpus = rows[i..].iter().take_while(|r| r.1 == *node).count();
                let middle = top + self.height * gpus as f64 / 2.0;
                if middle - 6.0 >= free_from {
                    drawing.text("end", (panel.x.from - 8.0, middle + 4.0), &text::shorten(node, 14));
                    free_from = middle + 6.0;
                }
            }
        }
    }

    fn place(&self, block: &Block, panel: &Panel) -> [f64; 4] {
        let (from, until) = (panel.x.at(block.from), panel.x.at(block.until));
        let (top, height) = (self.tops[block.row], self.height - 1.0);
        let half = height / 2.0;
        let (top, height) = match block.lane {
            Lane::Whole => (top, height),
            Lane::Upper => (top, half - 0.25),
            Lane::Lower => (top + half + 0.25, half - 0.25),
        };
        // A hair between neighbours tells jobs of one tenant apart.
        let gap = if block.job.is_some() && until - from > 2.0 { 0.6 } else { 0.0 };
        [from, top, (until - from - gap).max(0.3), height]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample::{Size, runs};

    fn block(lane: Lane, tenant: u32, from: f64, until: f64) -> Block {
        Block { row: 0, lane, tenant, from, until, job: Some(1) }
    }

    #[test]
    fn cells_go_to_whoever_held_the_most() {
        let exact =
            [block(Lane::Whole, 1, 0.0, 14.0), block(Lane::Whole, 2, 14.0, 19.0), block(Lane::Whole, 3, 40.0, 44.0)];
        let drawn: Vec<_> = coarse(&exact, 1, 50.0, 5).into_iter().map(|b| (b.tenant, b.from, b.until)).collect();
        assert_eq!(drawn, [(1, 0.0, 10.0), (2, 10.0, 20.0)]);
    }

    #[test]
    fn the_caption_says_how_much_of_the_cluster_is_shown() {
        let mut run = runs(Size { jobs: 40, tenants: 3, gpus_per_kind: 8 }).remove(0);
        let rows = rows(&run);
        let check = |run: &RunRecord, rows: &[(u32, String)], want: &str| assert_eq!(shown(run, rows), want);
        check(&run, &rows, "All 24 GPUs on 6 nodes.");
        run.kinds.iter_mut().for_each(|k| k.gpus = 16);
        run.nodes = 12;
        check(&run, &rows, "24 of 48 GPUs, on 6 of 12 nodes: a sample of every kind, as many rows as fit.");
        check(&run, &rows[..8], "8 of 48 GPUs, on 2 of 12 nodes: the first ones, as many rows as fit.");
        assert!(!caption(&run, None, &rows).contains("Recorded"));
        run.gantt_until_seconds = Some(7200.0);
        assert!(caption(&run, None, &rows).contains("Recorded for the first 2 h"), "{}", caption(&run, None, &rows));
    }

    #[test]
    fn shared_cells_keep_both_halves() {
        let exact =
            [block(Lane::Upper, 1, 0.0, 30.0), block(Lane::Lower, 2, 0.0, 30.0), block(Lane::Whole, 1, 30.0, 50.0)];
        let drawn: Vec<_> =
            coarse(&exact, 1, 50.0, 5).into_iter().map(|b| (b.lane, b.tenant, b.from, b.until)).collect();
        let want = [(Lane::Upper, 1, 0.0, 30.0), (Lane::Lower, 2, 0.0, 30.0), (Lane::Whole, 1, 30.0, 50.0)];
        assert_eq!(drawn, want);
    }
}
