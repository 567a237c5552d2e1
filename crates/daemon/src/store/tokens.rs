//! Tokens: hashes of secrets, and what they are for.

use super::chain::{self, Hash};
use super::{Done, Store, StoreError};
use rusqlite::{Connection, params};

/// A token as it is kept: the secret itself is not.
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
    /// Seconds since 1970.
    pub created: i64,
}

impl StoredToken {
    /// The seal of its row: what it may do must be what it was given.
    fn seal(&self) -> Hash {
        let tenant = self.tenant.as_deref();
        let known: &[u8] = if tenant.is_some() { b"1" } else { b"0" };
        chain::seal(&[
            b"token",
            self.name.as_bytes(),
            self.hash.as_bytes(),
            self.scope.as_bytes(),
            known,
            tenant.unwrap_or_default().as_bytes(),
            &self.created.to_be_bytes(),
        ])
    }
}

/// All tokens by name, each with whether its seal fits.
fn sealed_tokens(connection: &Connection) -> rusqlite::Result<Vec<(StoredToken, bool)>> {
    let sql = "SELECT name, hash, scope, tenant, created, seal FROM token ORDER BY name";
    let mut select = connection.prepare(sql)?;
    let rows = select.query_map([], |row| {
        let token = StoredToken {
            name: row.get(0)?,
            hash: row.get(1)?,
            scope: row.get(2)?,
            tenant: row.get(3)?,
            created: row.get(4)?,
        };
        let fits = chain::read(row.get_ref(5)?.as_blob_or_null()?) == Some(token.seal());
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

    /// Keeps a token; `false` if there is one of that name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put_token(&mut self, token: &StoredToken) -> Done<bool> {
        let sql =
            "INSERT OR IGNORE INTO token (name, hash, scope, tenant, created, seal) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let values = params![token.name, token.hash, token.scope, token.tenant, token.created, token.seal()];
        let put = self.connection.execute(sql, values).map_err(StoreError::sqlite("storing a token"))?;
        Ok(put == 1)
    }

    /// Forgets a token; `false` if there was none of that name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn drop_token(&mut self, name: &str) -> Done<bool> {
        let gone = self
            .connection
            .execute("DELETE FROM token WHERE name = ?1", [name])
            .map_err(StoreError::sqlite("deleting a token"))?;
        Ok(gone == 1)
    }
}

fn damaged(name: &str) -> String {
    let name = name.escape_debug();
    format!("the row of token '{name}' is damaged, so the token is not accepted; revoke it and create another")
}
