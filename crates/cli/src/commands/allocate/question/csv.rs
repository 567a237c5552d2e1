//! A question as CSV: a line for each user, a column for each kind.
//!
//! Columns that are no field of a user are kinds. A first line called `gpus` says how many there are of each, and one
//! called `hourly_cost` what an hour of one costs. A column that has no count is no kind: that is how a slip in a field's
//! name is found.

use super::{Given, Kind, NUMBERS, Read, count_of, rate};
use arles_core::library::suggestion;

/// The line that counts GPUs, and the one that prices them.
const COUNTS: &str = "gpus";
const COSTS: &str = "hourly_cost";

/// A line of cells, and its number in the file.
type Line = (usize, Vec<String>);

/// Kinds and users as they are written.
pub(super) fn read(text: &str, counts: Option<&[Kind]>) -> Read<(Vec<Kind>, Vec<Given>)> {
    let mut lines = lines(text)?.into_iter();
    let Some((_, header)) = lines.next() else {
        return Err(format!("there is nothing in it; {EXPECTED}"));
    };
    let columns = Columns::of(&header)?;
    let (mut gpus, mut costs, mut users) = (None, None, Vec::new());
    for line in lines {
        let (at, cells) = &line;
        if cells.len() != header.len() {
            let (given, wanted) = (cells.len(), header.len());
            return Err(format!("line {at}: there are {given} cells under {wanted} columns; expected as many"));
        }
        match cells[columns.user].as_str() {
            COUNTS if users.is_empty() && gpus.is_none() => gpus = Some(line),
            COSTS if users.is_empty() && costs.is_none() => costs = Some(line),
            _ => users.push(line),
        }
    }
    let kinds = columns.kinds(&header, gpus.as_ref(), costs.as_ref(), counts)?;
    if users.is_empty() {
        return Err(format!("there is no user in it; {EXPECTED}"));
    }
    let users = users.iter().map(|line| columns.user(line, &kinds)).collect::<Read<_>>()?;
    Ok((kinds, users))
}

pub(super) const EXPECTED: &str = "expected JSON, or CSV with a header such as user,weight,v100,k80, a line of counts such as gpus,,8,8 and a line for each user";

/// Where everything is in a line.
struct Columns {
    user: usize,
    tenant: Option<usize>,
    numbers: [Option<usize>; NUMBERS.len()],
    kinds: Vec<usize>,
}

impl Columns {
    fn of(header: &[String]) -> Read<Self> {
        if let Some(empty) = header.iter().position(String::is_empty) {
            return Err(format!("line 1: column {} has no name; give it one, or leave it out", empty + 1));
        }
        let twice = header.iter().enumerate().find(|(i, name)| header[..*i].contains(name));
        if let Some((_, name)) = twice {
            return Err(format!("line 1: column '{name}' occurs twice; remove one of the two"));
        }
        let find = |name: &str| header.iter().position(|column| column == name);
        let user = find("user").ok_or_else(|| format!("line 1: there is no column 'user'; {EXPECTED}"))?;
        let (tenant, numbers) = (find("tenant"), NUMBERS.map(find));
        let is_field = |i: &usize| *i == user || Some(*i) == tenant || numbers.contains(&Some(*i));
        let kinds: Vec<usize> = (0..header.len()).filter(|i| !is_field(i)).collect();
        if kinds.is_empty() {
            return Err(format!("line 1: there is no column of a kind; {EXPECTED}"));
        }
        Ok(Self { user, tenant, numbers, kinds })
    }

    fn kinds(
        &self,
        header: &[String],
        gpus: Option<&Line>,
        costs: Option<&Line>,
        counts: Option<&[Kind]>,
    ) -> Read<Vec<Kind>> {
        if gpus.is_some() && counts.is_some() {
            return Err(format!("--gpus: there is a line '{COUNTS}' in the file too; give one of the two"));
        }
        if gpus.is_none() && counts.is_none() {
            return Err(format!(
                "there are no counts of GPUs; give a first line such as {COUNTS},8,8 under the header, or --gpus v100:8,k80:8"
            ));
        }
        let names = || self.kinds.iter().map(|&i| header[i].as_str());
        if let Some(other) = counts.and_then(|counts| {
            counts.iter().find(|kind| !names().any(|name| super::known_as(name) == super::known_as(&kind.name)))
        }) {
            return Err(format!(
                "--gpus: there is no column '{}'; the kinds are {}",
                other.name,
                names().collect::<Vec<_>>().join(", ")
            ));
        }
        let kind = |&i: &usize| {
            let name = &header[i];
            let stray = || {
                let fields = ["user", "tenant"].into_iter().chain(NUMBERS);
                format!(
                    "column '{name}'{} is no field of a user and has no count of GPUs; expected {}, or a kind with a count",
                    suggestion(name, fields.clone()),
                    fields.collect::<Vec<_>>().join(", ")
                )
            };
            let count = match (gpus, counts.and_then(|counts| count_of(counts, name))) {
                (_, Some(kind)) => f64::from(kind.count),
                (Some(line), None) => cell(line, i, &format!("the count of kind '{name}'"))?.ok_or_else(stray)?,
                (None, None) => return Err(stray()),
            };
            let cost = costs.map(|line| cell(line, i, &format!("{COSTS} of kind '{name}'"))).transpose()?.flatten();
            Kind::new(name.clone(), count, cost)
        };
        self.kinds.iter().map(kind).collect()
    }

    fn user(&self, line: &Line, kinds: &[Kind]) -> Read<Given> {
        let (at, cells) = line;
        let name = cells[self.user].clone();
        if name.is_empty() {
            return Err(format!("line {at}: the user has no name; give every user one"));
        }
        let tenant = self.tenant.map(|i| cells[i].clone()).filter(|tenant| !tenant.is_empty());
        let mut numbers = [None; NUMBERS.len()];
        for ((number, field), column) in numbers.iter_mut().zip(NUMBERS).zip(self.numbers) {
            *number = match column {
                Some(i) => cell(line, i, &format!("{field} of user '{name}'"))?,
                None => None,
            };
        }
        let read = |(&i, kind): (&usize, &Kind)| {
            // An empty cell is a kind that the user does not fit on.
            let value = cell(line, i, &format!("rates of user '{name}' on '{}'", kind.name))?.unwrap_or(0.0);
            rate(value, &cells[i], &name, &kind.name).map_err(|e| format!("line {at}: {e}"))
        };
        let rates = self.kinds.iter().zip(kinds).map(read).collect::<Read<_>>()?;
        Ok(Given { name, tenant, numbers, rates })
    }
}

/// The number in a cell, if there is one.
fn cell((at, cells): &Line, column: usize, what: &str) -> Read<Option<f64>> {
    let text = cells[column].as_str();
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Some(number)),
        _ => Err(format!("line {at}: {what} is '{text}'; expected a number")),
    }
}

/// The cells of every line that is not empty. Quotes may enclose a cell that has commas, quotes (doubled) or line
/// breaks in it.
fn lines(text: &str) -> Read<Vec<Line>> {
    let (mut lines, mut cells, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut at, mut begun, mut quoted) = (1, 1, false);
    let mut letters = text.trim_start_matches('\u{feff}').chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if cell.trim().is_empty() => {
                cell.clear();
                quoted = true;
            }
            '\n' if !quoted => {
                end(&mut cells, &mut cell);
                push(&mut lines, begun, &mut cells);
                at += 1;
                begun = at;
            }
            ',' if !quoted => end(&mut cells, &mut cell),
            letter => {
                at += usize::from(letter == '\n');
                cell.push(letter);
            }
        }
    }
    if quoted {
        return Err(format!("line {begun}: a quote is opened and never closed; close it, or double it to mean one"));
    }
    end(&mut cells, &mut cell);
    push(&mut lines, begun, &mut cells);
    Ok(lines)
}

fn end(cells: &mut Vec<String>, cell: &mut String) {
    cells.push(cell.trim().to_owned());
    cell.clear();
}

fn push(lines: &mut Vec<Line>, at: usize, cells: &mut Vec<String>) {
    let cells = std::mem::take(cells);
    if cells.iter().any(|cell| !cell.is_empty()) {
        lines.push((at, cells));
    }
}
