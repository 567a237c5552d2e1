//! `[quota.NAME]` tables of the configuration file: what a tenant may use.

use super::Settings;
use super::parse::frequency;
use anyhow::{Result, anyhow};
use arles_api::Quota;
use arles_core::library::suggestion;
use toml::de::DeValue;

/// The name of the tables.
pub(super) const TABLE: &str = "quota";

const KEYS: [&str; 5] = ["jobs", "gpus", "gpu-hours", "kwh", "submits"];

/// Takes in all tables; `place` says where a byte of the file is.
pub(super) fn apply(
    settings: &mut Settings,
    body: &DeValue<'_>,
    at: &str,
    place: &dyn Fn(usize) -> String,
) -> Result<()> {
    let table_of = |value: &DeValue<'_>| match value {
        DeValue::Table(_) => Ok(()),
        _ => Err(anyhow!("{at}: quotas are tables of tenants; write [quota.vision] and lines such as gpus = 8 below")),
    };
    table_of(body)?;
    let DeValue::Table(tenants) = body else { return Ok(()) };
    for (tenant, limits) in tenants {
        table_of(limits.get_ref())?;
        let DeValue::Table(limits) = limits.get_ref() else { continue };
        let mut quota = Quota::default();
        for (key, value) in limits {
            let (name, at) = (key.get_ref().as_ref(), place(key.span().start));
            let text = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
                DeValue::Float(number) => number.as_str().to_owned(),
                _ => return Err(anyhow!("{at}: {name} cannot be used; expected a number, or a text such as \"10/s\"")),
            };
            put(&mut quota, name, &text)
                .map_err(|sentence| anyhow!("{at}: quota.{}.{name}: {sentence}", tenant.get_ref()))?;
        }
        settings.serve.quotas.push((tenant.get_ref().to_string(), quota));
    }
    Ok(())
}

/// Sets one limit; a flag and a key of the file are the same.
fn put(quota: &mut Quota, key: &str, text: &str) -> Result<(), String> {
    let whole = |text: &str| {
        text.parse::<u32>().map_err(|_| format!("'{text}' is not a number of them; expected 0, 1, 2, ..."))
    };
    let amount = |text: &str| match text.parse::<f64>() {
        Ok(amount) if amount.is_finite() && (0.0..=1e12).contains(&amount) => Ok(amount),
        _ => Err(format!("'{text}' is not an amount; expected a number from 0 to 1e12")),
    };
    match key {
        "jobs" => quota.jobs = Some(whole(text)?),
        "gpus" => quota.gpus = Some(whole(text)?),
        "gpu-hours" => quota.gpu_hours = Some(amount(text)?),
        "kwh" => quota.kwh = Some(amount(text)?),
        "submits" => quota.submits_per_second = Some(frequency(text)?),
        _ => {
            let near = suggestion(key, KEYS);
            return Err(format!("a quota has no key '{key}'{near}; expected one of {}", KEYS.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_tenants_are_read() {
        let mut settings = Settings::builtin().unwrap();
        let text = "[quota.vision]\ngpus = 8\njobs = 1000\ngpu-hours = 500\nkwh = 20.5\nsubmits = \"600/min\"\n[quota.\"a b\"]\ngpus = 1\n";
        settings.put_text(text, "my.toml").unwrap();
        let vision = Quota {
            gpus: Some(8),
            jobs: Some(1000),
            gpu_hours: Some(500.0),
            kwh: Some(20.5),
            submits_per_second: Some(10.0),
        };
        let quotas = &settings.serve.quotas;
        assert!(quotas.contains(&("vision".into(), vision)), "{quotas:?}");
        assert!(quotas.contains(&("a b".into(), Quota { gpus: Some(1), ..Quota::default() })));
    }

    #[test]
    fn wrong_quotas_are_told_with_their_line() {
        let wrong = |text: &str| format!("{:#}", Settings::builtin().unwrap().put_text(text, "my.toml").unwrap_err());
        assert_eq!(
            wrong("[quota.vision]\ngpsu = 8\n"),
            "my.toml:2: quota.vision.gpsu: a quota has no key 'gpsu' (did you mean gpus?); expected one of jobs, gpus, \
             gpu-hours, kwh, submits"
        );
        assert!(wrong("[quota.vision]\ngpus = -1\n").contains("'-1' is not a number of them"));
        assert!(wrong("[quota.vision]\nkwh = \"much\"\n").contains("'much' is not an amount"));
        assert!(wrong("[quota.vision]\nsubmits = 10\n").contains("'10' is not a frequency"));
        assert!(wrong("[quota]\ngpus = 1\n").starts_with("my.toml:1: quotas are tables of tenants"));
    }
}
