//! `arles fleet`: what each tenant's weight should be in each of an organisation's clusters.
//!
//! The mathematics is [`arles_core::fleet`]; docs/scale.md says how it is meant to be used.

use crate::fault::Hinted;
use crate::files;
use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::quantity::{percent, shown};
use anyhow::{Result, anyhow};
use arles_core::Library;
use arles_core::fleet::{Division, Fleet as Market};
use arles_core::library::suggestion;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Work out what each tenant's weight should be in each of several clusters
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Fleet {
    /// Regions and tenants, as TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How often the weights are set anew from what tenants get
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    updates: u32,
    #[command(flatten)]
    output: OutputFlag,
}

const AFTER_HELP: &str = "The file names regions (clusters) with their GPUs, and tenants with their steps a second on one GPU of each kind:

  [[region]]
  name = \"north\"
  gpus = { v100 = 400, k80 = 300 }

  [[tenant]]
  name = \"vision\"
  weight = 2                       # 1 unless given
  rates = { v100 = 4.0, k80 = 1.0 }
  regions = [\"north\"]              # where it may run; everywhere unless given

Each region divides its own GPUs by the weights printed here ('arles tenants' sets them). After enough updates that is what one \
market over all regions would give, region by region; the last column says how near it is.

Exit codes: 0 success; 1 failure; 2 invalid usage or input.";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    region: Vec<Region>,
    tenant: Vec<Tenant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Region {
    name: String,
    gpus: BTreeMap<String, u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tenant {
    name: String,
    #[serde(default = "one")]
    weight: f64,
    rates: BTreeMap<String, f64>,
    regions: Option<Vec<String>>,
}

fn one() -> f64 {
    1.0
}

/// What `-o json` prints.
#[derive(Serialize)]
struct Answer {
    updates: u32,
    /// The geometric mean of speeds by that of one market over all regions.
    of_one_market_ratio: f64,
    tenants: Vec<TenantAnswer>,
    prices: Vec<Price>,
}

#[derive(Serialize)]
struct TenantAnswer {
    name: String,
    weight: f64,
    regions: Vec<Share>,
    speed: f64,
    of_equal_division_ratio: f64,
    of_one_market_ratio: f64,
}

#[derive(Serialize)]
struct Share {
    region: String,
    weight: f64,
    speed: f64,
}

#[derive(Serialize)]
struct Price {
    region: String,
    kind: String,
    gpus: f64,
    price: f64,
}

impl Fleet {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let text = files::read(&self.file, "regions and tenants as TOML")?;
        let question = Question::read(&text, &self.file)?;
        let (market, kinds) = question.market().map_err(|why| anyhow!("{}: {why}", self.file.display()))?;
        let mut weights = market.first_weights();
        for _ in 0..self.updates {
            weights = market.rebalance(&market.divide(&weights)?.speeds);
        }
        let division = market.divide(&weights)?;
        let answer = self.answer(&question, &market, &kinds, &division)?;
        output::print(out, self.output.output, &table(&answer), &answer)?;
        if self.output.output == Format::Table {
            output::paragraph(out, &words(&answer))?;
        }
        Ok(())
    }

    fn answer(&self, question: &Question, market: &Market, kinds: &[String], division: &Division) -> Result<Answer> {
        let regions = question.region.len();
        let (together, equal, totals) = (market.together()?.0, market.equal_division(), division.totals(regions));
        let share = |l: usize, r: usize| Share {
            region: question.region[r].name.clone(),
            weight: division.weights[l * regions + r],
            speed: division.speeds[l * regions + r],
        };
        let tenants = question.tenant.iter().enumerate().map(|(l, tenant)| TenantAnswer {
            name: tenant.name.clone(),
            weight: tenant.weight,
            regions: (0..regions).map(|r| share(l, r)).collect(),
            speed: totals[l],
            of_equal_division_ratio: totals[l] / equal[l],
            of_one_market_ratio: totals[l] / together[l],
        });
        let price = |(at, price): (usize, &f64)| Price {
            region: question.region[at / kinds.len()].name.clone(),
            kind: kinds[at % kinds.len()].clone(),
            gpus: question.region[at / kinds.len()].count(&kinds[at % kinds.len()]),
            price: *price,
        };
        Ok(Answer {
            updates: self.updates,
            of_one_market_ratio: market.welfare(&totals) / market.welfare(&together),
            tenants: tenants.collect(),
            prices: division.prices.iter().enumerate().map(price).filter(|price| price.gpus > 0.0).collect(),
        })
    }
}

impl Question {
    fn read(text: &str, path: &Path) -> Result<Self> {
        let mut question: Self = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            let sentence = format!("{}:{line}: {}", path.display(), error.message());
            Hinted::new(sentence, "'arles fleet --help' shows what such a file looks like")
        })?;
        // One name for a kind, however it is written.
        let known = |name: String| Library::builtin().kind(&name).map_or(name, |kind| kind.name.clone());
        for region in &mut question.region {
            region.gpus = std::mem::take(&mut region.gpus).into_iter().map(|(kind, n)| (known(kind), n)).collect();
        }
        for tenant in &mut question.tenant {
            tenant.rates = std::mem::take(&mut tenant.rates).into_iter().map(|(kind, n)| (known(kind), n)).collect();
        }
        Ok(question)
    }

    /// The market, and its kinds in order.
    fn market(&self) -> Result<(Market, Vec<String>), String> {
        unique("region", self.region.iter().map(|region| &region.name))?;
        unique("tenant", self.tenant.iter().map(|tenant| &tenant.name))?;
        if self.region.is_empty() || self.tenant.is_empty() {
            return Err("there is nothing to divide; give at least one [[region]] and one [[tenant]]".into());
        }
        let mut kinds: Vec<String> = self.region.iter().flat_map(|region| region.gpus.keys().cloned()).collect();
        kinds.sort();
        kinds.dedup();
        let capacity =
            self.region.iter().flat_map(|region| kinds.iter().map(|kind| region.count(kind))).collect::<Vec<f64>>();
        let mut rates = Vec::new();
        for tenant in &self.tenant {
            tenant.check(&kinds, &self.region)?;
            for region in &self.region {
                rates.extend(kinds.iter().map(|kind| tenant.rate(kind, region)));
            }
        }
        let weights = self.tenant.iter().map(|tenant| tenant.weight).collect();
        let market = Market::new(kinds.len(), capacity, rates, weights).map_err(|error| error.to_string())?;
        Ok((market, kinds))
    }
}

impl Region {
    fn count(&self, kind: &str) -> f64 {
        f64::from(self.gpus.get(kind).copied().unwrap_or(0))
    }
}

impl Tenant {
    fn rate(&self, kind: &str, region: &Region) -> f64 {
        let here = self.regions.as_ref().is_none_or(|named| named.contains(&region.name));
        if here { self.rates.get(kind).copied().unwrap_or(0.0) } else { 0.0 }
    }

    fn check(&self, kinds: &[String], regions: &[Region]) -> Result<(), String> {
        let name = &self.name;
        if !(self.weight.is_finite() && self.weight > 0.0) {
            return Err(format!("tenant '{name}' weighs {}; expected more than 0", self.weight));
        }
        for (kind, rate) in &self.rates {
            if !kinds.contains(kind) {
                let near = suggestion(kind, kinds.iter().map(String::as_str));
                return Err(format!(
                    "tenant '{name}' has a rate on '{kind}'{near}, which no region has; expected one of {}",
                    kinds.join(", ")
                ));
            }
            if !(rate.is_finite() && *rate >= 0.0) {
                return Err(format!("tenant '{name}' does {rate} steps a second on {kind}; expected 0 or more"));
            }
        }
        for named in self.regions.iter().flatten() {
            if !regions.iter().any(|region| region.name == *named) {
                let names = || regions.iter().map(|region| region.name.as_str());
                let near = suggestion(named, names());
                let expected = names().collect::<Vec<_>>().join(", ");
                return Err(format!("tenant '{name}' names region '{named}'{near}; expected one of {expected}"));
            }
        }
        if regions.iter().all(|region| kinds.iter().all(|kind| self.rate(kind, region) * region.count(kind) <= 0.0)) {
            return Err(format!(
                "tenant '{name}' cannot run anywhere: no region that it may use has GPUs of a kind on which its rate is above 0"
            ));
        }
        Ok(())
    }
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("there are two of {what} '{name}'; expected each name once"));
        }
    }
    Ok(())
}

fn table(answer: &Answer) -> Table {
    let mut table = Table::new(vec![
        Column::left("tenant\n", "tenant"),
        Column::left("region\n", "region"),
        Column::right("weight\nthere", "weight"),
        Column::right("speed\nthere", "speed"),
        Column::right("speed\nin all", "total_speed"),
        Column::right("of an equal\ndivision, %", "of_equal_division_ratio"),
        Column::right("of one\nmarket, %", "of_one_market_ratio"),
    ]);
    for tenant in &answer.tenants {
        let used = tenant.regions.iter().filter(|share| share.weight > 0.0);
        for (i, share) in used.enumerate() {
            let first = |cell: Cell| if i == 0 { cell } else { Cell::named("", "") };
            let total = Cell::number(shown(tenant.speed, 4), tenant.speed);
            let equal = Cell::number(percent(tenant.of_equal_division_ratio), tenant.of_equal_division_ratio);
            let one = Cell::number(percent(tenant.of_one_market_ratio), tenant.of_one_market_ratio);
            table.row(vec![
                Cell::named(if i == 0 { &tenant.name } else { "" }, &tenant.name),
                share.region.as_str().into(),
                Cell::number(shown(share.weight, 3), share.weight),
                Cell::number(shown(share.speed, 4), share.speed),
                first(total),
                first(equal),
                first(one),
            ]);
        }
    }
    table
}

fn words(answer: &Answer) -> String {
    let priced = |price: &&Price| price.price.is_finite();
    let dear = answer.prices.iter().filter(priced).max_by(|a, b| a.price.total_cmp(&b.price));
    let cheap = answer.prices.iter().filter(priced).min_by(|a, b| a.price.total_cmp(&b.price));
    let prices = match (dear, cheap) {
        (Some(dear), Some(cheap)) if dear.price > cheap.price => format!(
            " A {} in {} is worth most, {} times a {} in {}.",
            dear.kind,
            dear.region,
            if cheap.price > 0.0 { shown(dear.price / cheap.price, 2) } else { "infinitely many".into() },
            cheap.kind,
            cheap.region
        ),
        _ => String::new(),
    };
    format!(
        "After {} updates tenants together have {} % of what one market over all regions would give them (geometric mean).{prices}",
        answer.updates,
        percent(answer.of_one_market_ratio)
    )
}
