//! `arles token`: keys to the API.

use crate::jobs::harmless;
use crate::output::{self, Cell, Column, Format, OutputFlag, Table};
use crate::quantity::span;
use crate::server::{self, EXIT_CODES, ServerFlags};
use crate::{fault::remark, files};
use anyhow::Result;
use arles_api as api;
use arles_api::client::encode;
use arles_daemon::access::Scope;
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::PathBuf;

/// Create, list and revoke tokens
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
    /// Write the secret to this file, readable by you only, instead of stdout
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

/// Revoke a token immediately
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
        let request = api::TokenRequest { name: self.name.clone(), scope: self.scope, tenant: self.tenant.clone() };
        let client = self.server.client()?;
        let mut token: api::Token = client.post("/v1/tokens", &request, None).map_err(server::fault)?;
        if let (Some(path), Some(secret)) = (&self.to, token.secret.take_if(|_| self.to.is_some())) {
            files::write_private(path, &format!("{secret}\n"))?;
            remark(format_args!("secret of token {} written to {}", harmless(&token.name), path.display()));
        }
        match self.output.output {
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
        ]);
        for token in &tokens.tokens {
            table.row(vec![
                harmless(&token.name).into(),
                token.scope.as_str().into(),
                harmless(token.tenant.as_deref().unwrap_or_default()).into(),
                Cell::number(span(now - token.created_at), token.created_at),
            ]);
        }
        output::print(out, self.output.output, &table, &tokens.tokens)
    }
}
