//! `halofy policy`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use halofy_core::{AbTest, ConflictReview, DriverRef, Namespace, Policy, RateLimit};
use halofy_gate::{PolicySet, PolicyView};

use super::output::{self, line};
use super::settings::Settings;
use super::target::Target;
use crate::http::Command;

/// The flags that set one field each.
const FIELDS: [&str; 11] = [
    "retriever",
    "ab",
    "shadow",
    "allow_unsigned",
    "token_budget",
    "rate",
    "suspended",
    "conflict_review",
    "verifier",
    "model_tokens_per_day",
    "data_region",
];

/// Show and set policies.
#[derive(Debug, Subcommand)]
pub(crate) enum Policies {
    /// Show a namespace's policy, and what holds with those above it.
    Get {
        /// Whose.
        namespace: Namespace,
    },
    /// Set a namespace's policy. What is not given stays as it is.
    Set(Box<Set>),
}

/// Set a namespace's policy. What is not given stays as it is.
#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Whose.
    namespace: Namespace,
    /// The driver that serves: name, name@version or name@sha256:digest.
    #[arg(long, value_name = "DRIVER", conflicts_with = "ab")]
    retriever: Option<DriverRef>,
    /// Split queries: A,B,PERCENT sends so many per cent of query texts to B.
    #[arg(long, value_name = "A,B,PERCENT")]
    ab: Option<String>,
    /// A driver that ranks the same queries beside it, is measured, and never serves.
    #[arg(long, value_name = "DRIVER")]
    shadow: Option<DriverRef>,
    /// Whether a driver that nobody signed may serve here and below.
    #[arg(long)]
    allow_unsigned: Option<bool>,
    /// Tokens of a search that names none.
    #[arg(long, value_name = "TOKENS")]
    token_budget: Option<u32>,
    /// Requests of each key: PER_SECOND,BURST.
    #[arg(long, value_name = "PER_SECOND,BURST")]
    rate: Option<String>,
    /// Refuse every call here and below (true), or no longer (false).
    #[arg(long)]
    suspended: Option<bool>,
    /// What becomes of facts that contradict each other: auto, review or off.
    #[arg(long, value_name = "HOW", value_parser = conflict_review)]
    conflict_review: Option<ConflictReview>,
    /// Whether a model checks what a model drew from a text.
    #[arg(long)]
    verifier: Option<bool>,
    /// Tokens that the namespace may spend on the language model in a day.
    #[arg(long, value_name = "TOKENS")]
    model_tokens_per_day: Option<u64>,
    /// The region that content may be sent to, such as eu.
    #[arg(long, value_name = "REGION")]
    data_region: Option<String>,
    /// The whole policy as JSON, instead of the flags above.
    #[arg(long, value_name = "JSON", conflicts_with_all = FIELDS)]
    doc: Option<String>,
    /// Although a driver that it names would not serve.
    #[arg(long)]
    force: bool,
    /// Clear what is not given, in place of keeping it.
    #[arg(long)]
    replace: bool,
}

fn conflict_review(name: &str) -> Result<ConflictReview, String> {
    match name {
        "auto" => Ok(ConflictReview::Auto),
        "review" => Ok(ConflictReview::Review),
        "off" => Ok(ConflictReview::Off),
        _ => Err("must be auto, review or off".to_owned()),
    }
}

impl Policies {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let command = match self {
            Self::Get { namespace } => Command::PolicyGet { namespace },
            Self::Set(set) => set.command()?,
        };
        let target = Target::for_operator(settings).await?;
        let reply = target.command(&command).await;
        target.close().await;
        let reply = reply?;
        if settings.json {
            output::json(&reply);
        } else {
            print(&serde_json::from_value(reply)?)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Set {
    fn command(self) -> Result<Command> {
        let policy = match &self.doc {
            Some(doc) => serde_json::from_str(doc).context("--doc is not a policy")?,
            None => Policy {
                retriever: self.retriever,
                ab_test: self.ab.as_deref().map(split).transpose()?,
                shadow: self.shadow,
                allow_unsigned: self.allow_unsigned,
                token_budget: self.token_budget,
                rate_limit: self.rate.as_deref().map(rate).transpose()?,
                suspended: self.suspended,
                conflict_review: self.conflict_review,
                verifier: self.verifier,
                model_tokens_per_day: self.model_tokens_per_day,
                data_region: self.data_region,
            },
        };
        Ok(Command::PolicySet {
            namespace: self.namespace,
            policy,
            how: PolicySet {
                force: self.force,
                // A whole document is the whole policy.
                replace: self.replace || self.doc.is_some(),
            },
        })
    }
}

fn split(text: &str) -> Result<AbTest> {
    let [a, b, percent] = text.split(',').collect::<Vec<_>>()[..] else {
        bail!("--ab takes A,B,PERCENT, such as baseline,keyword,25");
    };
    Ok(AbTest {
        a: a.parse()?,
        b: b.parse()?,
        pct_b: percent
            .parse()
            .context("the per cent of --ab is not 0 to 100")?,
    })
}

fn rate(text: &str) -> Result<RateLimit> {
    let Some((per_second, burst)) = text.split_once(',') else {
        bail!("--rate takes PER_SECOND,BURST, such as 200,400");
    };
    Ok(RateLimit {
        per_second: per_second.parse().context("the rate is not a number")?,
        burst: burst.parse().context("the burst is not a number")?,
    })
}

fn print(view: &PolicyView) -> Result<()> {
    match (&view.policy, view.version) {
        (Some(policy), Some(version)) => {
            let doc = serde_json::to_string(policy)?;
            line(format_args!("{} version {version}: {doc}", view.namespace));
        }
        _ => line(format_args!("{} has no policy of its own", view.namespace)),
    }
    let effective = &view.effective;
    line(format_args!(
        "in force: retriever {}{}{}, {} tokens, {} requests/s (burst {}){}",
        effective.retriever,
        match &effective.shadow {
            Some(shadow) => format!(", shadow {shadow}"),
            None => String::new(),
        },
        match effective.allow_unsigned {
            true => ", UNSIGNED DRIVERS ALLOWED",
            false => "",
        },
        effective.token_budget,
        effective.requests_per_second,
        effective.burst,
        if effective.suspended {
            ", SUSPENDED"
        } else {
            ""
        },
    ));
    line(format_args!(
        "writing: conflicts {}, verifier {}, model {}, region {}",
        effective.conflict_review,
        if effective.verifier { "on" } else { "off" },
        match effective.model_tokens_per_day {
            Some(cap) => format!("{cap} tokens a day"),
            None => "without a cap".to_owned(),
        },
        effective.data_region.as_deref().unwrap_or("any"),
    ));
    for name in &view.unmounted {
        line(format_args!(
            "warning: {name} does not serve; the baseline does in its place"
        ));
    }
    Ok(())
}
