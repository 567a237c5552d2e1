//! `arles token`: keys to the API.
//!
//! A secret is told once. So where it is to go to a file, the file is there before the secret is made, and if it cannot be written all the same, what was
//! made is taken back.

use crate::fault::remark;
use crate::files::SecretFile;
use crate::jobs::harmless;
use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::quantity::{positive_seconds, seconds, span};
use crate::server::{self, EXIT_CODES, ServerFlags};
use anyhow::{Context, Result};
use arles_api as api;
use arles_api::client::encode;
use arles_daemon::access::Scope;
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::PathBuf;

/// Create, list, rotate and revoke tokens
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Create(Create),
    List(List),
    Rotate(Rotate),
    Revoke(Revoke),
}

/// Create a token; its secret is printed once, on stdout
#[derive(Args)]
struct Create {
    /// Unique name of the token
    name: String,
    /// Scope: tenant, read, operator or admin
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    scope: Scope,
    /// Tenant it belongs to, for scope tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Time until it expires, such as 90d [default: never]
    #[arg(long, value_name = "TIME", value_parser = positive_seconds)]
    expires: Option<f64>,
    /// Write the secret to this new file, readable by you only, instead of stdout
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// Give a token a new secret; the old one works for a while
#[derive(Args)]
struct Rotate {
    /// Name of the token
    name: String,
    /// How long the old secret still works
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = seconds)]
    overlap: f64,
    /// Time until the new secret expires [default: as long as the token was made for]
    #[arg(long, value_name = "TIME", value_parser = positive_seconds)]
    expires: Option<f64>,
    /// Write the secret to this new file, readable by you only, instead of stdout
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// List the tokens, without their secrets
#[derive(Args)]
struct List {
    #[command(flatten)]
    output: OutputFlag,
    #[command(flatten)]
    server: ServerFlags,
}

/// Revoke a token immediately; its event streams end
#[derive(Args)]
struct Revoke {
    /// Name of the token
    name: String,
    #[command(flatten)]
    server: ServerFlags,
}

fn scope(text: &str) -> Result<Scope, String> {
    Scope::named(text).ok_or_else(|| format!("'{text}' is not a scope; expected tenant, read, operator or admin"))
}

impl Token {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<()> {
        match &self.action {
            Action::Create(create) => create.run(out),
            Action::List(list) => list.run(out),
            Action::Rotate(rotate) => rotate.run(out),
            Action::Revoke(revoke) => {
                let path = format!("/v1/tokens/{}", encode(&revoke.name));
                let token: api::Token = revoke.server.client()?.delete(&path).map_err(server::fault)?;
                Ok(writeln!(out, "token {} revoked", harmless(&token.name))?)
            }
        }
    }
}

impl Create {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let client = self.server.client()?;
        let file = self.to.as_deref().map(SecretFile::create).transpose()?;
        let request = api::TokenRequest {
            name: self.name.clone(),
            scope: self.scope,
            tenant: self.tenant.clone(),
            expires_seconds: self.expires,
        };
        let mut token: api::Token = client.post("/v1/tokens", &request, None).map_err(server::fault)?;
        if let Some(file) = file
            && let Err(error) = hand_over(&mut token, file)
        {
            let name = harmless(&token.name);
            let undone = client.delete::<api::Token>(&format!("/v1/tokens/{}", encode(&token.name)));
            return Err(match undone {
                Ok(_) => error.context(format!("token {name} was not created")),
                Err(_) => error.context(format!("token {name} was created and its secret is lost; revoke it")),
            });
        }
        tell(out, self.output.output, token)
    }
}

impl Rotate {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let client = self.server.client()?;
        let file = self.to.as_deref().map(SecretFile::create).transpose()?;
        let request = api::RotateRequest { overlap_seconds: self.overlap, expires_seconds: self.expires };
        let path = format!("/v1/tokens/{}/rotate", encode(&self.name));
        let mut token: api::Token = client.post(&path, &request, None).map_err(server::fault)?;
        if let Some(file) = file {
            hand_over(&mut token, file).with_context(|| {
                let name = harmless(&token.name);
                format!("the new secret of {name} is lost; rotate it again while the old one works")
            })?;
        }
        let name = harmless(&token.name);
        match self.overlap > 0.0 {
            true => remark(format_args!("the old secret of {name} works for another {}", span(self.overlap))),
            false => remark(format_args!("the old secret of {name} no longer works")),
        }
        tell(out, self.output.output, token)
    }
}

/// Puts the secret into a file, and nowhere else.
fn hand_over(token: &mut api::Token, file: SecretFile) -> Result<()> {
    let secret = token.secret.take().unwrap_or_default();
    let path = file.path().to_owned();
    file.keep(&format!("{secret}\n"))?;
    remark(format_args!("secret of token {} written to {}", harmless(&token.name), path.display()));
    Ok(())
}

/// Prints a token that was just made, with its secret unless that is in a file.
fn tell(out: &mut dyn Write, format: Format, token: api::Token) -> Result<()> {
    match format {
        Format::Table => {
            if let Some(secret) = &token.secret {
                writeln!(out, "{secret}")?;
                remark(format_args!("the secret of {} is not shown again", harmless(&token.name)));
            }
            Ok(())
        }
        Format::Json => output::json(out, &token),
        Format::Csv => {
            let columns = ["name", "scope", "tenant", "secret"].map(|name| Column::left(name, name));
            let mut table = Table::new(columns.into());
            let texts = [Some(token.name), Some(token.scope), token.tenant, token.secret];
            table.row(texts.map(|text| text.unwrap_or_default().into()).into());
            Ok(write!(out, "{}", table.csv())?)
        }
    }
}

impl List {
    fn run(&self, out: &mut dyn Write) -> Result<()> {
        let tokens: api::Tokens = self.server.client()?.get("/v1/tokens").map_err(server::fault)?;
        // Tokens are made by the wall's clock, not by the scheduler's.
        let now = arles_daemon::clock::wall().seconds();
        let mut table = Table::new(vec![
            Column::left("token", "name"),
            Column::left("scope", "scope"),
            Column::left("tenant", "tenant"),
            Column::right("age", "created_at"),
            Column::right("expires", "expires_at"),
            Column::right("last used", "last_used_at"),
        ]);
        for token in &tokens.tokens {
            table.row(vec![
                harmless(&token.name).into(),
                token.scope.as_str().into(),
                harmless(token.tenant.as_deref().unwrap_or_default()).into(),
                Cell::number(span(now - token.created_at), token.created_at),
                time(token.expires_at, |at| if at > now { format!("in {}", span(at - now)) } else { "expired".into() }),
                time(token.last_used_at, |at| format!("{} ago", span(now - at))),
            ]);
        }
        output::print(out, self.output.output, &table, &tokens.tokens)
    }
}

/// A time, or never.
fn time(at: Option<f64>, text: impl Fn(f64) -> String) -> Cell {
    at.map_or_else(|| Cell::named("never", ""), |at| Cell::number(text(at), at))
}
