//! Tokens: hashes of secrets, and what they are for.

use super::{Done, Store, StoreError};
use rusqlite::params;

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
    /// What tells it from a later token of the same name.
    pub id: String,
}

impl Store {
    /// All tokens, by name.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn tokens(&self) -> Done<Vec<StoredToken>> {
        let doing = StoreError::sqlite("reading tokens");
        let sql =
            "SELECT name, hash, scope, tenant, created, coalesce(id, substr(hash, 1, 16)) FROM token ORDER BY name";
        let mut select = self.connection.prepare(sql).map_err(&doing)?;
        let rows = select.query_map([], |row| {
            Ok(StoredToken {
                name: row.get(0)?,
                hash: row.get(1)?,
                scope: row.get(2)?,
                tenant: row.get(3)?,
                created: row.get(4)?,
                id: row.get(5)?,
            })
        });
        rows.and_then(Iterator::collect).map_err(doing)
    }

    /// Keeps a token; `false` if there is one of that name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put_token(&mut self, token: &StoredToken) -> Done<bool> {
        let sql =
            "INSERT OR IGNORE INTO token (name, hash, scope, tenant, created, id) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let values = params![token.name, token.hash, token.scope, token.tenant, token.created, token.id];
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
