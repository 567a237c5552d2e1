//! Tokens: hashes of secrets, and what they are for.

use super::chain::{self, Hash};
use super::{Done, Store, StoreError};
use rusqlite::{Connection, params};

/// How long a secret that was replaced is remembered, so that its user is told what became of it.
const REMEMBERED_SECONDS: i64 = 90 * 86_400;

/// A token as it is kept: the secret itself is not. Times are seconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredToken {
    /// Token name; unique.
    pub name: String,
    /// SHA-256 of the secret.
    pub hash: String,
    /// Name of its scope.
    pub scope: String,
    /// Tenant, for the scope `tenant`.
    pub tenant: Option<String>,
    /// When it was made.
    pub created: i64,
    /// What tells it from a later token of the same name.
    pub id: String,
    /// When it expires, if it does.
    pub expires: Option<i64>,
    /// When it was last used, to a minute.
    pub used: Option<i64>,
    /// When its secret was last replaced.
    pub rotated: Option<i64>,
}

/// A secret that was replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OldSecret {
    /// SHA-256 of the secret.
    pub hash: String,
    /// Name of its token.
    pub name: String,
    /// Until when it still works.
    pub until: i64,
}

impl StoredToken {
    /// The seal of its row: what it may do must be what it was given.
    fn seal(&self) -> Hash {
        let tenant = self.tenant.as_deref();
        let known: &[u8] = if tenant.is_some() { b"1" } else { b"0" };
        // One that never expires is sealed as it was before there was an end.
        let expires = self.expires.map(i64::to_be_bytes);
        chain::seal(&[
            b"token",
            self.name.as_bytes(),
            self.hash.as_bytes(),
            self.scope.as_bytes(),
            known,
            tenant.unwrap_or_default().as_bytes(),
            &self.created.to_be_bytes(),
            expires.as_ref().map_or(&[], |bytes| &bytes[..]),
            self.id.as_bytes(),
        ])
    }
}

/// All tokens by name, each with whether its seal fits.
fn sealed_tokens(connection: &Connection) -> rusqlite::Result<Vec<(StoredToken, bool)>> {
    let sql = "SELECT name, hash, scope, tenant, created, expires, used, rotated, id, seal FROM token ORDER BY name";
    let mut select = connection.prepare(sql)?;
    let rows = select.query_map([], |row| {
        let token = StoredToken {
            name: row.get(0)?,
            hash: row.get(1)?,
            scope: row.get(2)?,
            tenant: row.get(3)?,
            created: row.get(4)?,
            expires: row.get(5)?,
            used: row.get(6)?,
            rotated: row.get(7)?,
            id: row.get(8)?,
        };
        let fits = chain::read(row.get_ref(9)?.as_blob_or_null()?) == Some(token.seal());
        Ok((token, fits))
    })?;
    rows.collect()
}

/// Seals tokens of a version that had no seals.
pub(super) fn seal_all(connection: &Connection) -> rusqlite::Result<()> {
    for (token, _) in sealed_tokens(connection)? {
        let sql = "UPDATE token SET seal = ?1 WHERE name = ?2 AND seal IS NULL";
        connection.execute(sql, params![token.seal(), token.name])?;
    }
    Ok(())
}

impl Store {
    /// All tokens, by name. One whose row is damaged is left out, and that is logged: nobody can say what it may do.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn tokens(&self) -> Done<Vec<StoredToken>> {
        let mut tokens = Vec::new();
        for (token, fits) in sealed_tokens(&self.connection).map_err(StoreError::sqlite("reading tokens"))? {
            match fits {
                true => tokens.push(token),
                false => tracing::warn!("{}", damaged(&token.name)),
            }
        }
        Ok(tokens)
    }

    /// Sentences about tokens whose rows are damaged.
    pub(super) fn damaged_tokens(&self) -> Done<Vec<String>> {
        let all = sealed_tokens(&self.connection).map_err(StoreError::sqlite("reading tokens"))?;
        Ok(all.into_iter().filter(|(_, fits)| !fits).map(|(token, _)| damaged(&token.name)).collect())
    }

    /// Secrets that were replaced, whether they still work or not.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn old_secrets(&self) -> Done<Vec<OldSecret>> {
        let doing = StoreError::sqlite("reading tokens");
        let mut select =
            self.connection.prepare("SELECT hash, name, until FROM old_secret ORDER BY hash").map_err(&doing)?;
        let rows =
            select.query_map([], |row| Ok(OldSecret { hash: row.get(0)?, name: row.get(1)?, until: row.get(2)? }));
        rows.and_then(Iterator::collect).map_err(doing)
    }

    /// Keeps a token; `false` if there is one of that name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put_token(&mut self, token: &StoredToken) -> Done<bool> {
        let sql = "INSERT OR IGNORE INTO token (name, hash, scope, tenant, created, expires, id, seal) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let StoredToken { name, hash, scope, tenant, created, expires, id, .. } = token;
        let values = params![name, hash, scope, tenant, created, expires, id, token.seal()];
        let put = self.connection.execute(sql, values).map_err(StoreError::sqlite("storing a token"))?;
        Ok(put == 1)
    }

    /// Gives a token another secret and another end, as of `now`; the old secret works until `until`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn rotate_token(
        &mut self,
        token: &StoredToken,
        hash: &str,
        now: i64,
        expires: Option<i64>,
        until: i64,
    ) -> Done<()> {
        let doing = StoreError::sqlite("replacing a secret");
        let transaction = self.connection.transaction().map_err(&doing)?;
        transaction
            .execute("DELETE FROM old_secret WHERE until < ?1", [now - REMEMBERED_SECONDS])
            .and_then(|_| {
                let sql = "INSERT OR REPLACE INTO old_secret (hash, name, until) VALUES (?1, ?2, ?3)";
                transaction.execute(sql, params![token.hash, token.name, until])
            })
            .and_then(|_| {
                let sql = "UPDATE token SET hash = ?2, rotated = ?3, expires = ?4, seal = ?5 WHERE name = ?1";
                let renewed = StoredToken { hash: hash.to_owned(), expires, ..token.clone() };
                transaction.execute(sql, params![token.name, hash, now, expires, renewed.seal()])
            })
            .map_err(&doing)?;
        transaction.commit().map_err(doing)
    }

    /// Notes when tokens were last used.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note_use(&mut self, used: &[(String, i64)]) -> Done<()> {
        let doing = StoreError::sqlite("noting the use of tokens");
        let transaction = self.connection.transaction().map_err(&doing)?;
        for (name, at) in used {
            let sql = "UPDATE token SET used = ?2 WHERE name = ?1";
            transaction.execute(sql, params![name, at]).map_err(&doing)?;
        }
        transaction.commit().map_err(doing)
    }

    /// Forgets a token and all its secrets; `false` if there was none of that name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn drop_token(&mut self, name: &str) -> Done<bool> {
        let doing = StoreError::sqlite("deleting a token");
        let transaction = self.connection.transaction().map_err(&doing)?;
        transaction.execute("DELETE FROM old_secret WHERE name = ?1", [name]).map_err(&doing)?;
        let gone = transaction.execute("DELETE FROM token WHERE name = ?1", [name]).map_err(&doing)?;
        transaction.commit().map_err(doing)?;
        Ok(gone == 1)
    }
}

fn damaged(name: &str) -> String {
    let name = name.escape_debug();
    format!("the row of token '{name}' is damaged, so the token is not accepted; revoke it and create another")
}
