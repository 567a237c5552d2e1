//! Profiles and journals as rows, and the hash of each; `rows.rs` has cells and features.

use super::super::labels::{MODES, PRECISIONS, label_of};
use super::super::{Catalog, CatalogError, check_name};
use super::rows::{Digest, Hash, ReadError, one_of, ranged};
use arles_core::Profile;
use rusqlite::{Connection, Row, params};
use std::collections::BTreeMap;

/// Reads profiles into a catalog, and returns how far each journal was applied.
pub(super) fn read(
    connection: &Connection,
    catalog: &mut Catalog,
    digest: &mut Digest,
) -> Result<BTreeMap<String, u64>, ReadError> {
    let mut statement = connection.prepare(
        "SELECT name, alike, domain, mode, precision, batch, params, memory_gib, gpu_utilisation, bandwidth_utilisation \
         FROM profiles ORDER BY name",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (name, profile) = profile(row)?;
        digest.add(profile_hash(&name, &profile));
        catalog.profiles.insert(name, profile);
    }
    let mut journals = BTreeMap::new();
    let mut statement = connection.prepare("SELECT id, seq FROM journals ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (id, seq): (String, u64) = (row.get(0)?, ranged(row, 1, "seq")?);
        check_name(&id).map_err(|error| ReadError::Invalid(error.0))?;
        digest.add(journal_hash(&id, seq));
        journals.insert(id, seq);
    }
    Ok(journals)
}

fn profile(row: &Row<'_>) -> Result<(String, Profile), ReadError> {
    let there = |column: usize| row.get_ref(column).map(|value| value != rusqlite::types::ValueRef::Null);
    let name: String = row.get(0)?;
    let profile = Profile {
        like: row.get(1)?,
        domain: row.get(2)?,
        mode: if there(3)? { Some(one_of(row, 3, "mode", &MODES)?) } else { None },
        precision: if there(4)? { Some(one_of(row, 4, "precision", &PRECISIONS)?) } else { None },
        batch: if there(5)? { Some(ranged(row, 5, "batch")?) } else { None },
        params: row.get(6)?,
        memory_gib: row.get(7)?,
        gpu_utilisation: row.get(8)?,
        bandwidth_utilisation: row.get(9)?,
    };
    check_profile(&name, &profile).map_err(|error| ReadError::Invalid(error.0))?;
    Ok((name, profile))
}

/// The numbers of a profile, by name.
fn numbers(profile: &Profile) -> [(&'static str, Option<f64>); 4] {
    [
        ("params", profile.params),
        ("memory_gib", profile.memory_gib),
        ("gpu_utilisation", profile.gpu_utilisation),
        ("bandwidth_utilisation", profile.bandwidth_utilisation),
    ]
}

/// Refuses a profile that makes no sense.
pub(super) fn check_profile(name: &str, profile: &Profile) -> Result<(), CatalogError> {
    for text in std::iter::once(name).chain(profile.like.as_deref()).chain(profile.domain.as_deref()) {
        check_name(text)?;
    }
    for (what, value) in numbers(profile) {
        if let Some(value) = value.filter(|x| !(x.is_finite() && *x >= 0.0)) {
            return Err(CatalogError(format!(
                "{name}: {what} is {value}; expected a number, 0 or more, or nothing where it is unknown"
            )));
        }
    }
    Ok(())
}

/// No file keeps the sign of a zero, so memory does not either.
pub(super) fn without_signs_of_zero(profile: &Profile) -> Profile {
    let plain = |x: Option<f64>| x.map(|x| x + 0.0);
    Profile {
        params: plain(profile.params),
        memory_gib: plain(profile.memory_gib),
        gpu_utilisation: plain(profile.gpu_utilisation),
        bandwidth_utilisation: plain(profile.bandwidth_utilisation),
        ..profile.clone()
    }
}

pub(super) fn write_profile(connection: &Connection, name: &str, profile: &Profile) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT OR REPLACE INTO profiles VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            name,
            profile.like,
            profile.domain,
            profile.mode.map(|mode| label_of(&mode, &MODES)),
            profile.precision.map(|precision| label_of(&precision, &PRECISIONS)),
            profile.batch,
            profile.params,
            profile.memory_gib,
            profile.gpu_utilisation,
            profile.bandwidth_utilisation,
        ],
    )?;
    Ok(())
}

pub(super) fn write_journal(connection: &Connection, id: &str, seq: u64) -> rusqlite::Result<()> {
    connection.execute("INSERT OR REPLACE INTO journals VALUES (?1, ?2)", params![id, u64::cast_signed(seq)])?;
    Ok(())
}

pub(super) fn profile_hash(name: &str, profile: &Profile) -> u64 {
    let mut hash = Hash::of("profile");
    hash.text(name);
    let words = [
        profile.like.as_deref(),
        profile.domain.as_deref(),
        profile.mode.as_ref().map(|mode| label_of(mode, &MODES)),
        profile.precision.as_ref().map(|precision| label_of(precision, &PRECISIONS)),
    ];
    for word in words {
        // No word is empty.
        hash.text(word.unwrap_or_default());
    }
    hash.number(profile.batch.map_or(0, |batch| u64::from(batch) + 1));
    for (_, number) in numbers(profile) {
        hash.number(u64::from(number.is_some()));
        hash.number(number.map_or(0, f64::to_bits));
    }
    hash.end()
}

pub(super) fn journal_hash(id: &str, seq: u64) -> u64 {
    let mut hash = Hash::of("journal");
    hash.text(id);
    hash.number(seq);
    hash.end()
}
