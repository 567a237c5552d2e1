//! `[[kind]]` tables of the configuration file: GPU kinds that the library lacks.

use super::Settings;
use anyhow::{Result, anyhow};
use arles_api::KindSpec;
use arles_core::library::suggestion;
use arles_daemon::desk::described_kind;
use serde_json::{Map, Value};
use toml::de::{DeArray, DeTable, DeValue};

/// The name of the tables.
pub(super) const TABLE: &str = "kind";

/// Keys of a table; those of the API with dashes.
const KEYS: [&str; 15] = [
    "name",
    "product",
    "year",
    "memory-gib",
    "bandwidth-gbps",
    "fp32-tflops",
    "tf32-tflops",
    "fp16-tflops",
    "int8-tops",
    "link-gbps",
    "idle-watts",
    "max-watts",
    "hourly-usd",
    "max-jobs",
    "aliases",
];

/// Takes in all tables; `place` says where a byte of the file is.
pub(super) fn apply(settings: &mut Settings, tables: &DeArray<'_>, place: &dyn Fn(usize) -> String) -> Result<()> {
    for table in tables {
        let at = place(table.span().start);
        let DeValue::Table(table) = table.get_ref() else {
            return Err(anyhow!("{at}: a kind is a table; write [[kind]] and its figures below"));
        };
        let (name, spec) = read(table, &at, place)?;
        let kind = described_kind(&name, &spec).map_err(|sentence| anyhow!("{at}: {sentence}"))?;
        let names = |kind: &arles_core::Kind| -> Vec<String> {
            std::iter::once(&kind.name).chain(&kind.aliases).map(|name| name.to_lowercase()).collect()
        };
        let taken: Vec<String> = settings.kinds.iter().flat_map(names).collect();
        if let Some(name) = names(&kind).into_iter().find(|name| taken.contains(name)) {
            return Err(anyhow!("{at}: kind '{name}' is described twice; give every kind a name of its own"));
        }
        settings.kinds.push(kind);
        settings.described_kinds.push((name, spec));
    }
    Ok(())
}

fn read(table: &DeTable<'_>, at: &str, place: &dyn Fn(usize) -> String) -> Result<(String, KindSpec)> {
    let mut fields = Map::new();
    for (key, value) in table {
        let (name, at) = (key.get_ref().as_ref(), place(key.span().start));
        if !KEYS.contains(&name) {
            let near = suggestion(name, KEYS);
            return Err(anyhow!("{at}: [[kind]] has no key '{name}'{near}; expected one of {}", KEYS.join(", ")));
        }
        let value = json(value.get_ref())
            .ok_or_else(|| anyhow!("{at}: {name} cannot be used; expected a text, a number or a list of texts"))?;
        fields.insert(name.replace('-', "_"), value);
    }
    let Some(Value::String(name)) = fields.remove("name") else {
        return Err(anyhow!("{at}: a kind has no name; add a line such as name = \"rtx6000\""));
    };
    let spec = serde_json::from_value(Value::Object(fields)).map_err(|error| {
        let text = error.to_string().replace('_', "-");
        anyhow!("{at}: kind '{name}' cannot be used: {text}")
    })?;
    Ok((name, spec))
}

fn json(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(Value::String(text.to_string())),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<i64>().ok().map(Value::from),
        DeValue::Float(number) => number.as_str().parse::<f64>().ok().map(Value::from),
        DeValue::Array(list) => {
            list.iter().map(|part| json(part.get_ref())).collect::<Option<Vec<_>>>().map(Value::from)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "[cluster]\ngpus = \"v100:2,My GPU:4\"\n\n[[kind]]\nname = \"mine\"\naliases = [\"my gpu\"]\nmemory-gib = 96\n\
                         bandwidth-gbps = 1800\nfp32-tflops = 120.5\nidle-watts = 30\nmax-watts = 600\n";

    #[test]
    fn a_described_kind_may_be_in_the_cluster() {
        let mut settings = Settings::builtin().unwrap();
        settings.put_text(SOUND, "my.toml").unwrap();
        assert_eq!(settings.gpus, [("v100".to_owned(), 2), ("mine".to_owned(), 4)]);
        let cluster = crate::cluster::build(&settings.gpus, 4, &settings.kinds).unwrap();
        assert_eq!(cluster.kinds()[1].fp32_tflops, 120.5);
    }

    #[test]
    fn wrong_kinds_are_told_with_their_line() {
        let wrong =
            |text: String| format!("{:#}", Settings::builtin().unwrap().put_text(&text, "my.toml").unwrap_err());
        assert!(
            wrong(SOUND.replace("idle-watts", "idle-wats"))
                .starts_with("my.toml:10: [[kind]] has no key 'idle-wats' (did you mean idle-watts?)")
        );
        assert!(wrong(SOUND.replace("max-watts = 600\n", "")).contains("missing field `max-watts`"));
        assert!(wrong(SOUND.replace("name = \"mine\"\n", "")).contains("a kind has no name"));
        assert!(wrong(SOUND.replace("\"mine\"", "\"v100\"")).contains("'v100' already stands for"));
        assert!(wrong(SOUND.replace("= 96", "= \"big\"")).contains("kind 'mine' cannot be used"));
        assert!(wrong(SOUND.replace("= 96", "= -1")).contains("memory_gib of kind 'mine' is -1"));
        let twice = format!("{SOUND}{}", &SOUND[SOUND.find("[[kind]]").unwrap()..]);
        assert!(wrong(twice).contains("is described twice"));
        assert!(wrong("[kind]\nname = 1\n".into()).contains("write [[kind]]"));
    }
}
